"""What each key does to a card while options are chosen, or the skip is confirmed; the same on every terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from opask.surfaces.card import Card
from opask.surfaces.frame import Frame

__all__ = ["CardKeys"]

_OUT_OF_VIEW: Final = "This option was out of view: press again to choose it."


class CardKeys:
    """The keys of a card, by prompt_toolkit's names: a letter, or ``up``, ``enter``, ``c-p``.

    Args:
        card: the card.
        frame: gives what it is drawn into.

    Attributes:
        choosing: what each key does while options are chosen; the others do nothing.
        confirming: what each key does while the skip is to be confirmed; every other one takes it back.
    """

    def __init__(self, card: Card, frame: Callable[[], Frame]) -> None:
        form = card.form
        self._card, self._frame = card, frame
        acts: tuple[tuple[tuple[str, ...], Callable[[], object]], ...] = (
            (("up", "k", "c-p", "s-tab"), lambda: card.up(frame())),
            (("down", "j", "c-n", "tab"), lambda: card.down(frame())),
            (("pageup",), lambda: card.page(frame(), -1)),
            (("pagedown",), lambda: card.page(frame(), 1)),
            (("left",), form.back),
            (("t", "T"), form.begin_text),
            (("s", "S"), form.skip),
            (("escape",), form.ask_to_skip),
            ((" ",), self._mark),
            (("enter",), self._submit),
            *(((str(digit),), partial(self._digit, digit)) for digit in range(10)),
        )
        self.choosing: Mapping[str, Callable[[], object]] = {key: act for keys, act in acts for key in keys}
        yes = partial(form.confirm, True)
        self.confirming: Mapping[str, Callable[[], object]] = dict.fromkeys(("y", "Y", "escape"), yes)

    def _digit(self, digit: int) -> None:
        form = self._card.form
        if not form.digit_chooses or form.question.multi_select or self._in_view(digit - 1):
            form.press_digit(digit)

    def _mark(self) -> None:
        if self._in_view(self._card.form.focus):
            self._card.form.choose()

    def _submit(self) -> None:
        if self._card.form.question.multi_select or self._in_view(self._card.form.focus):
            self._card.form.submit()

    def _in_view(self, row: int) -> bool:
        seen = self._card.reveal(self._frame(), row)
        if not seen:
            self._card.form.note = _OUT_OF_VIEW
        return seen
