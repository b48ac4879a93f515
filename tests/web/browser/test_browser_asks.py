"""Answering in a browser: what the operator does with a card is what the waiting agent gets."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from opask.outcomes import Abandoned, Answered, Cancelled, Skipped, TimedOut
from opask.questions import Answer
from web_actors import question
from web_browser import WAIT_S, Held, Stand, card_in, drawn, expect, still

if TYPE_CHECKING:
    from playwright.sync_api import Page, Request, Route

pytestmark = pytest.mark.browser

DATABASE = question(
    "Which database should `service` use?",
    ("PostgreSQL", "A server of its own"),
    ("SQLite", "A file beside it"),
    header="Database",
)
PARTS = question("Which parts first?", "API", "Page", "Docs", header="Parts", several=True)
NAME = question("What is it called?", header="Name")


def test_one_click_answers_a_single_choice(stand: Stand, page: Page) -> None:
    """A click on an option is the answer; the agent has it, and the card says so."""
    outcome = stand.asks(stand.begin(), DATABASE)
    card = card_in(page, "Database")
    expect(card.locator(".text code")).to_have_text("service")
    expect(page).to_have_title("(1) opask")
    card.get_by_role("button", name="SQLite").click()
    assert outcome.result(WAIT_S) == Answered((Answer((1,)),), "web")
    expect(card).to_contain_text("Delivered")
    expect(card).to_contain_text("Answered here")
    expect(card.locator(".chosen")).to_have_text("SQLite")
    expect(page).to_have_title("opask")


def test_several_choices_are_sent_together(stand: Stand, page: Page) -> None:
    """Marking options sends nothing; the button sends what is marked, in the order it was marked."""
    outcome = stand.asks(stand.begin(), PARTS)
    card = card_in(page, "Parts")
    card.get_by_role("checkbox", name="Docs").check()
    card.get_by_role("checkbox", name="API").check()
    card.get_by_role("checkbox", name="Page").check()
    card.get_by_role("checkbox", name="Page").uncheck()
    assert not outcome.done()
    card.get_by_role("button", name="Send").click()
    assert outcome.result(WAIT_S) == Answered((Answer((2, 0)),), "web")


def test_own_words_answer_a_question_with_options(stand: Stand, page: Page) -> None:
    """Free text is always offered; Enter sends it, and with Shift it is a new line."""
    outcome = stand.asks(stand.begin(), DATABASE)
    words = card_in(page).get_by_label("Or in your own words")
    words.press_sequentially("Neither:")
    words.press("Shift+Enter")
    words.press_sequentially("a file")
    words.press("Enter")
    assert outcome.result(WAIT_S) == Answered((Answer((), "Neither:\na file"),), "web")


def test_own_words_go_along_with_an_option(stand: Stand, page: Page) -> None:
    """What is written goes with the option that is pressed."""
    outcome = stand.asks(stand.begin(), DATABASE)
    card = card_in(page)
    card.get_by_label("Or in your own words").fill("in WAL mode")
    card.get_by_role("button", name="SQLite").click()
    assert outcome.result(WAIT_S) == Answered((Answer((1,), "in WAL mode"),), "web")


def test_a_question_without_options(stand: Stand, page: Page) -> None:
    """A question without options is answered in the operator's own words."""
    outcome = stand.asks(stand.begin(), NAME)
    card = card_in(page)
    card.get_by_label("In your own words").fill("Halyard")
    card.get_by_role("button", name="Send").click()
    assert outcome.result(WAIT_S) == Answered((Answer((), "Halyard"),), "web")


def test_skipping_is_named(stand: Stand, page: Page) -> None:
    """Skip tells the agent that the operator skipped."""
    outcome = stand.asks(stand.begin(), DATABASE)
    card_in(page).get_by_role("button", name="Skip", exact=True).click()
    assert outcome.result(WAIT_S) == Skipped("web")
    expect(page.get_by_role("article")).to_contain_text("Skipped here")


def test_cancelling_asks_first(stand: Stand, page: Page) -> None:
    """Cancelling says what it means, and is done only once that is confirmed."""
    outcome = stand.asks(stand.begin(), DATABASE)
    card_in(page).get_by_role("button", name="Cancel…").click()
    expect(page.get_by_text("do nothing that depends on it")).to_be_visible()
    page.get_by_role("button", name="Keep it open").click()
    assert not outcome.done()
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("button", name="Cancel the question").click()
    assert outcome.result(WAIT_S) == Cancelled("operator")


def test_two_questions_are_one_card(stand: Stand, page: Page) -> None:
    """The questions of an ask are answered together, and the button says what will be left out."""
    outcome = stand.asks(stand.begin(), DATABASE, NAME, siblings=2)
    card = card_in(page)
    expect(card.get_by_text("2 other calls")).to_be_visible()
    card.get_by_role("radio", name="PostgreSQL").check()
    expect(card.get_by_role("button", name="Send 1, skip 1")).to_be_visible()
    card.get_by_label("In your own words", exact=True).fill("Halyard")
    card.get_by_role("button", name="Send", exact=True).click()
    assert outcome.result(WAIT_S) == Answered((Answer((0,)), Answer((), "Halyard")), "web")


def test_a_question_left_out_is_skipped(stand: Stand, page: Page) -> None:
    """Of two questions one may be left out, also after its choice was taken back."""
    outcome = stand.asks(stand.begin(), DATABASE, PARTS)
    card = card_in(page)
    card.get_by_role("radio", name="PostgreSQL").check()
    card.get_by_role("checkbox", name="API").check()
    card.get_by_role("button", name="Clear the choice for Database").click()
    card.get_by_role("button", name="Send 1, skip 1").click()
    assert outcome.result(WAIT_S) == Answered((None, Answer((0,))), "web")


def test_nothing_is_no_answer(stand: Stand, page: Page) -> None:
    """Sending with nothing chosen says so, and neither that nor Escape closes the question."""
    outcome = stand.asks(stand.begin(), PARTS)
    card_in(page).get_by_role("button", name="Send").click()
    expect(page.get_by_role("alert").filter(has_text="Nothing is chosen")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_label("Or in your own words").fill("   ")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("alert").filter(has_text="Nothing is chosen")).to_be_visible()
    assert not outcome.done()
    assert [entry.state for entry in stand.entries()] == ["pending"]


def test_a_double_click_answers_one_card(stand: Stand, page: Page) -> None:
    """A click that falls on the next card, as the one that was clicked closes, does not answer it; a later one does."""
    page.clock.install()
    actor = stand.begin()
    first = stand.asks(actor, question("First?", "Yes", "No"))
    second = stand.asks(actor, question("Second?", "Yes", "No"))
    above, below = (page.get_by_role("article", name=name) for name in ("First?", "Second?"))
    expect(below).to_be_visible()
    still(page)
    above.get_by_role("button", name="Yes").click()
    assert isinstance(first.result(WAIT_S), Answered)
    drawn(page, "delivered")
    expect(above).to_contain_text("Delivered")
    below.get_by_role("button", name="Yes").click()
    expect(below.get_by_role("alert")).to_contain_text("did not count")
    assert not second.done()
    page.clock.run_for(1000)
    below.get_by_role("button", name="Yes").click()
    assert isinstance(second.result(WAIT_S), Answered)


def test_typing_makes_the_wait_longer(stand: Stand, page: Page) -> None:
    """While the operator types the deadline moves, and that is not asked for with every letter."""
    stand.begin()
    ask = stand.puts(NAME, wait=timedelta(seconds=40), latest=timedelta(hours=1))
    page.clock.set_fixed_time(datetime.now(UTC))  # however long the letters take
    typed = []
    page.on("request", lambda request: typed.append(request.url) if request.url.endswith("/typing") else None)
    with page.expect_response("**/typing") as answered:
        page.get_by_label("In your own words").press_sequentially("Halyard")
    assert answered.value.ok
    assert len(typed) == 1
    assert ask.deadline is not None
    deadline = stand.entry(ask.id).deadline
    assert deadline is not None
    assert deadline > ask.deadline


def test_a_refusal_is_shown_at_the_card(stand: Stand, page: Page) -> None:
    """What the server refuses, and that it cannot be reached, stands at the card, which stays open."""
    outcome = stand.asks(stand.begin(), DATABASE)
    card = card_in(page)

    def refuse(route: Route) -> None:
        route.fulfill(
            status=400, json={"error": {"code": "misfit", "message": "question 1 takes no such option"}}
        )

    page.route("**/answer", refuse)
    card.get_by_role("button", name="SQLite").click()
    expect(card.get_by_role("alert")).to_have_text("Question 1 takes no such option.")
    page.unroute("**/answer")
    page.route("**/answer", lambda route: route.abort())
    card.get_by_role("button", name="SQLite").click()
    expect(card.get_by_role("alert")).to_contain_text("cannot be reached")
    page.unroute("**/answer")
    card.get_by_role("button", name="PostgreSQL").click()
    assert outcome.result(WAIT_S) == Answered((Answer((0,)),), "web")


def test_a_late_answer_becomes_a_prompt(stand: Stand, page: Page) -> None:
    """Where the agent stopped waiting, what was written is offered as the text of its next prompt."""
    stand.begin()
    ask = stand.puts(DATABASE, wait=timedelta(minutes=5), latest=timedelta(minutes=5))
    page.get_by_label("Or in your own words").fill("a file, please")
    stand.call(lambda: stand.store.settle(ask.id, TimedOut(timedelta(minutes=5))))
    card = card_in(page)
    expect(card).to_contain_text("Timed out")
    card.get_by_role("button", name="Copy the answer as a follow-up prompt").click()
    prompt = card.get_by_label("The follow-up prompt")
    assert "a file, please" in prompt.input_value()
    assert "Which database" in prompt.input_value()


def test_an_ask_nobody_answered_can_be_answered_later(stand: Stand, page: Page) -> None:
    """Where nothing was written in time, the answer is given for the next prompt."""
    stand.begin()
    ask = stand.puts(DATABASE, wait=timedelta(minutes=5), latest=timedelta(minutes=5))
    card = card_in(page)
    expect(card.get_by_role("button", name="SQLite")).to_be_visible()
    stand.call(lambda: stand.store.settle(ask.id, TimedOut(timedelta(minutes=5))))
    card.get_by_role("button", name="Answer with a follow-up prompt").click()
    card.get_by_role("button", name="SQLite").click()
    assert "Answer: SQLite" in card.get_by_label("The follow-up prompt").input_value()


@pytest.mark.parametrize("twice", ["clicks", "a held key"])
def test_an_answer_is_sent_once(stand: Stand, page: Page, twice: str) -> None:
    """A double click, or a key that is held down, answers the card it began on and no other, once."""
    sent: list[str] = []

    def hear(request: Request) -> None:
        if request.method == "POST":
            sent.append(request.url)

    page.on("request", hear)
    actor = stand.begin()
    outcome = stand.asks(actor, DATABASE)
    other = stand.asks(actor, PARTS)
    card_in(page, "Parts")
    option = card_in(page, "Database").get_by_role("button", name="SQLite")
    held = Held(page, "**/answer")
    if twice == "clicks":
        option.dblclick()
    else:
        option.focus()
        for _ in range(10):
            page.keyboard.down("Enter")  # again without up: the browser repeats it
    held.go_on()
    assert outcome.result(WAIT_S) == Answered((Answer((1,)),), "web")
    expect(page.get_by_role("article", name="Delivered: Database")).to_be_visible()
    if twice == "a held key":
        for _ in range(10):
            page.keyboard.down("Enter")
        page.keyboard.up("Enter")
    assert [url.rpartition("/")[2] for url in sent] == ["answer"]
    assert not other.done()


def test_a_reload_while_an_answer_is_on_its_way(stand: Stand, page: Page) -> None:
    """What was not sent before the page went is not an answer: the question is still there, and is answered then."""
    outcome = stand.asks(stand.begin(), DATABASE)
    card = card_in(page)
    with page.expect_request("**/answer"):
        page.route("**/answer", lambda route: None)  # on its way for ever
        card.get_by_role("button", name="SQLite").click()
    page.reload()
    card_in(page)
    assert not outcome.done()
    page.unroute("**/answer")
    card_in(page).get_by_role("button", name="PostgreSQL").click()
    assert outcome.result(WAIT_S) == Answered((Answer((0,)),), "web")


def test_the_agent_gives_up_as_the_operator_clicks(stand: Stand, page: Page) -> None:
    """A click that comes just too late is refused; the card says why, and offers the answer for the next prompt."""
    stand.begin()
    ask = stand.puts(DATABASE, wait=timedelta(minutes=1), latest=timedelta(minutes=1))
    card = card_in(page)

    def too_late(route: Route) -> None:
        stand.call(lambda: stand.store.settle(ask.id, Abandoned("agent")))
        route.continue_()

    page.route("**/answer", too_late)
    card.get_by_role("button", name="SQLite").click()
    article = page.get_by_role("article", name="No longer asked")
    expect(article).to_contain_text("The agent stopped waiting")
    article.get_by_role("button", name="follow-up prompt").click()
    expect(article.get_by_label("The follow-up prompt")).to_have_value(re.compile("SQLite"))


def test_the_browser_s_clock_is_wrong(stand: Stand, page: Page) -> None:
    """Where the clocks of browser and server are an hour apart, the card shows the time that the server gives it."""
    page.clock.install(time=datetime.now(UTC) + timedelta(hours=1))
    page.reload()
    stand.asks(stand.begin(), DATABASE, wait=timedelta(minutes=5))
    expect(card_in(page).locator(".left")).to_have_text(re.compile("^[45]:.. left$"))
