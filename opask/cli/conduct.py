"""Conduct a runtime through one turn: bridge, session, driver, and what a person or a program sees of it."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

import anyio
from anyio.abc import TaskStatus
from attrs import field, frozen

from opask.adapters import Adapter
from opask.bridge import Bridge
from opask.cli.gating import Permissions, policy_for
from opask.cli.logs import logging_to
from opask.cli.operators import Operator
from opask.cli.ordering import InOrder, ShownScript
from opask.cli.output import EventLines, Feed, Stream, Teller, Writer
from opask.cli.stopping import Stopping
from opask.driver import RunResult, start
from opask.events import Event, QuestionResolved, SessionReady
from opask.inert import inert_line, shorten
from opask.launch import LaunchRequest
from opask.prompter import Prompter
from opask.questions import question_keys
from opask.registry import Support
from opask.surfaces import prompter_for_terminal
from opask.testing import Scripted

if TYPE_CHECKING:
    from opask.inbox import InboxPrompter, Recorder, SqliteStore, WhenAbsent
    from opask.surfaces.plain import PlainPrompter
    from opask.surfaces.terminal import TerminalPrompter

__all__ = ["Errand", "conduct"]

_FIRST_WATCHER: Final = timedelta(seconds=60)
_FLUSH_S: Final = 2.0  # for an output that blocks, once the run was interrupted
_WHY_LENGTH: Final = 300


@frozen
class Errand:
    """One run of a runtime.

    Args:
        command: the command that runs it, for messages.
        adapter: the runtime's.
        argv: the launch as it would be without opask.
        env: its environment.
        prompt: what the agent is to do.
        operator: who is asked.
        cwd: where it runs, absolute; here, unless told.
        refuse: names of changes of the launch that are not wanted.
        wait: how long the operator may take for an ask; None for as long as it takes.
        as_events: whether events go to stdout, for a program, in place of the turn.
        allow_unverified: whether a route that nobody has seen to work may be used.
        version: the runtime's, where it was asked for.
        inbox: the inbox that asks are put into, beside the operator's surface; None for none, or the user's own for
            the web surface.
        when_absent: what is done where nobody watches the inbox.
        permissions: who decides on what the runtime asks permission for.
    """

    command: str
    adapter: Adapter
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    prompt: str
    operator: Operator
    cwd: Path = field(factory=Path.cwd)
    refuse: frozenset[str] = frozenset()
    wait: timedelta | None = timedelta(minutes=5)
    as_events: bool = False
    allow_unverified: bool = False
    version: str | None = None
    inbox: Path | None = None
    when_absent: WhenAbsent = "unavailable"
    permissions: Permissions = "deny"


def conduct(errand: Errand) -> int:
    """Run an errand to its end, whatever that is.

    Returns:
        The exit code: 0 where the agent is done, 1 where it failed, 128+n where signal n ended the run.

    Raises:
        OpaskError: it could not be begun.
    """
    code, is_stuck = anyio.run(_conduct, errand, backend="asyncio")
    if is_stuck:
        os._exit(code)  # a thread holds an output that the interpreter would wait for
    return code


async def _conduct(errand: Errand) -> tuple[int, bool]:
    conductor = _Conductor(errand)
    await conductor.run()
    return conductor.end(), conductor.is_stuck


class _Conductor:
    def __init__(self, errand: Errand) -> None:
        self._errand = errand
        self._stopping = Stopping()
        self._outcomes: Counter[str] = Counter()
        self._result: RunResult | None = None
        self._output_fault: Exception | None = None
        self.is_stuck = False
        stream = sys.stderr if errand.as_events else sys.stdout
        surface = self._shown = self._surface(stream)
        # Where a card may be open, all text for that terminal has to go by its surface.
        self._notes: Writer = surface if surface and sys.stderr.isatty() else Stream(sys.stderr)
        self._teller = Teller(surface or Stream(stream))
        self._sink = EventLines(sys.stdout.fileno()) if errand.as_events else self._teller
        self._feed = Feed(self._show, self._gone)
        self._script = self._scripted()
        self._prompter: Prompter | None = self._script or surface
        self._order: InOrder | None = None
        self._support: Callable[[str | None], Support] | None = None
        if not errand.as_events and (asker := self._script or surface) is not None:
            self._prompter = self._order = InOrder(asker, self._feed, self._teller)

    def _surface(self, stream: TextIO) -> TerminalPrompter | PlainPrompter | None:
        operator = self._errand.operator
        if operator.surface != "terminal" or operator.answers is not None:
            return None
        return prompter_for_terminal(stdout=stream, on_interrupt=self._stopping.interrupt)

    def _scripted(self) -> Scripted | None:
        answers = self._errand.operator.answers
        if answers is None:
            return None
        if self._errand.as_events:
            return Scripted(answers, by="script")
        return ShownScript(answers, self._feed, self._teller)

    async def run(self) -> None:
        """Run it, with the output and the signals looked after."""
        with logging_to(self._notes):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._stopping.watch)
                try:
                    with self._stopping.scope:
                        await self._run()
                finally:
                    # What was asked has settled by now; it has to be told.
                    self._stopping.scope = anyio.CancelScope(shield=True)
                    with self._stopping.scope, anyio.move_on_after(_FLUSH_S if self._is_stopped else None):
                        await self._feed.finish()
                    self.is_stuck = not self._feed.is_finished
                tasks.cancel_scope.cancel()

    async def _run(self) -> None:
        session_id = f"{self._errand.command}-{secrets.token_hex(4)}"
        async with AsyncExitStack() as stack:
            recorder = None
            if self._errand.inbox is not None or self._is_on_page:
                recorder = await self._use_inbox(session_id, stack)
            await self._run_session(session_id, recorder)

    @property
    def _is_on_page(self) -> bool:
        return self._errand.operator.surface == "web" and self._script is None

    async def _use_inbox(self, session_id: str, stack: AsyncExitStack) -> Recorder:
        """Put asks into an inbox, where the operator's surface here is one of those that show them."""
        from opask.inbox import InboxError, InboxPrompter, SqliteStore, attend, default_path, show

        errand, surface = self._errand, self._prompter
        store = await stack.enter_async_context(SqliteStore(errand.inbox or default_path()))
        if self._is_on_page:
            await self._show_page(store, stack)
        prompter = await stack.enter_async_context(InboxPrompter(store, when_absent=errand.when_absent))
        recorder = await stack.enter_async_context(
            prompter.session(session_id, runtime=errand.adapter.runtime, title=errand.prompt)
        )
        self._prompter = prompter
        if self._is_on_page:
            await self._await_page(store, prompter, session_id)
        if surface is not None and surface.available(session_id):
            name = "script" if self._script is not None else "terminal"

            async def show_here(*, task_status: TaskStatus[None]) -> None:
                async with attend(store, name, session_ids=[session_id]):
                    task_status.started()
                    try:
                        await show(store, surface, name, session_ids=[session_id])
                    except InboxError as error:  # the agent goes on alone
                        self._note(f"nothing more is asked here: {error}")

            tasks = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(tasks.cancel_scope.cancel)
            await tasks.start(show_here)
        return recorder

    async def _show_page(self, store: SqliteStore, stack: AsyncExitStack) -> None:
        """Have the inbox's page served, as long as the run lasts, and tell where it is."""
        from opask.cli.webpage import page_of

        def tell(link: str) -> None:
            if self._errand.as_events:
                self._tell(f"the page: {link}")
            else:
                self._feed.put(lambda: self._teller.line(f"· the page: {link}"))

        await stack.enter_async_context(page_of(store, tell))

    async def _await_page(self, store: SqliteStore, prompter: InboxPrompter, session_id: str) -> None:
        """Wait for somebody to open the page, and tell here what is asked there."""
        from opask.cli.elsewhere import Elsewhere
        from opask.cli.webpage import first_watcher

        if not self._errand.as_events:
            elsewhere = Elsewhere(prompter, self._feed, self._teller)
            self._prompter = self._order = InOrder(elsewhere, self._feed, self._teller)
        if prompter.available(session_id):
            return
        self._note(
            f"open the page; without it the agent starts in {_FIRST_WATCHER.total_seconds():g} s, and cannot ask"
        )
        await first_watcher(store, session_id, _FIRST_WATCHER)

    async def _run_session(self, session_id: str, recorder: Recorder | None) -> None:
        errand = self._errand
        async with (
            Bridge() as bridge,
            await bridge.attach(
                session_id,
                errand.adapter,
                self._prompter,
                wait=errand.wait,
                version=errand.version,
                allow_unverified=errand.allow_unverified,
            ) as session,
        ):
            self._support = session.support
            session.subscribe(self._feed.put)
            if recorder is not None:
                session.subscribe(recorder)
            if self._order is not None:
                session.subscribe(self._order.hear)
            # Before the scope's cancellation reaches the prompter: it is the host that cancels, not its shutdown.
            self._stopping.first = session.cancel
            plan = session.plan_launch(
                LaunchRequest(
                    errand.argv,
                    errand.env,
                    cwd=errand.cwd,
                    refuse=errand.refuse,
                    read_only=errand.permissions == "gate",
                )
            )
            policy = policy_for(
                errand.permissions, session, self._prompter, wait=errand.wait, protects=self._inbox_files
            )
            if self._prompter is not None and not plan.questions:
                remedy = (
                    "nobody has opened the page"
                    if self._is_on_page
                    else "--answers would give it answers"
                    if errand.inbox is None
                    else "open the inbox with `opask serve` first, or say --when-absent attach"
                )
                self._note(f"{plan.reason}: the agent runs without the ask tool; {remedy}")
            for unknown in plan.unknowns:
                self._note(f"not known: {unknown}")
            async with start(session, plan, cwd=errand.cwd, policy=policy, pace=self._feed.room) as runtime:
                self._stopping.hasten = runtime.kill
                await runtime.prompt(errand.prompt)
                await runtime.turn_over()
                self._result = await runtime.finish()

    @property
    def _inbox_files(self) -> tuple[Path, ...]:
        """The inbox by which permissions are decided, wherever that is."""
        from opask.inbox import default_path

        return tuple(path for path in (self._errand.inbox, default_path()) if path is not None)

    @property
    def _is_stopped(self) -> bool:
        return self._stopping.by is not None or self._output_fault is not None

    def _gone(self, error: Exception) -> None:
        self._output_fault = error
        self._stopping.stop()

    def _show(self, event: Event) -> None:
        if isinstance(event, SessionReady) and event.route and self._support and not self._errand.as_events:
            self._teller.line(f"· {self._support(event.version).summary}", "dim")
        self._sink(event)
        if isinstance(event, QuestionResolved):
            self._outcomes[event.outcome] += 1
            if self._script is not None and event.outcome == "unavailable":
                self._note(f"not answered: {event.reason}")
        if not self._errand.as_events and self._shown is not None and self._shown.is_gone:
            raise BrokenPipeError("nobody reads the turn any more")

    def _note(self, text: str) -> None:
        self._notes.write(f"opask {self._errand.command}: {inert_line(text)}\n", "warning")

    # -- how it ended ----------------------------------------------------------------------------------------------

    def end(self) -> int:
        """Say how it ended, where anybody still reads that; return the exit code."""
        code, text = self._ending()
        with contextlib.suppress(OSError, ValueError):
            if not self._errand.as_events:
                self._teller.end_line()
            if text is not None:
                self._tell(text)
            elif not self._errand.as_events and code == 0:
                self._teller.line(f"{self._errand.adapter.runtime} is done{self._summary(': ')}", "dim")
            for question in self._unused() if code == 0 else ():
                self._tell(f"--answers names {shorten(question, 80)!r}, which was not asked")
        return code

    def _ending(self) -> tuple[int, str | None]:
        """Give the exit code, and what is to be told as an error."""
        runtime = self._errand.adapter.runtime
        if self._stopping.by is not None:
            by = self._stopping.by
            return 128 + by, f"ended by {by.name}; {runtime} is ended{self._summary('; ')}"
        if self._output_fault is not None or self._result is None:
            quiet = isinstance(self._output_fault, BrokenPipeError)  # as with `| head`
            if quiet and self._outcomes.total() > self._outcomes["answered"]:
                return 1, f"nobody reads the output any more; {runtime} is ended{self._summary('; ')}"
            return 1, None if quiet else f"the output cannot be written ({self._output_fault})"
        if not self._result.ok:
            return 1, f"{runtime} failed: {_why(self._result)}{self._summary('; ')}"
        return 0, None

    def _unused(self) -> Iterator[str]:
        """Give the questions that the script names and nobody asked."""
        asked = {
            name
            for ask in (self._script.asked if self._script else ())
            for question, key in zip(ask.questions, question_keys(ask.questions), strict=True)
            for name in (question.text, key)
        }
        return (name for name in self._errand.operator.answers or () if name not in asked)

    def _tell(self, text: str) -> None:
        print(f"opask {self._errand.command}: {inert_line(text)}", file=sys.stderr, flush=True)

    def _summary(self, before: str) -> str:
        asks = self._outcomes.total()
        if not asks:
            return ""
        kinds = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in self._outcomes.most_common())
        return f"{before}asked {'once' if asks == 1 else f'{asks} times'}, {kinds}"


def _why(result: RunResult) -> str:
    """Say why a run failed, and what the runtime itself said last."""
    ended = result.stop_reason or "it ended before its turn did"
    code = f"killed by {result.signal.name}" if result.signal else f"exit code {result.exit_code}"
    said = result.stderr.splitlines() or result.text.splitlines()
    last = f"; it said: {shorten(said[-1], _WHY_LENGTH)}" if said else ""
    return f"{ended}, {code}{last}"
