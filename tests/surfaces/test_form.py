"""The state of answering: what each action makes of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opask.outcomes import Answered, Skipped
from opask.questions import Answer, Option, Question, check_answers
from opask.surfaces.form import Form, KeyGuard

ONE = Question("One?", options=(Option("a"), Option("b"), Option("c")))
SEVERAL = Question("Several?", options=(Option("a"), Option("b"), Option("c")), multi_select=True)
WORDS = Question("Words?")
MANY = Question("Many?", options=tuple(Option(str(n)) for n in range(1, 33)))
MANY_SEVERAL = Question("Many?", options=MANY.options, multi_select=True)


def test_a_question_starts_on_its_first_option() -> None:
    """With options a form starts by choosing, without any by typing."""
    assert (Form((ONE,)).mode, Form((ONE,)).focus) == ("choosing", 0)
    mode: str = Form((WORDS,)).mode
    assert mode == "typing"


def test_choosing_answers_at_once() -> None:
    """On a question for one option, choosing is answering."""
    form = Form((ONE,))
    form.press_digit(2)
    assert form.done
    assert form.reply("me") == Answered((Answer((1,)),), "me")


def test_marks_are_taken_back() -> None:
    """Where several may be chosen, choosing twice is not choosing."""
    form = Form((SEVERAL,))
    for digit in (1, 3, 1):
        form.press_digit(digit)
    form.submit()
    assert form.reply("me") == Answered((Answer((2,)),), "me")


def test_nothing_is_never_an_answer() -> None:
    """Submitting with nothing marked or typed leaves the form open with a note, which the next action takes away."""
    form = Form((SEVERAL, WORDS))
    notes = []
    form.submit()
    notes.append(form.note)
    assert form.index == 0
    form.focus_on(1)
    notes.append(form.note)
    form.skip()
    form.submit_text(" \n")
    notes.append(form.note)
    assert not form.done
    assert notes == ["Nothing is marked: mark with Space, or skip with s.", "", "Nothing is typed yet."]


@pytest.mark.parametrize(
    ("digits", "focus"),
    [
        ("1", 0),
        ("12", 11),
        ("3", 2),
        ("33", 2),
        ("32", 31),
        ("320", 31),
        ("321", 0),
        ("0", 0),
        ("10", 9),
        ("99", 8),
    ],
)
def test_digits_add_up_where_there_are_many_options(digits: str, focus: int) -> None:
    """Digits go to the option of their number; one that leads nowhere starts a new number, or changes nothing."""
    form = Form((MANY,))
    for digit in digits:
        form.press_digit(int(digit))
    assert form.focus == focus
    assert not form.done


def test_a_key_between_digits_parts_them() -> None:
    """After another action a digit starts a new number."""
    form = Form((MANY,))
    form.press_digit(1)
    form.focus_on(5)
    form.press_digit(2)
    assert form.focus == 1


def test_words_alone_answer_and_go_with_marks() -> None:
    """Typed words replace an option, but go along with several; blank ones are taken out again."""
    form = Form((ONE, SEVERAL))
    form.begin_text()
    form.submit_text("mine")
    form.press_digit(2)
    form.begin_text()
    form.submit_text("more")
    assert form.mode == "choosing"
    form.submit()
    assert form.reply("me") == Answered((Answer((), "mine"), Answer((1,), "more")), "me")
    form = Form((SEVERAL,))
    form.begin_text()
    form.submit_text("more")
    form.begin_text()
    form.submit_text("  ")
    form.press_digit(1)
    form.submit()
    assert form.reply("me") == Answered((Answer((0,)),), "me")


def test_words_that_were_left_are_not_sent() -> None:
    """Words left unsent stand in the field when it is opened again, and in no answer."""
    form = Form((SEVERAL,))
    form.begin_text()
    form.leave_text("half")
    assert form.draft.typed == "half"
    form.press_digit(1)
    form.submit()
    assert form.reply("me") == Answered((Answer((0,)),), "me")


def test_skipping_is_per_question() -> None:
    """A skipped question has no answer; an ask of nothing but skipped ones is skipped."""
    form = Form((ONE, ONE))
    form.skip()
    form.press_digit(1)
    assert form.reply("me") == Answered((None, Answer((0,))), "me")
    form = Form((ONE, WORDS))
    form.skip()
    form.ask_to_skip()
    form.confirm(True)
    assert form.reply("me") == Skipped("me")


@pytest.mark.parametrize(("question", "mode"), [(ONE, "choosing"), (WORDS, "typing")])
def test_not_skipping_goes_back(question: Question, mode: str) -> None:
    """Taking a skip back leaves everything as it was."""
    form = Form((question,))
    form.ask_to_skip()
    assert form.mode == "confirming"
    form.confirm(False)
    assert form.mode == mode
    assert not form.done


def test_going_back_keeps_what_was_chosen() -> None:
    """The question before comes up with its answer in focus; another skip or answer replaces it."""
    form = Form((ONE, SEVERAL))
    form.back()
    assert form.index == 0
    form.press_digit(3)
    form.press_digit(1)
    form.back()
    assert (form.index, form.focus) == (0, 2)
    form.skip()
    assert form.draft.chosen == [0]
    form.submit()
    assert form.reply("me") == Answered((None, Answer((0,))), "me")


def test_another_question_is_told_from_the_same_one() -> None:
    """The count of what was shown changes with each question that is put up, also with the same one again."""
    form = Form((ONE, ONE))
    first = form.shown
    form.focus_on(1)
    assert form.shown == first
    form.choose()
    second = form.shown
    form.back()
    assert len({first, second, form.shown}) == 3


ACTIONS: list[Callable[[Form], None]] = [
    lambda form: form.focus_on(form.focus + 1),
    lambda form: form.focus_on(form.focus - 1),
    lambda form: form.choose(),
    lambda form: form.submit(),
    lambda form: form.begin_text(),
    lambda form: form.submit_text("words"),
    lambda form: form.submit_text(" "),
    lambda form: form.leave_text("left"),
    lambda form: form.skip(),
    lambda form: form.ask_to_skip(),
    lambda form: form.confirm(True),
    lambda form: form.confirm(False),
    lambda form: form.back(),
    *(lambda form, digit=digit: form.press_digit(digit) for digit in range(10)),
]


@given(
    st.lists(st.sampled_from([ONE, SEVERAL, WORDS, MANY, MANY_SEVERAL]), min_size=1, max_size=4),
    st.lists(st.sampled_from(ACTIONS), max_size=60),
)
def test_whatever_is_done_the_reply_fits_the_questions(
    questions: list[Question], actions: list[Callable[[Form], None]]
) -> None:
    """Any actions in any order lead to a form that is still open, or to a reply that fits; never to an exception."""
    form = Form(tuple(questions))
    for action in actions:
        action(form)
        assert 0 <= form.focus <= form.other
        if form.done:
            break
    if form.done:
        reply = form.reply("me")
        if isinstance(reply, Answered):
            check_answers(questions, reply.answers)


def test_keys_count_after_a_pause_on_the_screen() -> None:
    """A key counts once the question was on the screen for the guard's time with no key in it."""
    guard = KeyGuard(0.25)
    assert not guard.counts(100)
    guard.show(100)
    assert not guard.counts(100.2)
    guard.refuse(100.2)
    assert not guard.counts(100.4)
    assert guard.remaining(100.4) == pytest.approx(0.05)
    guard.show(100.4)
    assert guard.counts(100.45)
    guard.hide()
    assert not guard.counts(200)
    guard.refuse(200)
    assert not guard.counts(300)


def test_even_without_a_pause_keys_wait_for_the_screen() -> None:
    """With no pause asked for, a key still does not count before the question is on the screen."""
    guard = KeyGuard(0)
    assert not guard.counts(100)
    guard.show(100)
    assert guard.counts(100)
