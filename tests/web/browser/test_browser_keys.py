"""The page by keyboard alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opask.outcomes import Answered, Skipped
from opask.questions import Answer
from web_actors import question
from web_browser import WAIT_S, Stand, card_in, drawn, expect, still

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

DATABASE = question("Which database?", "PostgreSQL", "SQLite", header="Database")
PARTS = question("Which parts first?", "API", "Page", "Docs", header="Parts", several=True)
NAME = question("What is it called?", header="Name")
REGION = question("Where?", *(f"region-{number}" for number in range(1, 25)), header="Region")


def test_digits_choose_and_letters_move(stand: Stand, page: Page) -> None:
    """Cards are walked with j and k, a digit answers, t begins to write, Enter sends, s skips."""
    page.clock.install()  # a closed card that goes elsewhere moves the others
    actor = stand.begin()
    asked = [stand.asks(actor, each) for each in (DATABASE, PARTS, NAME)]
    expect(page.get_by_role("article")).to_have_count(3)
    still(page)
    database, parts, name = (page.get_by_role("article", name=name) for name in ("Database", "Parts", "Name"))
    keys = page.keyboard
    keys.press("j")
    keys.press("j")
    keys.press("k")
    expect(database).to_be_focused()
    page.clock.run_for(1000)
    keys.press("2")
    assert asked[0].result(WAIT_S) == Answered((Answer((1,)),), "web")
    drawn(page, "delivered")
    expect(database).to_contain_text("Delivered")
    expect(database).to_be_focused()
    keys.press("j")
    expect(parts).to_be_focused()
    page.clock.run_for(1000)
    keys.press("3")
    keys.press("1")
    keys.press("Enter")
    assert asked[1].result(WAIT_S) == Answered((Answer((2, 0)),), "web")
    drawn(page, "delivered", 2)
    expect(parts).to_contain_text("Delivered")
    expect(parts).to_be_focused()
    keys.press("j")
    page.clock.run_for(1000)
    keys.press("t")
    keys.type("j is a letter here; 2 too")
    keys.press("Escape")
    expect(name).to_be_focused()
    keys.press("s")
    assert asked[2].result(WAIT_S) == Skipped("web")


def test_tab_and_space_are_enough(stand: Stand, page: Page) -> None:
    """With single keys off, everything is reached by Tab and pressed by Space or Enter."""
    outcome = stand.asks(stand.begin(), DATABASE)
    card_in(page)
    page.keyboard.press("?")
    page.get_by_role("checkbox", name="Single keys are shortcuts").press("Space")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("2")
    expect(page.get_by_role("dialog")).to_have_count(0)
    option = card_in(page).get_by_role("button", name="SQLite")
    for _ in range(20):
        if option.evaluate("element => element === document.activeElement"):
            break
        page.keyboard.press("Tab")
    expect(option).to_be_focused()
    page.keyboard.press("Space")
    assert outcome.result(WAIT_S) == Answered((Answer((1,)),), "web")


def test_many_options_are_gone_to_by_number(stand: Stand, page: Page) -> None:
    """With many options digits move the focus, one after the other; Enter then chooses."""
    outcome = stand.asks(stand.begin(), REGION)
    card_in(page)
    page.keyboard.press("j")
    card = card_in(page)
    page.keyboard.press("2")
    page.keyboard.press("3")
    expect(card.get_by_role("button", name="region-23")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(card.get_by_role("button", name="region-24")).to_be_focused()
    assert not outcome.done()
    page.keyboard.press("Enter")
    assert outcome.result(WAIT_S) == Answered((Answer((23,)),), "web")


def test_many_options_are_searched(stand: Stand, page: Page) -> None:
    """A search shows the options that match; Enter in it sends nothing."""
    outcome = stand.asks(stand.begin(), REGION)
    card = card_in(page)
    box = card.get_by_label("Search the 24 options")
    box.fill("region-17")
    expect(card.get_by_role("button", name="region-")).to_have_count(1)
    box.press("Enter")
    assert not outcome.done()
    card_in(page).get_by_role("button", name="region-17").click()
    assert outcome.result(WAIT_S) == Answered((Answer((16,)),), "web")


def test_typed_ahead_keys_do_not_count(stand: Stand, page: Page) -> None:
    """A digit that comes as a card gets the focus does not answer it, nor does what follows without a pause."""
    page.clock.install()
    actor = stand.begin()
    first, second = (stand.asks(actor, question(text, "Yes", "No")) for text in ("First?", "Second?"))
    expect(page.get_by_role("article")).to_have_count(2)
    still(page)
    page.keyboard.press("j")
    page.clock.run_for(1000)
    page.keyboard.press("1")
    assert isinstance(first.result(WAIT_S), Answered)
    drawn(page, "delivered")
    expect(page.get_by_role("article", name="First?")).to_contain_text("Delivered")
    page.keyboard.press("j")
    for _ in range(3):
        page.keyboard.press("1")
    expect(page.get_by_role("alert").filter(has_text="did not count")).to_be_visible()
    assert not second.done()
    page.clock.run_for(1000)
    page.keyboard.press("1")
    assert isinstance(second.result(WAIT_S), Answered)


def test_a_key_counts_wherever_its_card_went(stand: Stand, page: Page) -> None:
    """As a card moves under the hand no click in it counts, but Enter sends what is typed there: the focus did not move."""
    page.clock.install()
    actor = stand.begin()
    first, second = stand.asks(actor, DATABASE), stand.asks(actor, NAME)
    expect(page.get_by_role("article")).to_have_count(2)
    still(page)
    name = page.get_by_role("article", name="Name")
    name.get_by_label("In your own words").fill("Halyard")
    entry = next(entry for entry in stand.entries() if entry.ask.questions[0].header == "Database")
    stand.call(lambda: stand.store.resolve(entry.id, Answered((Answer((0,)),), "terminal")))
    first.result(WAIT_S)
    drawn(page, "delivered")
    expect(name).to_have_attribute("data-stirred", "")
    name.get_by_role("button", name="Skip").dispatch_event("click")
    expect(page.get_by_role("alert").filter(has_text="did not count")).to_be_visible()
    assert not second.done()
    name.get_by_label("In your own words").press("Enter")
    assert second.result(WAIT_S) == Answered((Answer((), "Halyard"),), "web")


def test_the_keys_are_listed(stand: Stand, page: Page) -> None:
    """A question mark lists the keys, and Escape closes the list."""
    expect(page.get_by_text("Nothing waits for you")).to_be_visible()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_contain_text("next, previous card")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
