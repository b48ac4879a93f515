"""What outlives a reload, a second tab, another surface and the server itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from opask.outcomes import Answered
from opask.questions import Answer
from web_actors import Actor, question
from web_browser import WAIT_S, Late, Stand, card_in, expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

DATABASE = question("Which database?", "PostgreSQL", "SQLite", header="Database")
NAME = question("What is it called?", header="Name")


def test_a_reload_loses_nothing(stand: Stand, page: Page) -> None:
    """After a reload the question is there once, with what was written, and is answered as before."""
    outcome = stand.asks(stand.begin(), DATABASE, NAME)
    card_in(page).get_by_role("radio", name="SQLite").check()
    card_in(page).get_by_label("In your own words", exact=True).fill("Halyard")
    page.reload()
    card = card_in(page)
    expect(card.get_by_role("radio", name="SQLite")).to_be_checked()
    expect(card.get_by_label("In your own words", exact=True)).to_have_value("Halyard")
    card.get_by_role("button", name="Send").click()
    assert outcome.result(WAIT_S) == Answered((Answer((1,)), Answer((), "Halyard")), "web")


def test_an_answer_in_one_tab_closes_the_card_in_the_other(stand: Stand, page: Page) -> None:
    """Two tabs show the same question; once one has answered, the other says so and offers nothing more."""
    outcome = stand.asks(stand.begin(), DATABASE)
    other = page.context.new_page()
    other.goto(stand.url)
    expect(card_in(other).get_by_role("button", name="SQLite")).to_be_visible()
    card_in(page).get_by_role("button", name="SQLite").click()
    assert outcome.result(WAIT_S) == Answered((Answer((1,)),), "web")
    card = other.get_by_role("article")
    expect(card).to_contain_text("Delivered")
    expect(card).to_contain_text("Answered on a web page")
    expect(card.get_by_role("button", name="SQLite")).to_have_count(0)
    expect(other).to_have_title("opask")


def test_another_surface_answers(stand: Stand, page: Page) -> None:
    """A question that is answered in the terminal closes, and says where it was answered."""
    outcome = stand.asks(stand.begin(), DATABASE)
    card = card_in(page)
    (entry,) = stand.entries()
    stand.call(lambda: stand.store.resolve(entry.id, Answered((Answer((0,)),), "terminal")))
    assert outcome.result(WAIT_S) == Answered((Answer((0,)),), "terminal")
    expect(card).to_contain_text("Answered in the terminal")
    expect(card.locator(".chosen")).to_have_text("PostgreSQL")


def test_the_server_is_restarted_while_a_question_waits(stand: Stand, page: Page) -> None:
    """The page says that it reconnects, and comes back with the question, once, which can be answered."""
    actor = stand.begin()
    outcome = stand.asks(actor, DATABASE)
    card_in(page)
    stand.stop()
    expect(page.locator(".connection")).to_contain_text("Reconnecting")
    missed = stand.asks(actor, NAME)
    stand.serve()
    expect(page.locator(".connection")).to_have_text("Connected")
    expect(page.get_by_role("article")).to_have_count(2)
    card_in(page, "Database").get_by_role("button", name="SQLite").click()
    assert outcome.result(WAIT_S) == Answered((Answer((1,)),), "web")
    card_in(page, "Waiting for you: Name").get_by_label("In your own words").fill("Halyard")
    page.keyboard.press("Enter")
    assert missed.result(WAIT_S) == Answered((Answer((), "Halyard"),), "web")


def test_a_connection_that_is_lost_without_an_end(stand: Stand, new_page: Callable[..., Page]) -> None:
    """The page notices that it hears not even a beat any more, says so, and comes back with what it missed."""
    stand.stop()
    stand.serve(beat_s=1.5)
    tunnel = stand.tunnel()
    page = new_page(signed_in=False)
    page.goto(tunnel.link)
    # By then it knows how often the server beats.
    expect(page.get_by_text("Nothing waits for you")).to_be_visible()
    tunnel.freeze(stand)
    outcome = stand.asks(stand.begin(), DATABASE)
    card_in(page).get_by_role("button", name="SQLite").click()
    assert outcome.result(WAIT_S) == Answered((Answer((1,)),), "web")
    expect(page.locator(".connection")).to_have_text("Connected")


def test_what_ended_while_the_server_was_away(stand: Stand, page: Page) -> None:
    """A question that another surface answered meanwhile is not open when the page comes back."""
    outcome = stand.asks(stand.begin(), DATABASE)
    card_in(page)
    (entry,) = stand.entries()
    stand.stop()
    expect(page.locator(".connection")).to_contain_text("Reconnecting")
    stand.call(lambda: stand.store.resolve(entry.id, Answered((Answer((0,)),), "terminal")))
    outcome.result(WAIT_S)
    stand.serve()
    expect(page.get_by_role("article")).to_contain_text("Answered in the terminal")
    expect(page).to_have_title("opask")


def test_an_answered_card_stays_in_the_conversation(
    stand: Stand, page: Page, new_page: Callable[..., Page]
) -> None:
    """In its session the card stands where it was asked, answered, also after a restart and in a new window."""
    actor = stand.begin(title="Set up the service")
    stand.happens(actor, lambda agent: agent.says("First I look around."))
    stand.happens(actor, lambda agent: agent.uses("Read"))
    outcome = stand.asks(actor, DATABASE)
    card_in(page).get_by_role("link", name="Set up the service").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Set up the service")
    card_in(page).get_by_role("button", name="SQLite").click()
    assert outcome.result(WAIT_S) == Answered((Answer((1,)),), "web")
    stand.happens(actor, lambda agent: agent.says("Then I go on."))
    for _ in range(2):
        expect(page.locator(".log > *")).to_have_text(
            ["First I look around.", "Read", re.compile("Delivered.*SQLite", re.DOTALL), "Then I go on."]
        )
        stand.stop()
        stand.serve()
        page = new_page()
        page.goto(f"{stand.url}#/session/{actor.session_id}")


def test_questions_without_a_call_are_pinned(stand: Stand, page: Page) -> None:
    """An ask that belongs to no announced call stands apart from the conversation, and is answered there."""
    actor = stand.begin()
    stand.happens(actor, lambda agent: agent.says("Hello."))
    outcome = stand.asks(actor, DATABASE, pinned=True, agent_id="tester")
    page.goto(f"{stand.url}#/session/{actor.session_id}")
    expect(page.locator(".log")).to_have_text("Hello.")
    card = card_in(page)
    expect(card.get_by_text("sub-agent tester")).to_be_visible()
    expect(page.locator(".pinned").get_by_role("article")).to_have_count(1)
    card.get_by_role("button", name="SQLite").click()
    assert isinstance(outcome.result(WAIT_S), Answered)


def test_a_cleared_session_is_gone(stand: Stand, page: Page) -> None:
    """Clearing an ended session asks first, and takes its cards along, in every tab."""
    actor = stand.begin(title="Over and done")
    outcome = stand.asks(actor, DATABASE)
    card_in(page).get_by_role("button", name="SQLite").click()
    outcome.result(WAIT_S)
    stand.end_sessions()
    other = page.context.new_page()
    other.goto(stand.url)
    expect(other.get_by_role("article")).to_have_count(1)
    page.goto(f"{stand.url}#/session/{actor.session_id}")
    page.get_by_role("button", name="Clear…").click()
    page.get_by_role("button", name="Clear the session").click()
    expect(page.get_by_text("Nothing waits for you")).to_be_visible()
    expect(page.get_by_role("article")).to_have_count(0)
    expect(other.get_by_role("article")).to_have_count(0)


def test_a_session_that_is_cleared_elsewhere_says_so(stand: Stand, page: Page) -> None:
    """Whoever has a session before them as it is cleared in another tab is told, and sees nothing of it any more."""
    actor = stand.begin(title="Over and done")
    stand.happens(actor, lambda agent: agent.says("First I look around."))
    outcome = stand.asks(actor, DATABASE)
    card_in(page).get_by_role("button", name="SQLite").click()
    outcome.result(WAIT_S)
    page.goto(f"{stand.url}#/session/{actor.session_id}")
    expect(page.get_by_text("First I look around.")).to_be_visible()
    stand.end_sessions()
    stand.call(lambda: stand.store.clear_session(actor.session_id))
    expect(page.get_by_role("alert").filter(has_text="This session was cleared")).to_be_visible()
    expect(page.get_by_text("First I look around.")).to_have_count(0)
    expect(page.get_by_role("article")).to_have_count(0)
    expect(page.get_by_role("button", name="Clear…")).to_be_hidden()


def test_a_conversation_is_cleared_while_it_runs(stand: Stand, page: Page) -> None:
    """What was said before is gone, what is said then is shown, and the session is still there."""
    actor = stand.begin(title="Goes on")
    stand.happens(actor, lambda agent: agent.says("First I look around."))
    page.goto(f"{stand.url}#/session/{actor.session_id}")
    expect(page.get_by_text("First I look around.")).to_be_visible()
    stand.call(lambda: stand.store.clear_session(actor.session_id))
    expect(page.get_by_text("First I look around.")).to_have_count(0)
    stand.happens(actor, lambda agent: agent.says("Then I go on."))
    expect(page.locator(".log")).to_have_text("Then I go on.")
    expect(page.get_by_role("heading", name="Goes on")).to_be_visible()
    expect(page.get_by_role("link", name="Goes on")).to_be_visible()


def test_what_was_read_before_a_clearing_comes_late(stand: Stand, page: Page) -> None:
    """A conversation that was read before it was cleared, and arrives after that, is not shown."""
    actor = stand.begin()
    stand.happens(actor, lambda agent: agent.says("First I look around."))
    late = Late(page, "**/conversation", until_next=True)
    page.goto(f"{stand.url}#/session/{actor.session_id}")
    late.wait()
    stand.call(lambda: stand.store.clear_session(actor.session_id))
    stand.happens(actor, lambda agent: agent.says("Then I go on."))
    expect(page.locator(".log")).to_have_text("Then I go on.")
    stand.happens(actor, lambda agent: agent.says(" And on."))
    expect(page.locator(".log")).to_have_text("Then I go on. And on.")


def test_the_earlier_part_of_a_conversation_that_was_cleared_comes_late(stand: Stand, page: Page) -> None:
    """The part that the operator asked for is not put before what was said since."""
    actor = stand.begin()
    stand.call(
        lambda: stand.store.append(
            actor.session_id,
            [{"event": "tool_announced", "tool": f"Look {n}", "tool_call_id": f"c{n}"} for n in range(1500)],
        )
    )
    page.goto(f"{stand.url}#/session/{actor.session_id}")
    expect(page.get_by_text("Look 1499", exact=True)).to_be_visible()
    late = Late(page, "**/conversation?before=*")
    for shown in ("Look 1200", "Look 900", "Look 600"):
        expect(page.get_by_text(shown, exact=True)).to_be_visible()
        page.get_by_role("button", name="Show earlier").click()
    late.wait()
    stand.call(lambda: stand.store.clear_session(actor.session_id))
    expect(page.get_by_text("Look 1499", exact=True)).to_have_count(0)
    late.arrives()
    stand.happens(actor, lambda agent: agent.says("Then I go on."))
    expect(page.locator(".log")).to_have_text("Then I go on.")


def test_cards_that_were_read_before_a_clearing_come_late(
    stand: Stand, new_page: Callable[..., Page]
) -> None:
    """The card and the session that were cleared while they were on their way to the page do not come back."""
    actor = stand.begin(title="Over and done")
    outcome = stand.asks(actor, DATABASE)
    (entry,) = stand.entries()
    stand.call(lambda: stand.store.resolve(entry.id, Answered((Answer((0,)),), "terminal")))
    outcome.result(WAIT_S)
    stand.end_sessions()
    page = new_page(signed_in=False)
    cards, sessions = Late(page, "**/api/asks?*"), Late(page, "**/api/sessions?*")
    page.goto(stand.link)
    cards.wait()
    sessions.wait()
    expect(page.locator(".connection")).to_have_text("Connected")
    stand.call(lambda: stand.store.clear_session(actor.session_id))
    stand.asks(stand.begin("s2", title="Goes on"), NAME)
    expect(page.get_by_role("article")).to_have_count(1)
    cards.arrives()
    sessions.arrives()
    stand.asks(stand.begin("s3", title="Comes next"), NAME)
    sidebar = page.get_by_role("navigation")
    expect(sidebar.get_by_role("link", name="Comes next")).to_be_visible()
    expect(sidebar.get_by_role("link", name="Over and done", include_hidden=True)).to_have_count(0)
    expect(page.get_by_role("article", name="Name")).to_have_count(2)
    expect(page.get_by_role("article", name="Database")).to_have_count(0)


def test_an_answer_that_did_not_get_through_is_not_called_this_page_s(stand: Stand, page: Page) -> None:
    """Where the server could not be reached and another surface answered, that is what the card says."""
    outcome = stand.asks(stand.begin(), DATABASE)
    card = card_in(page)
    stand.stop()
    card.get_by_role("button", name="SQLite").click()
    expect(card).to_contain_text("nobody knows yet whether this was taken")
    (entry,) = stand.entries()
    stand.call(lambda: stand.store.resolve(entry.id, Answered((Answer((0,)),), "terminal")))
    outcome.result(WAIT_S)
    stand.serve()
    expect(page.get_by_role("article")).to_contain_text("Answered in the terminal")


def test_a_tab_that_could_not_read_what_there_is_reads_it_later(stand: Stand, page: Page) -> None:
    """A second tab whose first look fails, and which is passed only changes, has everything once the server is back."""
    stand.asks(stand.begin(), DATABASE)
    card_in(page)
    other = page.context.new_page()
    other.route("**/api/asks?*", lambda route: route.abort())
    other.goto(stand.url)
    expect(other.locator(".connection")).to_have_text("Connected")
    expect(other.get_by_role("article")).to_have_count(0)
    other.unroute("**/api/asks?*")
    stand.stop()
    expect(other.locator(".connection")).to_contain_text("Reconnecting")
    stand.serve()
    card_in(other, "Waiting for you: Database")


def test_an_inbox_that_is_gone_is_told(stand: Stand, page: Page) -> None:
    """Where the server is there and its inbox's file is not, the page says so, and never that it is connected."""
    expect(page.locator(".connection")).to_have_text("Connected")
    stand.remove_inbox()
    connection = page.locator(".connection")
    expect(connection).to_contain_text("The inbox cannot be used")
    with page.expect_response("**/api/feed*") as answer:
        pass
    assert answer.value.status == 503
    expect(connection).to_contain_text("was removed")


def test_an_expired_token_says_what_to_do(stand: Stand, page: Page) -> None:
    """A page whose token is no longer taken says that it is signed out, and how to come back."""
    stand.asks(stand.begin(), DATABASE)
    card_in(page)
    stand.stop()
    stand.serve(token="another-token-that-this-page-does-not-have-0000")
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_contain_text("signed out")
    expect(dialog).to_contain_text("Open the newest link")


def test_a_new_question_is_announced(stand: Stand, page: Page) -> None:
    """A question that comes in is told to a screen reader, and so is that it was answered elsewhere."""
    live = page.locator("[aria-live]")
    expect(page.get_by_text("Nothing waits for you")).to_be_visible()
    actor: Actor = stand.begin(title="Set up the service")
    stand.asks(actor, DATABASE)
    expect(live).to_have_text("New question from Set up the service: Database")
    (entry,) = stand.entries()
    stand.call(lambda: stand.store.resolve(entry.id, Answered((Answer((0,)),), "terminal")))
    expect(live).to_contain_text("Answered in the terminal")


def test_many_tabs_share_one_feed(stand: Stand, page: Page) -> None:
    """More tabs than a browser has connections show the same; when the one that reads for all goes, another does."""
    actor = stand.begin()
    first = stand.asks(actor, DATABASE)
    card_in(page)
    tabs = [page.context.new_page() for _ in range(8)]
    for tab in tabs:
        tab.goto(stand.url)
        expect(tab.get_by_role("article", name="Waiting for you: Database")).to_have_count(1)
    page.close()
    second = stand.asks(actor, NAME)
    for tab in tabs:
        expect(tab).to_have_title("(2) opask")
    card_in(tabs[-1], "Database").get_by_role("button", name="SQLite").click()
    first.result(WAIT_S)
    # Once it is told here too: what moves under a key takes none.
    expect(tabs[3].get_by_role("article", name="Delivered: Database")).to_have_count(1)
    card_in(tabs[3], "Name").get_by_label("In your own words").fill("Halyard")
    tabs[3].keyboard.press("Enter")
    assert second.result(WAIT_S) == Answered((Answer((), "Halyard"),), "web")
    for tab in tabs:
        expect(tab.get_by_role("article", name="Delivered: Name")).to_have_count(1)
        expect(tab.get_by_role("article", name="Delivered: Database")).to_have_count(1)
        expect(tab).to_have_title("opask")


def test_signing_in_again_wakes_every_tab(stand: Stand, page: Page) -> None:
    """Once somebody has opened the right link again, the tabs that were signed out go on where they were."""
    actor = stand.begin()
    stand.asks(actor, DATABASE)
    other = page.context.new_page()
    other.goto(stand.url)
    card_in(other)
    stand.stop()
    stand.serve(token="another-token-that-this-page-does-not-have-0000")
    for tab in (page, other):
        expect(tab.get_by_role("alertdialog")).to_be_visible()
    stand.stop()
    stand.serve()
    other.goto(stand.link)
    stand.asks(actor, NAME)
    for tab in (page, other):
        expect(tab.get_by_role("article")).to_have_count(2)
        expect(tab.get_by_role("alertdialog")).to_have_count(0)
