"""How the page bears what it is shown: much, hostile, long; and that everybody can read it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from opask.inbox import Card, MemoryStore, entry_to_json, place
from opask.inert import inert, inert_line, shorten
from opask.outcomes import Answered, TimedOut, Unavailable
from opask.questions import Answer
from web_actors import Actor, question
from web_browser import INBOX, WAIT_S, Stand, card_in, expect, violations

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

DATABASE = question(
    "Which database should `service` use?\n```\nasync def open(url): ...\n```",
    ("PostgreSQL", "A server of its own"),
    ("SQLite", "A file:\n```\nservice.db\n```"),
    header="Database",
)
PARTS = question("Which parts first?", "API", "Page", "Docs", header="Parts", several=True)
NAME = question("What is it called?", header="Name")
REGION = question("Where?", *(f"region-{number}" for number in range(1, 25)), header="Region")
HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)> \x1b[31mred\x1b[0m\x07 \x9b31m "
    "\u202egnp.exe\u202c \u2066x\u2069 \u200b\ufeff\u00ad \x00\x7f \u2028 [click](javascript:alert(3)) ``"
    "<iframe srcdoc='<script>alert(4)</script>'> </textarea><svg onload=alert(5)> ${7*7} {{7*7}} \U000e0041"
)
VIEWS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 360, "height": 740}, "has_touch": True},
}


def test_thirty_asks_of_ten_sessions(stand: Stand, page: Page) -> None:
    """All are there once, the longest waiting on top and whole; each can be unfolded and answered on its own."""
    asked = {}
    for number in range(10):
        actor = stand.begin(f"s{number}", title=f"Task {number}")
        for part in "abc":
            asked[number, part] = stand.asks(actor, question(f"{number}{part}?", f"Yes {number}{part}", "No"))
    expect(page).to_have_title("(30) opask")
    expect(page.get_by_role("article")).to_have_count(30)
    names = [f"Waiting for you: {number}{part}?" for number in range(10) for part in "abc"]
    assert page.get_by_role("article").evaluate_all("all => all.map(one => one.ariaLabel)") == names
    expect(page.get_by_role("navigation").get_by_text("Task")).to_have_count(10)
    card = card_in(page, "7b?")
    expect(card.get_by_role("button", name="Yes 7b")).to_be_hidden()
    card.get_by_role("button", name="7b?").click()
    card_in(page, "7b?").get_by_role("button", name="Yes 7b").click()
    assert asked[7, "b"].result(WAIT_S) == Answered((Answer((0,)),), "web")
    expect(page).to_have_title("(29) opask")
    assert [key for key, outcome in asked.items() if outcome.done()] == [(7, "b")]


def test_hostile_texts_are_shown_as_text(stand: Stand, page: Page) -> None:
    """Markup, escapes and invisible characters are shown as what they are, in every field, and nothing happens."""
    name = HOSTILE.replace("\x00", "")  # an inbox refuses it there
    actor = stand.begin("s<b>&1?#", title=name, runtime=name)
    stand.happens(actor, lambda agent: agent.says(HOSTILE))
    stand.happens(actor, lambda agent: agent.uses(HOSTILE))
    label = "x" * 10_000
    asks = (question(HOSTILE, (f"A {HOSTILE}", HOSTILE), ("B", label), (label, ""), header=HOSTILE), NAME)
    outcome = stand.asks(actor, *asks, agent_id=name)
    card = card_in(page)
    expect(card.locator(".text").first).to_have_text(inert_line(HOSTILE), use_inner_text=False)
    expect(card.get_by_role("radio")).to_have_count(3)
    card.get_by_role("button", name="Show all of option 3").click()
    expect(card.locator(".label").nth(2)).to_have_text(label)
    card.get_by_role("radio").first.check()
    card.get_by_label("In your own words", exact=True).fill(name)
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    card.get_by_role("link").click()
    expect(page.locator(".log .said")).to_have_text(inert_line(HOSTILE))
    card_in(page).get_by_role("button", name="Send").click()
    answered = outcome.result(WAIT_S)
    assert isinstance(answered, Answered)
    assert answered.answers[0] == Answer((0,))
    expect(page.get_by_role("article")).to_contain_text("Delivered")
    assert page.locator("script, iframe, svg, body img:not(.brand img)").count() == 1
    expect(page).to_have_title("opask")


def test_reasons_are_shown_as_text(stand: Stand, page: Page) -> None:
    """What a host says of an ask is as inert as what an agent says."""
    stand.begin()
    ask = stand.puts(DATABASE, wait=timedelta(minutes=5), latest=timedelta(minutes=5))
    card_in(page)
    stand.call(lambda: stand.store.settle(ask.id, Unavailable(HOSTILE)))
    expect(page.locator(".standing")).to_contain_text("<script>alert(1)</script>")
    expect(page.locator(".standing")).to_contain_text("<U+202E>")


@pytest.mark.parametrize("view", VIEWS)
def test_everybody_can_use_it(stand: Stand, new_page: Callable[..., Page], view: str) -> None:
    """axe-core finds nothing wrong with open, folded and closed cards, a conversation, dialogs and errors."""
    page = new_page(**VIEWS[view])
    actor = stand.begin(title="Set up the service")
    stand.happens(actor, lambda agent: agent.says("First `this`:\n```\nls\n```"))
    stand.happens(actor, lambda agent: agent.uses("Read"))
    asked = [stand.asks(actor, *each) for each in ((DATABASE,), (PARTS, NAME, DATABASE), (REGION,), (NAME,))]
    stand.asks(stand.begin("s2", title="Another"), NAME, wait=timedelta(seconds=50), pinned=True)
    late = stand.puts(NAME, wait=timedelta(minutes=5), latest=timedelta(minutes=5))
    stand.call(lambda: stand.store.settle(late.id, TimedOut(timedelta(minutes=5))))
    expect(page.get_by_role("article")).to_have_count(6)
    card_in(page, "Parts")
    page.locator(".fold[aria-expanded=false]").last.click()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    card = card_in(page, "Parts")
    card.get_by_role("button", name="Send").click()
    card.get_by_role("button", name="Cancel…").click()
    card.get_by_role("checkbox", name="API").check()
    assert violations(page) == []
    card_in(page, "Waiting for you: Database").get_by_role("button", name="SQLite").click()
    asked[0].result(WAIT_S)
    card_in(page, "Delivered: Database").get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Set up the service")
    page.get_by_role("button", name="Answer with a follow-up prompt").click()
    card_in(page, "Parts")
    assert violations(page) == []
    page.get_by_role("button", name="Keys").click()
    assert violations(page) == []
    page.keyboard.press("Escape")
    stand.stop()
    expect(page.locator(".connection")).to_contain_text("Reconnecting")
    assert violations(page) == []
    stand.serve(token="another-token-that-this-page-does-not-have-0000")
    expect(page.get_by_role("alertdialog")).to_be_visible()
    assert violations(page) == []


def test_the_browser_makes_text_inert_as_the_library_does(stand: Stand, page: Page) -> None:
    """The page's own rules for hostile text give what opask.inert gives, for every character of the planes in use."""
    points = [*range(0x3000), *range(0xD7F0, 0xD800), *range(0xE000, 0x10000), *range(0x1BC90, 0x1BCB0)]
    points += [*range(0x1D160, 0x1D180), *range(0xDFFF0, 0xE1010)]
    samples = [chr(point) for point in points] + [
        HOSTILE,
        "a\r\nb\rc\n\td",
        "\ud800",
        "a\udfffb",
        "🙂\u200d🙂",
    ]
    shown = page.evaluate(
        "async (samples) => { const {inert} = await import('./page/inert.js');"
        " return samples.map((text) => inert(JSON.parse(text))) }",
        [json.dumps(text) for text in samples],
    )
    assert shown == [inert(text) for text in samples]
    cut = page.evaluate(
        "async (text) => { const {shorten} = await import('./page/inert.js'); return [5, 80].map((n) => shorten(text, n)) }",
        HOSTILE,
    )
    assert cut == [shorten(HOSTILE, 5), shorten(HOSTILE, 80)]


def test_the_browser_places_cards_as_the_library_does(stand: Stand, page: Page) -> None:
    """The page puts cards into a growing conversation where `opask.inbox.place` puts them."""
    actor: Actor = stand.begin()
    for each, pinned in ((DATABASE, False), (NAME, True), (PARTS, False)):
        stand.asks(actor, each, pinned=pinned)
        stand.happens(actor, lambda agent: agent.says("Meanwhile."))
    entries = stand.entries()
    events = stand.call(lambda: stand.store.events("s1"))
    placed = place(events, entries)
    given = page.evaluate(
        "async ([events, asks]) => { const {place} = await import('./page/place.js');"
        " const {items, pinned} = place(events, asks);"
        " return [items.map((item) => item.id ?? item.position), pinned.map((ask) => ask.id)] }",
        [
            [{"position": each.position, "event": dict(each.event)} for each in events],
            [entry_to_json(entry) for entry in entries],
        ],
    )
    wanted = [item.entry.id if isinstance(item, Card) else item.position for item in placed.items]
    assert given == [wanted, [card.entry.id for card in placed.pinned]]


def test_notifications_are_asked_for_by_a_button(stand: Stand, page: Page) -> None:
    """No notification without the button; with it, a question that comes in while another window is in front shows one."""
    page.context.grant_permissions(["notifications"], origin=stand.url.rstrip("/"))
    page.evaluate(
        "() => { window.shown = []; document.hasFocus = () => false;"
        " window.Notification = class extends Notification {"
        " constructor(title, options) { super(title, options); shown.push([title, options.body]) } } }"
    )
    expect(page.get_by_text("Nothing waits for you")).to_be_visible()
    actor = stand.begin(title="Set up the service")
    stand.asks(actor, NAME)
    card_in(page)
    assert page.evaluate("shown") == []
    page.get_by_role("button", name="Notify me").click()
    expect(page.get_by_role("button", name="Notifications: on")).to_be_visible()
    stand.asks(actor, question(HOSTILE, header="Hostile"))
    page.wait_for_function("() => shown.length === 1")
    assert page.evaluate("shown") == [["Hostile", f"Set up the service\n{shorten(HOSTILE, 200)}"]]
    page.get_by_role("button", name="Notifications: on").click()
    expect(page.get_by_role("button", name="Notify me")).to_be_visible()


def test_a_notification_goes_with_its_question(stand: Stand, page: Page) -> None:
    """It is taken away where the question is answered elsewhere, and where the inbox is another one by then."""
    page.context.grant_permissions(["notifications"], origin=stand.url.rstrip("/"))
    page.evaluate(
        "() => { window.shown = []; window.closed_ = []; document.hasFocus = () => false;"
        " window.Notification = class extends Notification {"
        " constructor(title, options) { super(title, options); shown.push(title) }"
        " close() { closed_.push(this.title); super.close() } } }"
    )
    page.get_by_role("button", name="Notify me").click()
    expect(page.get_by_role("button", name="Notifications: on")).to_be_visible()
    page.wait_for_function(f"() => {INBOX}.then((inbox) => inbox.ready)")
    actor = stand.begin()
    stand.asks(actor, DATABASE)
    stand.asks(actor, NAME)
    page.wait_for_function("() => shown.length === 2")
    database, _ = stand.entries()
    stand.call(lambda: stand.store.resolve(database.id, Answered((Answer((0,)),), "terminal")))
    page.wait_for_function("() => closed_.length === 1")
    stand.stop()
    stand.serve(store=MemoryStore())
    page.wait_for_function("() => closed_.length === 2")
    assert page.evaluate("closed_") == ["Database", "Name"]


def test_the_time_that_is_left_is_shown(stand: Stand, page: Page) -> None:
    """A card counts down, more urgently towards the end, and says so when the time is up."""
    page.clock.install()
    # The server's clock does not jump along, so that it would count as one that is behind.
    page.evaluate(
        f"() => {INBOX}.then(({{ api }}) => Object.defineProperty(api, 'ahead', {{ get: () => 0, set() {{}} }}))"
    )
    stand.asks(stand.begin(), NAME, wait=timedelta(minutes=5))
    (entry,) = stand.entries()
    assert entry.deadline is not None
    card = card_in(page)
    for left, shown, urgency, age in (
        (120, "2:00 left", "calm", "asked 3 min ago"),
        (50, "0:50 left", "hurry", "asked 4 min ago"),
        (10, "0:10 left", "last", "asked 4 min ago"),
        (-1, "time is up", "last", "asked 5 min ago"),
    ):
        page.clock.pause_at(entry.deadline - timedelta(seconds=left))
        page.clock.run_for(1)
        expect(card.locator(".left")).to_have_text(shown)
        expect(card).to_have_attribute("data-urgency", urgency)
        expect(card.locator(".age")).to_have_text(age)


def test_a_long_conversation_is_read_in_parts(stand: Stand, page: Page) -> None:
    """Of a long session its end is read; earlier parts come on demand, with the cards that belong there."""

    def goes_on(agent: Actor) -> None:
        for number in range(800):
            agent.uses(f"Tool {number}")

    actor = stand.begin()
    early = stand.asks(actor, DATABASE)
    apart = stand.asks(actor, NAME, pinned=True)
    card_in(page, "Database").get_by_role("button", name="SQLite").click()
    assert early.result(WAIT_S) == Answered((Answer((1,)),), "web")
    stand.happens(actor, goes_on)
    stand.asks(actor, PARTS)
    page.goto(f"{stand.url}#/session/{actor.session_id}")
    cards = page.locator(".session .card")
    expect(cards).to_have_count(2)  # not the one whose call is further up
    expect(page.locator(".pinned .card")).to_contain_text(NAME.text)
    for _ in range(5):  # 300 of 1,600 events are shown, and as many more each time
        page.get_by_role("button", name="Show earlier").click()
    expect(page.locator(".log .card").first).to_contain_text("SQLite")
    expect(page.get_by_role("button", name="Show earlier")).to_be_hidden()
    expect(page.locator(".log").get_by_text("Tool 0", exact=True)).to_be_visible()
    expect(page.locator(".pinned .card")).to_have_count(1)
    assert not apart.done()


def test_a_page_that_stays_open_keeps_a_bounded_past(stand: Stand, page: Page) -> None:
    """Of thousands of asks that came and went the page knows the youngest, and all that are open."""
    stand.asks(stand.begin(), DATABASE)
    card_in(page)
    held = page.evaluate(
        f"""{INBOX}.then((inbox) => {{
            const [open] = inbox.asks.values();
            const past = (at) => ({{ ...open, id: `past-${{at}}`, state: "skipped", number: 10 + at, session_id: "s2" }});
            inbox.learn(Array.from({{ length: 3000 }}, (_, at) => past(at)));
            return [...inbox.asks.keys()];
        }})"""
    )
    assert "past-2999" in held
    assert "past-0" not in held
    assert len(held) < 1000
    expect(page.get_by_role("article", name="Waiting for you: Database")).to_have_count(1)


def test_changes_that_come_together_are_drawn_together(stand: Stand, page: Page) -> None:
    """A thousand changes before the next picture cost one drawing of each view."""
    stand.asks(stand.begin(), DATABASE)
    card_in(page)
    drawn = page.evaluate(
        f"""{INBOX}.then(async (inbox) => {{
            let count = 0;
            const measure = Element.prototype.getBoundingClientRect;
            Element.prototype.getBoundingClientRect = function () {{ count += 1; return measure.call(this); }};
            for (let at = 0; at < 1000; at += 1) inbox.dispatchEvent(new CustomEvent("change"));
            await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
            Element.prototype.getBoundingClientRect = measure;
            return count;
        }})"""
    )
    assert 0 < drawn < 20
