"""One runtime, on one route, as the scenarios play to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol, cast

from attrs import evolve, field, frozen

from opask.names import ToolName
from opask.registry_schema import RouteRow
from opask.wire import SERVER_NAME, TOOL_NAME

from .model import Call, Expect, Step
from .playing import Operator, Playing, Setting, Take, playing
from .profiles import Mode, Profile
from .scripts import MAIN, asked, scenario
from .unaided import Unaided

__all__ = ["Case"]


class _Spells(Protocol):
    def spellings(self, name: ToolName, /) -> Mapping[str, str]: ...


@frozen
class Case:
    """What a scenario is given.

    Args:
        setting: what the probe's runs have in common.
        profile: the runtime, on the route.
        row: what the registry says of it.
        scratch: a folder for files of a scenario's own.
        takes: the runs that its scenario has begun.
    """

    setting: Setting
    profile: Profile
    row: RouteRow = field(repr=False)
    scratch: Path
    takes: list[Take] = field(factory=list, repr=False)

    def spelled(self, server: str, tool: str = TOOL_NAME) -> str:
        """Give how the model has to write an MCP tool."""
        return cast("_Spells", self.setting.adapter).spellings(ToolName(server, tool))["model"]

    @property
    def tool(self) -> str:
        """The ask tool, as the model has to write it."""
        return self.spelled(SERVER_NAME)

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Call:
        """Make the call of an MCP tool, by its name as the model has it."""
        device = self.profile.device
        return Call(tool, arguments) if device is None else device.call(tool, arguments)

    def ask(self, text: str) -> Call:
        """Make the call that asks a question."""
        return self.call(self.tool, asked(text))

    @property
    def offer(self) -> Expect:
        """Expect that the ask tool is offered and named to the model, and the runtime's own is not."""
        named = (self.tool,) if self.row.clause_by is not None else ()
        in_system = self.profile.clause_in == "system"
        native = self.row.native_ask
        absent = () if native.stays_offered else native.names
        device = self.profile.device
        listed = () if device is None else (device.listed(self.tool),)
        return Expect(
            offered=() if device else (self.tool,),
            absent=(*absent, self.tool) if device else absent,
            system_contains=(*listed, *named) if in_system else listed,
            text_contains=() if in_system else named,
        )

    def heard(self, step: Step) -> Step:
        """Leave out of a step whether results are errors, where the model's service cannot say it."""
        results = step.expect.results
        if self.profile.marks_errors or results is None:
            return step
        unmarked = tuple(evolve(result, is_error=None) for result in results)
        return evolve(step, expect=evolve(step.expect, results=unmarked))

    @asynccontextmanager
    async def playing(
        self,
        *steps: Step,
        operator: Operator | None,
        sub: tuple[Step, ...] = (),
        mode: Mode = "plain",
        env: Mapping[str, str] | None = None,
        interpreter: Path | None = None,
        server: tuple[str, tuple[str, ...]] | None = None,
    ) -> AsyncIterator[Playing]:
        """Start the runtime for the length of a block, in which its prompt has been given.

        Args:
            steps: what the model says to the main agent.
            operator: who answers; None for nobody.
            sub: what it says to the sub-agent.
            mode: how the runtime is launched.
            env: variables of its user.
            interpreter: the Python that runs the relay.
            server: name and command of a foreign MCP server.
        """
        launch = self.profile.launch(str(self.setting.program), MAIN, mode)
        if server is not None and self.profile.with_server is not None:
            launch = self.profile.with_server(launch, *server)
        adapter = launch.adapted(self.setting.adapter)
        async with playing(
            evolve(self.setting, adapter=Unaided(adapter) if self.row.is_native else adapter),
            scenario("probe", *map(self.heard, steps), sub=tuple(map(self.heard, sub))),
            launch.argv,
            prompt=MAIN,
            prompter=operator,
            env={**launch.env, **(env or {})},
            settings=launch.settings,
            refuse=self.profile.refuse,
            interpreter=interpreter,
        ) as run:
            self.takes.append(run.take)
            await run.prompt()
            yield run

    async def run(self, *steps: Step, operator: Operator | None, **more: Any) -> Take:
        """Run the runtime to its end; see `playing` for the arguments."""
        async with self.playing(*steps, operator=operator, **more) as run:
            await run.to_the_end()
        return run.take
