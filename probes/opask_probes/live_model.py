"""The round trip with a real model, on the user's own login: what a script cannot show is which tool a model prefers.

Only ever on request, since it goes out to the model's service and costs what that costs.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from attrs import frozen

from opask.adapters import CommandLineAdapter, adapter
from opask.bridge import Bridge
from opask.driver import start
from opask.errors import OpaskError
from opask.events import NativeAskRefused, QuestionResolved
from opask.installed import told_version
from opask.launch import LaunchRequest
from opask.outcomes import Answered, Outcome, Reply
from opask.questions import Answer, Ask, Question
from opask.registry import Registry

from .playing import Take
from .probe import Finding, Report, Watch, this_platform
from .verdicts import Held, NotHeld, heard, sound

__all__ = ["LIVE_CLAIMS", "LiveClaim", "live_probe"]

_BOUND_S: Final = 300.0  # a model may think for long
_OWN_WORDS: Final = "MariaDB"
_DO: Final = (
    "Find out from your human operator {what}. Only they know; I, who wrote this, do not, and nothing in this "
    "folder tells. Decide nothing yourself and change no file. When you have their answer, reply with one sentence "
    "that quotes it word for word, and stop."
)


@frozen
class LiveClaim:
    """A claim about a real model.

    Args:
        id: its name.
        says: what it says, in a sentence.
        prompt: what the agent is told; it names no tool.
        several: whether the operator is to be given a choice of several.
    """

    id: str
    says: str
    prompt: str
    several: bool = False


LIVE_CLAIMS: Final = (
    LiveClaim(
        "live-single",
        "A real model that needs a decision asks by the supplied tool, and goes on with the answer",
        _DO.format(what="whether the service should use PostgreSQL or SQLite"),
    ),
    LiveClaim(
        "live-multi",
        "A real model that needs several choices asks for several, and goes on with exactly those",
        _DO.format(
            what="which of these three should be done first, where they may choose several: API, Web page, Docs"
        ),
        several=True,
    ),
)


class _Chooser:
    """An operator for questions that nobody knows beforehand: the last option, or the first and the last of several."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.asked: list[Ask] = []

    async def ask(self, ask: Ask, /) -> Reply:
        self.asked.append(ask)
        return Answered(tuple(map(self._choose, ask.questions)), "probe")

    def settled(self, ask: Ask, outcome: Outcome, /) -> None:
        pass

    def available(self, session_id: str, /) -> bool:
        return True

    def _choose(self, question: Question) -> Answer:
        if not question.options:
            self.words.append(_OWN_WORDS)
            return Answer((), _OWN_WORDS)
        last = len(question.options) - 1
        chosen = tuple(sorted({0, last})) if question.multi_select else (last,)
        self.words += [question.options[number].label for number in chosen]
        return Answer(chosen, None)


async def live_probe(
    runtime: str,
    program: Path,
    *,
    arguments: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    registry: Registry | None = None,
    watch: Watch | None = None,
) -> Report:
    """Try on a real model whether it asks; runs on asyncio.

    Args:
        runtime: the runtime's name.
        program: its program.
        arguments: more for the runtime, such as which model.
        env: its whole environment, with the user's home and login; this process's own by default.
        registry: what its version is held against; the shipped one by default.
        watch: told how it goes on.

    Raises:
        OpaskError: its adapter does not say how it is started for a prompt.
    """
    found = adapter(runtime)
    if not isinstance(found, CommandLineAdapter):
        raise OpaskError(f"{runtime}: its adapter does not say how it is started for a prompt")
    watch = watch or Watch()
    registry = registry or Registry.shipped()
    row = registry.runtimes.get(runtime)
    options = row.version_command[1:] if row is not None and row.version_command else ("--version",)
    version = await anyio.to_thread.run_sync(partial(told_version, (str(program), *options), env=env))
    support = registry.support(runtime, version)
    findings = []
    for live in LIVE_CLAIMS:
        watch.begins(live)
        begin = time.monotonic()
        argv = found.default_argv(str(program), live.prompt, arguments)
        problems = await _try(live, found, argv, dict(os.environ) if env is None else env, version)
        verdict = NotHeld(tuple(dict.fromkeys(problems))) if problems else Held()
        finding = Finding(live, verdict, round(time.monotonic() - begin, 1))
        watch.ends(finding)
        findings.append(finding)
    return Report(
        runtime=runtime,
        route=support.route or "unknown",
        version=version,
        platform=this_platform(),
        isolation="none: the user's own login, and the model's own service",
        support=support,
        day=datetime.now(UTC).date(),
        findings=tuple(findings),
        is_live=True,
    )


async def _try(
    live: LiveClaim,
    found: CommandLineAdapter,
    argv: Sequence[str],
    env: Mapping[str, str],
    version: str | None,
) -> list[str]:
    take, operator = Take(), _Chooser()
    with tempfile.TemporaryDirectory(prefix="opask-", ignore_cleanup_errors=True) as folder:
        work = Path(await anyio.Path(folder).resolve())
        with anyio.move_on_after(_BOUND_S) as bound:
            try:
                async with (
                    Bridge() as bridge,
                    await bridge.attach(
                        "live-probe",
                        found,
                        operator,
                        wait=timedelta(minutes=1),
                        version=version,
                        allow_unverified=True,
                    ) as session,
                ):
                    session.subscribe(take.events.append)
                    plan = session.plan_launch(LaunchRequest(tuple(argv), env, cwd=work))
                    async with start(session, plan, cwd=work) as running:
                        await running.prompt(live.prompt)
                        await running.turn_over()
                        take.result = await running.finish()
            except OpaskError as error:
                return [str(error)]
        if bound.cancelled_caught:
            return [f"it did not end within {_BOUND_S:g} s"]
    return [*sound(take), *_seen(live, take, operator)]


def _seen(live: LiveClaim, take: Take, operator: _Chooser) -> list[str]:
    """Give what is against a claim."""
    problems = [f"the model called {refused.tool} first" for refused in take.of(NativeAskRefused)]
    if not operator.asked:
        return [*problems, "the model did not ask by the supplied tool"]
    ends = {end.outcome for end in take.of(QuestionResolved)} - {"answered"}
    problems += [f"a question ended otherwise: {outcome}" for outcome in sorted(ends)]
    questions = [question for ask in operator.asked for question in ask.questions]
    if live.several and not any(question.multi_select for question in questions):
        problems.append("the model did not ask for several choices")
    return [*problems, *heard(take, *operator.words)]
