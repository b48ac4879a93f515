"""What comes late, twice, out of order or not at all leaves nothing wrong on the page."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from opask.inbox import MemoryStore
from opask.outcomes import Answered
from opask.questions import Answer
from web_actors import Actor, question
from web_browser import INBOX, WAIT_S, Held, Late, Stand, card_in, expect

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = pytest.mark.browser

DATABASE = question("Which database?", "PostgreSQL", "SQLite", header="Database")
NAME = question("What is it called?", header="Name")
ANSWERED = Answered((Answer((0,)),), "terminal")


def ask_and_answer(stand: Stand, actor: Actor) -> None:
    """Let an agent ask, and another surface answer."""
    outcome = stand.asks(actor, DATABASE)
    (entry,) = stand.entries()
    stand.call(lambda: stand.store.resolve(entry.id, ANSWERED))
    assert outcome.result(WAIT_S) == ANSWERED


# -- answers that come late --------------------------------------------------------------------------------------------


def test_a_card_comes_before_the_conversation(stand: Stand, page: Page) -> None:
    """A question that comes in while the conversation is read does not pin the cards of its earlier parts for good."""
    actor = stand.begin()
    ask_and_answer(stand, actor)
    lines = [{"event": "tool_announced", "tool": f"Look {n}", "tool_call_id": f"c{n}"} for n in range(1500)]
    stand.call(lambda: stand.store.append(actor.session_id, lines))
    expect(page.get_by_role("article", name="Delivered: Database")).to_have_count(1)
    late = Late(page, "**/conversation")
    page.goto(f"{stand.url}#/session/{actor.session_id}")
    late.wait()
    stand.asks(actor, NAME)
    expect(page.locator(".session .card")).to_have_count(2)
    late.arrives()
    expect(page.get_by_text("Look 1499", exact=True)).to_be_visible()
    expect(page.locator(".session .card")).to_have_count(1)
    expect(page.get_by_role("article", name="Waiting for you: Name")).to_have_count(1)


def test_a_card_that_is_written_in_goes_to_its_place(stand: Stand, page: Page) -> None:
    """As the conversation comes in the card moves into it, and what is written goes on where it was."""
    actor = stand.begin()
    late = Late(page, "**/conversation")
    page.goto(f"{stand.url}#/session/{actor.session_id}")
    late.wait()
    stand.asks(actor, NAME)
    expect(page.locator(".pinned .card")).to_have_count(1)
    words = card_in(page).get_by_label("In your own words")
    words.press_sequentially("Hal")
    late.arrives()
    expect(page.locator(".log .card")).to_have_count(1)
    expect(words).to_be_focused()
    page.keyboard.type("yard")
    expect(words).to_have_value("Halyard")


def test_an_earlier_part_comes_after_its_view_was_left(stand: Stand, page: Page) -> None:
    """It takes no card away from the view that is shown by then."""
    actor = stand.begin()
    lines = [{"event": "tool_announced", "tool": f"Look {n}", "tool_call_id": f"c{n}"} for n in range(1500)]
    stand.call(lambda: stand.store.append(actor.session_id, lines))
    stand.asks(actor, DATABASE)
    page.goto(f"{stand.url}#/session/{actor.session_id}")
    late = Late(page, "**/conversation?before=*")
    for shown in ("Look 1210", "Look 910", "Look 610"):
        expect(page.get_by_text(shown, exact=True)).to_be_visible()
        page.get_by_role("button", name="Show earlier").click()
    late.wait()
    page.get_by_role("link", name="Inbox").click()
    card_in(page, "Database")
    view = page.locator(".waiting").element_handle()
    assert view is not None
    with page.expect_response("**/conversation?before=*") as answer:
        late.arrives()
    answer.value.finished()
    page.evaluate("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
    assert view.eval_on_selector_all(".card", "cards => cards.length") == 1


def test_a_clearing_is_confirmed_after_its_view_was_left(stand: Stand, page: Page) -> None:
    """The operator stays where they are by then."""
    actor = stand.begin("s1", title="Over and done")
    stand.happens(actor, lambda agent: agent.says("First I look around."))
    stand.end_sessions()
    stand.begin("s2", title="Goes on")
    page.goto(f"{stand.url}#/session/s1")
    page.get_by_role("button", name="Clear…").click()
    late = Late(page, "**/clear")
    page.get_by_role("button", name="Clear the session").click()
    late.wait()
    page.get_by_role("link", name="Goes on").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Goes on")
    with page.expect_response("**/clear") as answer:
        late.arrives()
    answer.value.finished()
    page.evaluate("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
    assert page.url.endswith("#/session/s2")


def test_an_answer_that_is_long_on_its_way_tells_no_time(stand: Stand, new_page: Callable[..., Page]) -> None:
    """The page does not take the server's clock to be behind by as long as an answer took."""
    stand.begin(title="Over and done")
    stand.end_sessions()
    page = new_page(signed_in=False)
    page.clock.install()
    late = Late(page, "**/api/sessions?*")
    with page.expect_response("**/api/asks?*"):  # nothing else is read then
        page.goto(stand.link)
    late.wait()
    page.clock.fast_forward(20_000)
    late.arrives()
    page.wait_for_function(f"() => {INBOX}.then((inbox) => inbox.sessions.size === 1)")
    assert page.evaluate(f"{INBOX}.then((inbox) => inbox.api.ahead)") > -10_000


def test_a_refusal_comes_after_who_was_refused_signed_in(stand: Stand, page: Page) -> None:
    """A tab that is told late that it was signed out stays connected by the link that was opened in another meanwhile."""
    with page.expect_response("**/api/sessions?*"):
        page.reload()
    refused = Late(page, "**/api/sessions?*")
    stand.stop()
    stand.serve(token="another-token-that-this-page-does-not-have-0000")
    refused.wait()
    stand.stop()
    stand.serve()
    other = page.context.new_page()
    other.goto(stand.link)
    expect(page.locator(".connection")).to_have_text("Connected")
    with page.expect_response("**/api/sessions?*") as answer:
        refused.arrives()
    answer.value.finished()
    stand.asks(stand.begin(), DATABASE)
    card_in(page)
    expect(page.locator(".connection")).to_have_text("Connected")
    expect(page.get_by_role("alertdialog")).to_have_count(0)


# -- reads that fail ---------------------------------------------------------------------------------------------------


def test_what_could_not_be_read_at_first_is_read_later(stand: Stand, new_page: Callable[..., Page]) -> None:
    """The ended sessions, and what was closed lately, are there once the server is back."""
    actor = stand.begin(title="Over and done")
    ask_and_answer(stand, actor)
    stand.end_sessions()
    page = new_page()
    page.goto("about:blank")
    reads = re.compile(r"/api/(sessions|asks)\?")
    failed: list[str] = []

    def fail(route: Route) -> None:
        failed.append(route.request.url)
        route.abort()

    page.route(reads, fail)
    page.goto(stand.url)
    expect(page.locator(".connection")).to_have_text("Connected")
    page.wait_for_function(f"() => {INBOX}.then((inbox) => inbox.ready)")
    while len(failed) < 2:
        page.evaluate("null")
    page.unroute(reads)
    stand.stop()
    expect(page.locator(".connection")).to_contain_text("Reconnecting")
    stand.serve()
    expect(page.get_by_role("article", name="Delivered: Database")).to_have_count(1)
    page.get_by_text("Ended", exact=True).click()
    expect(page.get_by_role("navigation").get_by_role("link", name="Over and done")).to_be_visible()


def test_what_became_of_a_card_could_not_be_read(stand: Stand, new_page: Callable[..., Page]) -> None:
    """What the page could not find out of a question that was closed unheard it finds out once the server is back."""
    actor = stand.begin()
    outcome = stand.asks(actor, DATABASE)
    (entry,) = stand.entries()
    page = new_page()
    page.goto("about:blank")
    feed = Held(page, "**/api/feed*")
    page.goto(f"{stand.url}#/session/{actor.session_id}")
    feed.wait()
    card_in(page, "Waiting for you: Database")
    stand.call(lambda: stand.store.resolve(entry.id, ANSWERED))
    outcome.result(WAIT_S)
    page.route("**/api/asks/*", lambda route: route.abort())
    with page.expect_event("requestfailed", lambda request: "/api/asks/" in request.url):
        feed.go_on()
    page.unroute("**/api/asks/*")
    stand.stop()
    expect(page.locator(".connection")).to_contain_text("Reconnecting")
    stand.serve()
    expect(page.get_by_role("article")).to_contain_text("Answered in the terminal")


def test_a_second_tab_that_could_not_read_is_told_something(stand: Stand, page: Page) -> None:
    """A tab that could not read what there is tries again as soon as another passes something on."""
    actor = stand.begin()
    stand.asks(actor, DATABASE)
    card_in(page)
    other = page.context.new_page()
    other.route("**/api/asks?*", lambda route: route.abort())
    with other.expect_event("requestfailed", lambda request: "/api/asks?" in request.url):
        other.goto(stand.url)
    expect(other.locator(".connection")).to_have_text("Connected")
    other.unroute("**/api/asks?*")
    stand.asks(actor, NAME)
    expect(other.get_by_role("article")).to_have_count(2)


def test_a_session_that_is_not_there_yet(stand: Stand, page: Page) -> None:
    """Whoever has a session's address before them sees it as soon as it begins, and again after it was cleared."""
    expect(page.get_by_text("Nothing waits for you")).to_be_visible()
    page.goto(f"{stand.url}#/session/s1")
    expect(page.get_by_role("alert").filter(has_text="no session")).to_be_visible()
    for title in ("One", "Another"):
        actor = stand.begin("s1", title=title)
        stand.happens(actor, lambda agent, title=title: agent.says(f"This is {title}."))  # type: ignore[misc]
        expect(page.locator(".log")).to_have_text(f"This is {title}.")
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
        expect(page.get_by_role("alert").filter(has_text="session")).to_have_count(0)
        stand.end_sessions()
        stand.call(lambda: stand.store.clear_session("s1"))
        expect(page.get_by_role("alert").filter(has_text="This session was cleared")).to_be_visible()


def test_an_answer_on_a_connection_that_is_lost(stand: Stand, page: Page) -> None:
    """Where nothing comes of what was sent the card says so, stays open, and can be answered again."""
    page.clock.install()
    outcome = stand.asks(stand.begin(), DATABASE)
    card = card_in(page)
    lost = Held(page, "**/answer")
    card.get_by_role("button", name="SQLite").click()
    lost.wait()
    page.clock.fast_forward(31_000)
    expect(card.get_by_role("alert")).to_contain_text("nobody knows yet whether this was taken")
    page.unroute("**/answer")
    card.get_by_role("button", name="SQLite").click()
    assert outcome.result(WAIT_S) == Answered((Answer((1,)),), "web")


def test_a_conversation_that_could_not_be_read_is_looked_at_again(stand: Stand, page: Page) -> None:
    """What could not be read is read as the tab comes to the front, and what was said while it was not is there once."""
    actor = stand.begin()
    stand.happens(actor, lambda agent: agent.says("First I look around."))
    expect(page.locator(".connection")).to_have_text("Connected")

    def is_now(state: str) -> None:
        page.evaluate(
            "state => { Object.defineProperty(document, 'visibilityState', { value: state, configurable: true });"
            " document.dispatchEvent(new Event('visibilitychange')) }",
            state,
        )

    page.route("**/conversation", lambda route: route.abort())
    page.goto(f"{stand.url}#/session/{actor.session_id}")
    expect(page.get_by_role("alert").filter(has_text="cannot be reached")).to_be_visible()
    page.unroute("**/conversation")
    for said in ("First I look around.", "First I look around. Then I go on."):
        is_now("hidden")
        is_now("visible")
        expect(page.locator(".log")).to_have_text(said)
        expect(page.get_by_role("alert").filter(has_text="cannot be reached")).to_have_count(0)
        is_now("hidden")
        stand.happens(actor, lambda agent: agent.says(" Then I go on."))


# -- feeds -------------------------------------------------------------------------------------------------------------


def test_what_happens_while_another_tab_takes_over(stand: Stand, page: Page) -> None:
    """What ended and was cleared after the tab that read for all had gone, and before the next one read, is gone there."""
    actor = stand.begin(title="Over and done")
    ask_and_answer(stand, actor)
    other = page.context.new_page()
    other.goto(stand.url)
    expect(other.get_by_role("article", name="Delivered: Database")).to_have_count(1)
    expect(other.locator(".connection")).to_have_text("Connected")
    expect(other.get_by_role("link", name="Over and done")).to_have_count(2)
    feed = Held(other, "**/api/feed*")
    page.close()
    feed.wait()
    stand.end_sessions()
    stand.call(lambda: stand.store.clear_session(actor.session_id))
    feed.go_on()
    expect(other.get_by_role("article")).to_have_count(0)
    expect(other.get_by_role("link", name="Over and done", include_hidden=True)).to_have_count(0)


@pytest.mark.parametrize("what", ["the inbox is another", "the changes are forgotten"])
def test_the_server_comes_back_and_cannot_go_on(stand: Stand, page: Page, what: str) -> None:
    """Nothing is shown any more of what is not there any more, in any tab; what is there is shown."""
    actor = stand.begin(title="Over and done")
    ask_and_answer(stand, actor)
    stand.happens(actor, lambda agent: agent.says("First I look around."))
    page.goto(f"{stand.url}#/session/{actor.session_id}")
    expect(page.get_by_text("First I look around.")).to_be_visible()
    other = page.context.new_page()
    other.goto(stand.url)
    expect(other.locator(".connection")).to_have_text("Connected")
    expect(other.get_by_role("article")).to_have_count(1)
    stand.end_sessions()
    other_name = other.get_by_role("navigation").locator(".sessions").filter(has_text="Over and done")
    expect(other_name).to_have_count(1)
    stand.stop()
    expect(other.locator(".connection")).to_contain_text("Reconnecting")
    if what == "the inbox is another":
        store = MemoryStore()
        host = stand.call(store.join)
        stand.call(lambda: store.begin_session(actor.session_id, host.id, title="Another"))
        stand.call(lambda: store.append(actor.session_id, [{"event": "text", "text": "I am another."}]))
        stand.serve(store=store)
        expect(page.locator(".log")).to_have_text("I am another.")
        expect(page.get_by_role("heading", level=1)).to_have_text("Another")
        stand.call(lambda: store.append(actor.session_id, [{"event": "text", "text": " I go on."}]))
        expect(page.locator(".log")).to_have_text("I am another. I go on.")
    else:
        stand.begin("s2", title="Goes on")
        stand.call(lambda: stand.store.prune(datetime.now(UTC) + timedelta(minutes=1)))
        stand.serve()
        expect(page.get_by_role("alert").filter(has_text="This session was cleared")).to_be_visible()
        expect(page.get_by_text("First I look around.")).to_have_count(0)
    expect(other.get_by_role("article")).to_have_count(0)
    expect(other_name).to_have_count(0)


def test_a_clearing_is_told_again(stand: Stand, page: Page) -> None:
    """A tab that hears once more that a session was cleared keeps the one that has had its id since."""
    expect(page.get_by_text("Nothing waits for you")).to_be_visible()
    heard = page.context.new_page()
    heard.goto(f"{stand.url}page/icon.svg")
    heard.evaluate(
        "url => { window.heard = []; window.channel = new BroadcastChannel(`opask-feed ${url}`);"
        " channel.onmessage = ({data}) => heard.push(data) }",
        f"{stand.url}api/feed",
    )
    other = page.context.new_page()
    other.goto(stand.url)
    expect(other.locator(".connection")).to_have_text("Connected")
    first, second = (other.locator(".sessions").filter(has_text=title) for title in ("One", "Another"))
    stand.begin("s1", title="One")
    stand.end_sessions()
    expect(first).to_have_count(1)
    stand.call(lambda: stand.store.clear_session("s1"))
    expect(first).to_have_count(0)
    stand.begin("s1", title="Another")
    stand.end_sessions()
    expect(second).to_have_count(1)
    heard.evaluate("channel.postMessage(heard.find(({data}) => data?.kind === 'cleared'))")
    stand.begin("s2", title="Goes on")
    expect(other.get_by_role("link", name="Goes on")).to_be_visible()
    expect(second).to_have_count(1)


def test_the_focus_stays_as_a_session_is_cleared(stand: Stand, page: Page) -> None:
    """Whoever is elsewhere on the page as the session they look at is cleared in another tab stays there."""
    stand.begin("s1", title="Over and done")
    stand.end_sessions()
    page.goto(f"{stand.url}#/session/s1")
    expect(page.get_by_role("button", name="Clear…")).to_be_visible()
    page.get_by_role("link", name="Inbox").focus()
    stand.call(lambda: stand.store.clear_session("s1"))
    expect(page.get_by_role("alert").filter(has_text="This session was cleared")).to_be_visible()
    expect(page.get_by_role("link", name="Inbox")).to_be_focused()
