"""The application: a list of asks, the conversation that one of them is part of, and its card."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Final

import anyio
from rich.cells import cell_len
from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.events import Resize
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import WorkerError, WorkerFailed

from opask.inbox import (
    Entry,
    InboxError,
    LoggedEvent,
    OperatorReply,
    RefusedError,
    SessionCleared,
    Snapshot,
    Store,
    UnknownSessionError,
    attend,
    place,
)
from opask.surfaces.cells import clip
from opask.surfaces.fullscreen.board import Board, headline, standing
from opask.surfaces.fullscreen.card_pane import CardPane, styled
from opask.surfaces.fullscreen.transcript import transcript

__all__ = ["InboxApp"]

_HISTORY: Final = 200  # asks that are over, in the list
_LOG: Final = 500  # events of a conversation
_NARROW: Final = 80  # cells, below which list and conversation stand above each other
_TYPING: Final = timedelta(minutes=1)  # that typing gives the wait


class InboxApp(App[None]):
    """The inbox on a whole terminal.

    As long as it runs it holds a lease: agents know that an operator is there.

    Args:
        store: the inbox.
        name: what it is called there.
        now: gives the time (aware, UTC).
    """

    CSS = """
    Screen { layout: vertical; }
    #bar { height: 1; background: $primary-background; color: $text; padding: 0 1; }
    #main { height: 1fr; }
    #asks { width: 36; height: 100%; border: none; border-right: solid $primary-background; padding: 0; }
    #right { width: 1fr; }
    #said { height: 1fr; padding: 0 1; }
    #card { height: auto; max-height: 75%; padding: 0 1; border-top: solid $primary-background; }
    #card:focus-within { border-top: solid $accent; }
    #card Static { height: auto; }
    #card TextArea { height: auto; max-height: 5; border: none; padding: 0 2; }
    #keys { height: 1; padding: 0 1; color: $text-muted; }
    Screen.narrow #main { layout: vertical; }
    Screen.narrow #asks { width: 100%; height: 25%; border-right: none; border-bottom: solid $primary-background; }
    Screen.narrow #right { width: 100%; height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "switch", "list or question", priority=True),
        Binding("shift+tab", "switch", show=False, priority=True),
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("q", "quit", "quit"),
        Binding("n", "next", "next question"),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        store: Store,
        name: str = "terminal",
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__()
        self._store = store
        self._now = now
        self._surface = name
        self._board = Board()
        self._events: list[LoggedEvent] = []
        self._session: str | None = None
        self._chosen: str | None = None
        self._rows: list[str] = []
        self._drawn: object = None
        self._deciding: set[str] = set()
        self._follow_log: anyio.CancelScope | None = None
        self._dirty = False

    @property
    def fault(self) -> Exception | None:
        """What the screen ended of; None where its operator left it."""
        error = self._exception
        return (
            error.error if isinstance(error, WorkerFailed) and isinstance(error.error, Exception) else error
        )

    def _print_error_renderables(self) -> None:
        """Keep Textual's traceback off the operator's terminal: whoever runs this has `fault` to tell of."""
        self._exit_renderables.clear()

    def compose(self) -> ComposeResult:
        """Lay the screen out."""
        self._bar = Static(markup=False, id="bar")
        self._asks = OptionList(id="asks", markup=False)
        self._said = Static(markup=False)
        self._scroll = VerticalScroll(self._said, id="said", can_focus=False)
        self._card = CardPane(lambda: max(0, len(self._board.waiting) - 1), self._now)
        self._card.id = "card"
        yield self._bar
        with Horizontal(id="main"):
            yield self._asks
            with Vertical(id="right"):
                yield self._scroll
                yield self._card
        self._keys = Static(markup=False, id="keys")
        yield self._keys

    def on_mount(self) -> None:
        """Begin to follow the inbox."""
        self.title = "opask inbox"
        self._following = self.run_worker(self._follow(), name="inbox")
        self.set_interval(1.0, self._changed)

    async def on_unmount(self) -> None:
        """Give the lease up before the loop ends."""
        self._following.cancel()
        with suppress(WorkerError):
            await self._following.wait()

    def on_descendant_focus(self) -> None:
        """Name the keys that work now."""
        if self._asks.has_focus:
            told = "↑↓ look at another · Tab answer · n next that waits · q quit"
        elif self._card.has_focus:
            told = "Tab to the list · n next that waits · q quit"
        else:
            told = "Tab to the list · Ctrl-Q quit"
        self._keys.update(told)

    def on_resize(self, event: Resize) -> None:
        """Draw for the size that there is now."""
        self.screen.set_class(event.size.width < _NARROW, "narrow")
        self.call_after_refresh(self._card.draw)

    # -- following the inbox -----------------------------------------------------------------------------------

    async def _follow(self) -> None:
        async with attend(self._store, self._surface), anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow_session)
            async for update in self._store.watch():
                if isinstance(update, Snapshot):  # also where the screen lagged too far behind
                    self._board.begin(await self._store.entries(limit=_HISTORY), await self._store.sessions())
                self._board.hear(update)
                self._board.forget(_HISTORY)
                if isinstance(update, SessionCleared) and update.session_id == self._session:
                    self._read_anew()
                self._changed()

    async def _follow_session(self) -> None:
        """Follow the log of whichever session is looked at."""
        while True:
            session_id = self._session
            with anyio.CancelScope() as self._follow_log:
                if session_id is None:
                    await anyio.sleep_forever()
                else:
                    try:
                        self._events = list(await self._store.events(session_id, limit=_LOG))
                        self._changed()
                        after = self._events[-1].position if self._events else 0
                        async for logged in self._store.watch_events(session_id, after=after):
                            self._events.append(logged)
                            del self._events[:-_LOG]
                            self._changed()
                    except UnknownSessionError:
                        await anyio.sleep_forever()

    def _changed(self) -> None:
        """Draw soon, once for all that changes until then."""
        if not self._dirty:
            self._dirty = True
            self.call_later(self._draw)

    # -- drawing -----------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        self._dirty = False
        waiting, over = self._board.waiting, self._board.over[:_HISTORY]
        if self._chosen not in self._board.entries:
            self._chosen = None
        shown = self._board.entries.get(self._chosen or "")
        is_browsing = shown is not None and self._asks.has_focus
        if (waiting or over) and (
            shown is None or (shown.state != "pending" and waiting and not is_browsing)
        ):
            self._choose((waiting or over)[0].id)
            if waiting:
                self._card.focus()
        self._draw_list(waiting, over)
        self._draw_card()
        self._draw_conversation()
        count = len(waiting)
        self.title = f"({count}) opask inbox" if count else "opask inbox"
        told = "1 question waits" if count == 1 else f"{count or 'no'} questions wait"
        running = sum(session.is_running for session in self._board.sessions.values())
        self._bar.update(f"opask inbox · {told} · {running} session{'' if running == 1 else 's'} running")

    def _draw_list(self, waiting: Sequence[Entry], over: Sequence[Entry]) -> None:
        now = self._now()
        rows = [entry.id for entry in (*waiting, *over)]
        if rows != self._rows:
            self._rows = rows
            self._asks.clear_options()
            self._asks.add_options([Option(self._row(self._board.entries[one], now), id=one) for one in rows])
        else:
            for one in rows:
                self._asks.replace_option_prompt(one, self._row(self._board.entries[one], now))
        if self._chosen in rows:
            self._asks.highlighted = rows.index(self._chosen)

    def _row(self, entry: Entry, now: datetime) -> Text:
        waits = entry.state == "pending"
        style = "bold" if waits else "dim"
        room = max(8, self._asks.scrollable_content_region.width - 2)
        row = Text()
        row.append("● " if waits else "  ", "bold yellow")
        row.append(clip(headline(entry), room, cell_len), style)
        row.append(f"\n  {clip(standing(entry, now), room, cell_len)}", "yellow" if waits else "dim")
        row.append(f"\n  {clip(self._board.whose(entry), room, cell_len)}", "dim")
        return row

    def _draw_card(self) -> None:
        entry = self._board.entries.get(self._chosen or "")
        if entry is None or entry.state != "pending" or entry.id not in self._deciding:
            self._card.put(entry)

    def _draw_conversation(self) -> None:
        entries = self._board.of_session(self._session) if self._session is not None else ()
        log = [logged for logged in self._events if logged.session_id == self._session]
        drawn = (
            self._session,
            self._chosen,
            log[-1].position if log else 0,
            tuple((entry.id, entry.seq) for entry in entries),
        )
        if drawn == self._drawn:
            return
        self._drawn = drawn
        was_at_end = self._scroll.scroll_offset.y >= self._scroll.max_scroll_y - 1
        self._said.update(styled(transcript(place(log, entries), self._chosen)))
        if was_at_end:
            self.call_after_refresh(self._scroll.scroll_end, animate=False)

    # -- choosing ----------------------------------------------------------------------------------------------

    def _choose(self, ask_id: str) -> None:
        self._chosen = ask_id
        session_id = self._board.entries[ask_id].session_id
        if session_id != self._session:
            self._session = session_id
            self._read_anew()

    def _read_anew(self) -> None:
        """Forget the log that was read, and what of it is still on its way."""
        self._events = []
        if self._follow_log is not None:
            self._follow_log.cancel()

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if (
            self._asks.has_focus
            and event.option_id in self._board.entries
            and event.option_id != self._chosen
        ):
            self._choose(event.option_id or "")
            self._changed()

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        if event.option_id in self._board.entries:
            self._choose(event.option_id or "")
            self._card.focus()
            self._changed()

    def action_switch(self) -> None:
        """Go from the list to the question, or back."""
        if self._asks.has_focus:
            self._card.focus()
            self._card.draw()
        else:
            self._asks.focus()

    def action_next(self) -> None:
        """Go to the question that has waited longest."""
        if self._board.waiting:
            self._choose(self._board.waiting[0].id)
            self._card.focus()
            self._changed()

    # -- deciding ----------------------------------------------------------------------------------------------

    @on(CardPane.Decided)
    def _decided(self, event: CardPane.Decided) -> None:
        self._deciding.add(event.entry.id)
        self.run_worker(self._resolve(event.entry, event.reply), name="decision")

    async def _resolve(self, entry: Entry, reply: OperatorReply) -> None:
        """Hand a decision in; the screen goes on meanwhile."""
        fault: InboxError | None = None
        try:
            await self._store.resolve(entry.id, reply, session_id=entry.session_id, by=self._surface)
        except InboxError as error:
            fault = error
        finally:
            self._deciding.discard(entry.id)
        if fault is not None:
            if self._chosen == entry.id:
                self._draw_card()
                self._card.tell(str(fault))
            return
        following = [one.id for one in self._board.waiting if one.id != entry.id]
        if following and self._chosen == entry.id:
            self._choose(following[0])
        self._changed()

    @on(CardPane.Typing)
    def _typing(self, event: CardPane.Typing) -> None:
        deadline = event.entry.deadline
        until = self._now() + _TYPING
        if deadline is not None and until > deadline:
            self.run_worker(
                self._extend(event.entry, until), name="extension", group="typing", exclusive=True
            )

    async def _extend(self, entry: Entry, until: datetime) -> None:
        try:
            await self._store.extend(entry.id, until)
        except InboxError as error:
            if self._chosen == entry.id and isinstance(error, RefusedError):
                self._card.tell(str(error))
