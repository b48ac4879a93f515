"""The write gate: an agent that starts read-only, and asks for each change that it wants to make.

A policy for the driver (``start(…, policy=gate)``), or for a host that drives a runtime itself. Reads pass; a write is put
to the operator as a proposal, unless a grant covers it; what reaches other machines is put each time. Without an operator
it is denied: the agent gets a tool error and stays read-only. Every verdict on a write is traced. Needs the extra ``gate``.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal

from attrs import evolve

from opask.asking import DEFAULT_WAIT, Asked, put
from opask.effects import Finding, Tools
from opask.events import Event, SessionReady, TurnEnded
from opask.grants import Grants, Step
from opask.outcomes import Answered, Cancelled, Skipped
from opask.permissions import Allow, Deny, PermissionRequested
from opask.prompter import Prompter, current_prompter
from opask.proposals import CANNOT_SHOW, Scope, chosen_scope, shown_arguments, why_not, write_question
from opask.shell import DEFAULT, Profile, ReadOnly, classify, ready
from opask.trace import trace_write

__all__ = ["WriteGate"]

_RULE: Final = "write gate"
_READ: Final = Allow("read-only")


class WriteGate:
    """Decides on every step of an agent that starts read-only.

    Args:
        tools: what is known of the runtime's tools (``adapter.tools``), with the host's own; the rest are writes.
        prompter: who asks; by default the one that is carried in the context. None there too: every write is denied.
        profile: which shell commands are reads.
        wait: how long the operator may take for a proposal; None for as long as it takes.
        protects: files and folders by which this very gate is decided (an inbox): whatever names one of them, and is no
            read, is asked about each time, whatever was granted.

    Raises:
        GateError: the extra ``gate`` is not installed.
    """

    def __init__(
        self,
        tools: Tools = Tools(),  # noqa: B008 - frozen
        prompter: Prompter | None = None,
        *,
        profile: Profile = DEFAULT,
        wait: timedelta | None = DEFAULT_WAIT,
        protects: Collection[Path] = (),
    ) -> None:
        ready()
        self._tools = tools
        self._prompter = prompter if prompter is not None else current_prompter()
        self._profile = profile
        self._wait = wait
        self._protected = tuple(
            {_plain(str(each)) for path in protects for each in (path, path.absolute(), path.name)}
        )
        self._grants = Grants()

    def hear(self, event: Event) -> None:
        """Hear an event of a session (``session.subscribe(gate.hear)``): a turn's grants end with it.

        Where a session of the same id begins anew, it begins with no grants.
        """
        if isinstance(event, TurnEnded) and event.agent_id is None:
            self._grants.turn_ended(event.session_id, event.turn_id)
        elif isinstance(event, SessionReady):
            self._grants.session_ended(event.session_id)

    def end_session(self, session_id: str) -> None:
        """Take back every grant of a session."""
        self._grants.session_ended(session_id)

    async def __call__(self, request: PermissionRequested) -> Allow | Deny:
        """Decide on a call that a runtime asks about."""
        if request.ask == "native":
            return Deny("The runtime's own ask tool does not reach the operator.", rule="native ask tool")
        if not request.tool and not request.options:
            return Deny("This asks for nothing that could be allowed.", rule="no tool")
        finding = self.finding(request.tool, request.arguments)
        return await self._decide(
            finding,
            request.tool,
            request.arguments,
            Step(request.session_id, request.turn_id, request.agent_id, finding.effect),
            request.tool_call_id,
        )

    async def propose(
        self,
        what: str,
        *,
        effect: Literal["write", "external"],
        call: str,
        session_id: str,
        arguments: Mapping[str, Any] | None = None,
        turn_id: str | None = None,
        agent_id: str | None = None,
        call_id: str | None = None,
    ) -> Allow | Deny:
        """Decide on a call of the host's own, of an effect that the host states.

        Args:
            what: what is to be done, as in "open a pull request": a person reads "The agent wants to …".
            effect: what it changes.
            call: the call's name, for the trace.
            session_id: the session.
            arguments: shown to the operator in full.
            turn_id: the turn; without one no grant for a turn holds.
            agent_id: the sub-agent that it is for.
            call_id: names the call.
        """
        step = Step(session_id, turn_id, agent_id, effect)
        return await self._decide(Finding(effect, what), call, arguments, step, call_id)

    def finding(self, tool: str, arguments: Mapping[str, Any] | None) -> Finding:
        """Tell what a call of a tool changes."""
        found = Finding.of_tool(self._tools, tool, arguments)
        if found is None:
            found = self._shell(tool, arguments or {})
        if found.effect == "write" and self._names_protected(arguments):
            return evolve(found, effect="external", why="it names the inbox by which this is decided")
        return found

    def _shell(self, tool: str, arguments: Mapping[str, Any]) -> Finding:
        shell = self._tools.shells[tool]
        verdict = classify(arguments[shell.command], self._profile)
        other = sorted(arguments.keys() - shell.harmless - {shell.command})
        if not isinstance(verdict, ReadOnly):
            return Finding(verdict.effect, "run a shell command", f"{verdict.where}: {verdict.reason}")
        if other:
            return Finding("write", "run a shell command", f"{', '.join(other)} may change what it does")
        return Finding("read", "run a shell command")

    def _names_protected(self, arguments: Mapping[str, Any] | None) -> bool:
        if not self._protected or not arguments:
            return False
        try:
            text = json.dumps(arguments, ensure_ascii=False, default=str)
        except (TypeError, ValueError, RecursionError):
            return True
        text = _plain(text)
        return any(name in text for name in self._protected)

    async def _decide(
        self,
        finding: Finding,
        tool: str,
        arguments: Mapping[str, Any] | None,
        step: Step,
        call_id: str | None,
    ) -> Allow | Deny:
        if finding.effect == "read":
            return _READ
        covered = self._grants.covers(step)
        if covered is not None:
            self._trace(tool, step, call_id, covered, source="active_scope")
            return Allow(f"{_RULE}: {covered}")
        shown = shown_arguments(arguments)
        if shown is None:
            self._trace(tool, step, call_id, None, source="headless_denied")
            return Deny(
                CANNOT_SHOW,
                rule=_RULE,
            )
        question, scopes = write_question(finding.what, shown, finding.effect, finding.why)
        asked: Asked | None = None
        granted: Scope | None = None
        life = self._grants.life(step.session_id)
        try:
            asked = await put(
                self._prompter,
                (question,),
                session_id=step.session_id,
                kind="write",
                wait=self._wait,
                tool_call_id=call_id,
                agent_id=step.agent_id,
            )
            chosen = chosen_scope(asked.outcome, scopes)
            granted = None if chosen is None else self._grants.grant(step, chosen, life)
        finally:  # also where this is cancelled, as its turn is interrupted
            self._trace(tool, step, call_id, granted, source=_source(asked), asked=asked)
        if granted is None:
            return Deny(why_not(asked.outcome), rule=_RULE)
        return Allow(f"{_RULE}: {granted}")

    def _trace(
        self,
        tool: str,
        step: Step,
        call_id: str | None,
        scope: Scope | None,
        *,
        source: Literal["operator", "active_scope", "headless_denied"],
        asked: Asked | None = None,
    ) -> None:
        trace_write(
            session_id=step.session_id,
            turn_id=step.turn_id,
            agent_id=step.agent_id,
            tool_call_id=call_id,
            question_id=None if asked is None else asked.ask.id,
            tool=tool,
            effect=step.effect,
            scope=scope,
            source=source,
        )


def _plain(text: str) -> str:
    """Return a text without what a shell takes out of a name (quotes, backslashes), as some file systems compare it."""
    return re.sub(r"\\\\\\n|[\\'\"]", "", unicodedata.normalize("NFC", text)).casefold()


def _source(asked: Asked | None) -> Literal["operator", "headless_denied"]:
    """Tell whether an operator decided, in whatever way."""
    outcome = None if asked is None else asked.outcome
    decided = isinstance(outcome, Answered | Skipped) or (
        isinstance(outcome, Cancelled) and outcome.by == "operator"
    )
    return "operator" if decided else "headless_denied"
