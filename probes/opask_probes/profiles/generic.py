"""Real agents as the generic adapter of ACP is tried on them: it knows none of them, and neither does their row.

What their users set is what lets them ask by it: Kimi Code's requests name a tool in a title alone, which the generic
adapter takes for no proof, so that it is left to the host; omp's tools of MCP servers are devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from attrs import evolve, field, frozen

import opask
from opask.names import ToolName
from opask.registry import Registry
from opask_acp import AcpAdapter
from opask_probes.case import Case
from opask_probes.install import installed
from opask_probes.playing import Setting
from opask_probes.runtimes import probed_runtime
from opask_probes.sandbox import Isolation

from .acp import with_server
from .claude import CLAUDE
from .kimi import KIMI
from .omp import OMP
from .terms import Launch, Mode, Profile

__all__ = ["GENERIC", "Agent", "case_of_agent"]

_MODES: Final[Mapping[Mode, str]] = {"bypass": "bypassPermissions"}
_NO_LIMIT: Final = {"long-wait": "the generic adapter lifts no limit of an agent that it does not know"}


@frozen(kw_only=True)
class Agent:
    """An agent that the generic adapter does not know.

    Args:
        spelled_by: the runtime whose adapter spells the tool as the agent's model has to write it.
        profile: how the scenarios play to it.
        row: what to expect of it, in the place of what a row of its own says.
    """

    spelled_by: str
    profile: Profile
    row: Mapping[str, Any] = field(repr=False)


class _Spelled(AcpAdapter):
    """The generic adapter, and for the script how a model spells a tool; nothing else asks it for that."""

    spelled_by: str

    def spellings(self, name: ToolName, /) -> Mapping[str, str]:
        found: Any = opask.adapter(self.spelled_by)
        spelled: Mapping[str, str] = found.spellings(name)
        return spelled


def _claude(program: str, prompt: str, mode: Mode) -> Launch:
    # By default it lets a model decide what may run.
    permissions = f'{{"permissions": {{"defaultMode": "{_MODES.get(mode, "default")}"}}}}'
    return Launch((program,), settings={".claude/settings.json": permissions})


def _kimi(program: str, prompt: str, mode: Mode) -> Launch:
    return KIMI.launch(program, prompt, "bypass")


def _omp(program: str, prompt: str, mode: Mode) -> Launch:
    settings = {".omp/agent/config.yml": "tools: {xdev: false, intentTracing: false}\n"}
    return evolve(OMP.launch(program, prompt, mode), settings=settings)


GENERIC: Final[Mapping[str, Agent]] = {
    "claude-agent-acp": Agent(
        spelled_by="claude",
        profile=evolve(CLAUDE, launch=_claude, with_server=with_server, clause_in="prompt", unless=_NO_LIMIT),
        row={"clause_by": "a text behind the first prompt"},
    ),
    "kimi": Agent(
        spelled_by="kimi",
        profile=evolve(KIMI, launch=_kimi, clause_in="prompt", unless=_NO_LIMIT),
        row={
            "clause_by": "a text behind the first prompt",
            "native_ask": {"stays_offered": True},
            "permission": {"asked": False},
            "subagents": "none",
        },
    ),
    "omp": Agent(
        spelled_by="omp",
        profile=evolve(OMP, launch=_omp, clause_in="prompt", unless=_NO_LIMIT),
        row={"clause_by": None},  # the text has another spelling of the tool
    ),
}


def case_of_agent(name: str, isolation: Isolation, program: Path | None = None) -> Case:
    """Give an agent as the scenarios play to it by the generic adapter.

    Args:
        name: the agent's, of `GENERIC`.
        isolation: the namespace that is to be had.
        program: its program; the installed one by default.

    Raises:
        OpaskError: it is not installed.
    """
    agent = GENERIC[name]
    adapter = _Spelled()
    adapter.spelled_by = agent.spelled_by
    runtime = probed_runtime(name)
    setting = Setting(
        runtime=runtime, adapter=adapter, program=program or installed(name), isolation=isolation
    )
    known = Registry.shipped().runtimes[agent.spelled_by].routes[0]
    changes = {
        key: getattr(known, key).model_copy(update=value) if isinstance(value, Mapping) else value
        for key, value in agent.row.items()
    }
    return Case(setting, agent.profile, known.model_copy(update=changes), Path())
