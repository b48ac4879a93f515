"""The cards as custom elements in a page of a host's own, which mounts the surface and signs its people in itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route

from opask.outcomes import Answered, Skipped
from opask.questions import Answer
from web_actors import question
from web_browser import WAIT_S, Held, Late, Stand, card_in, expect, violations

if TYPE_CHECKING:
    from playwright.sync_api import Page
    from playwright.sync_api import Route as Routed

pytestmark = pytest.mark.browser

DATABASE = question("Which database?", "PostgreSQL", "SQLite", header="Database")
PARTS = question("Which parts?", "API", "Page", header="Parts", several=True)
NAME = question("What is it called?", header="Name")
PAGE = """<!doctype html>
<html lang="en">
  <head>
    <title>Some application</title>
    <style>button { display: none } p { color: red !important } * { letter-spacing: 4px }</style>
    <script type="module" src="/ask/page/element.js"></script>
    <script>
      window.heard = [];
      for (const type of ["asked", "answered", "skipped", "cancelled", "closed", "settled"]) {
        document.addEventListener(`opask-${type}`, (event) => heard.push([event.type, event.detail.ask.session_id]));
      }
    </script>
  </head>
  <body><main><h1>Some application</h1>ELEMENT</main></body>
</html>"""


async def alice(request: HTTPConnection, /) -> str | None:
    """Let in whoever the application knows."""
    return "alice" if request.cookies.get("known") == "yes" else None


def hosting(element: str) -> Callable[[Starlette], Starlette]:
    """Return what puts the surface under ``/ask`` of an application whose page has an element."""

    async def index(request: Request) -> Response:
        response = HTMLResponse(PAGE.replace("ELEMENT", element))
        response.set_cookie("known", "yes", samesite="strict")
        return response

    return lambda surface: Starlette(routes=[Route("/", index), Mount("/ask", surface)])


def test_a_session_s_asks_in_a_page_of_the_host(stand: Stand, new_page: Callable[..., Page]) -> None:
    """The element shows one session's asks, answers them as the host's user, and tells the page."""
    stand.stop()
    stand.serve(auth=alice, around=hosting('<opask-inbox session="s1"></opask-inbox>'))
    page = new_page(signed_in=False)
    page.goto(stand.url)
    expect(page.get_by_text("Nothing waits for you")).to_be_visible()
    here, elsewhere = stand.begin("s1"), stand.begin("s2")
    other = stand.asks(elsewhere, NAME)
    outcome = stand.asks(here, DATABASE)
    card = card_in(page, "Database")
    expect(page.get_by_role("article")).to_have_count(1)
    assert page.locator("opask-inbox").evaluate("element => element.count") == 1
    assert violations(page) == []
    card.get_by_role("button", name="SQLite").click()
    assert outcome.result(WAIT_S) == Answered((Answer((1,)),), "web:alice")
    expect(card).to_contain_text("Delivered")
    page.wait_for_function("() => heard.length === 4")
    heard = [name for name, session in page.evaluate("heard") if session == "s1"]
    assert heard[:2] == ["opask-asked", "opask-closed"]
    assert sorted(heard[2:]) == ["opask-answered", "opask-settled"]
    assert not other.done()
    expect(page).to_have_title("Some application")


def test_one_ask_in_a_page_of_the_host(stand: Stand, new_page: Callable[..., Page]) -> None:
    """The element of one ask shows that one, whichever it is told of, and what became of it."""
    actor = stand.begin()
    outcomes = [stand.asks(actor, DATABASE, ask_id="ask_1"), stand.asks(actor, NAME, ask_id="ask_2")]
    stand.stop()
    stand.serve(auth=alice, around=hosting('<opask-card ask="ask_1" base="/ask/"></opask-card>'))
    page = new_page(signed_in=False, color_scheme="dark")
    page.goto(stand.url)
    card_in(page, "Database").get_by_role("button", name="Skip").click()
    assert outcomes[0].result(WAIT_S) == Skipped("web:alice")
    expect(page.get_by_role("article")).to_contain_text("Skipped here")
    page.locator("opask-card").evaluate("element => element.setAttribute('ask', 'ask_2')")
    words = card_in(page, "Name").get_by_label("In your own words")
    words.fill("Halyard")
    stand.asks(actor, PARTS)
    page.wait_for_function("() => document.querySelector('opask-card').inbox.asks.size === 3")
    expect(words).to_be_focused()
    page.keyboard.press("Enter")
    assert outcomes[1].result(WAIT_S) == Answered((Answer((), "Halyard"),), "web:alice")
    page.wait_for_function("() => heard.some(([type]) => type === 'opask-answered')")
    page.locator("opask-card").evaluate("element => element.remove()")
    expect(page.get_by_role("article")).to_have_count(0)
    heard = [name for name, _ in page.evaluate("heard")]
    assert [name for name in heard if name != "opask-settled"] == [
        "opask-closed",
        "opask-skipped",
        "opask-closed",
        "opask-answered",
    ]


def test_an_ask_that_was_open_when_it_was_read(stand: Stand, new_page: Callable[..., Page]) -> None:
    """An ask that was closed before the feed began is shown so, though what was read before that comes in after it."""
    outcome = stand.asks(stand.begin(title="Set up the service"), DATABASE, ask_id="ask_1")
    stand.stop()
    stand.serve(auth=alice, around=hosting('<opask-card ask="ask_1"></opask-card>'))
    page = new_page(signed_in=False)
    read, feed = Late(page, "**/api/asks/ask_1"), Held(page, "**/api/feed*")
    page.goto(stand.url)
    read.wait()
    feed.wait()
    stand.call(lambda: stand.store.resolve("ask_1", Answered((Answer((0,)),), "terminal")))
    outcome.result(WAIT_S)
    feed.go_on()
    page.wait_for_function("() => document.querySelector('opask-card').inbox.ready")
    read.arrives()
    expect(page.get_by_role("article")).to_contain_text("Answered in the terminal")
    assert page.locator("opask-card").evaluate("element => element.count") == 0


def test_an_ask_that_was_read_before_its_session(stand: Stand, new_page: Callable[..., Page]) -> None:
    """The card names the session as soon as it is known."""
    stand.asks(stand.begin(title="Set up the service"), DATABASE, ask_id="ask_1")
    stand.stop()
    stand.serve(auth=alice, around=hosting('<opask-card ask="ask_1"></opask-card>'))
    page = new_page(signed_in=False)
    feed = Held(page, "**/api/feed*")
    page.goto(stand.url)
    feed.wait()
    expect(page.locator(".who")).to_contain_text("s1")
    feed.go_on()
    expect(page.locator(".who")).to_contain_text("Set up the service")


def test_an_ask_that_could_not_be_read(stand: Stand, new_page: Callable[..., Page]) -> None:
    """The element says why there is no card, has one once the server is back, and keeps it however many come after."""
    outcome = stand.asks(stand.begin(), DATABASE, ask_id="ask_1")
    stand.call(lambda: stand.store.resolve("ask_1", Answered((Answer((0,)),), "terminal")))
    outcome.result(WAIT_S)
    stand.stop()
    around = hosting('<opask-card ask="ask_1"></opask-card>')
    stand.serve(auth=alice, around=around)
    page = new_page(signed_in=False)
    page.route("**/api/asks/ask_1", lambda route: route.abort())
    page.goto(stand.url)
    expect(page.get_by_text("The server cannot be reached")).to_be_visible()
    page.wait_for_function("() => document.querySelector('opask-card').inbox.ready")
    page.unroute("**/api/asks/ask_1")
    stand.stop()
    expect(page.get_by_text("Reconnecting")).to_be_visible()
    stand.serve(auth=alice, around=around)
    expect(page.get_by_role("article")).to_contain_text("Answered in the terminal")
    expect(page.get_by_text("The server cannot be reached")).to_have_count(0)
    page.locator("opask-card").evaluate(
        """({ inbox }) => {
            const [ask] = inbox.asks.values();
            const past = (at) => ({ ...ask, id: `past-${at}`, number: 10 + at, session_id: "s2" });
            inbox.learn(Array.from({ length: 3000 }, (_, at) => past(at)));
        }"""
    )
    expect(page.get_by_role("article")).to_contain_text("Answered in the terminal")


def test_an_element_is_removed_while_it_finds_out_why_there_is_no_feed(
    stand: Stand, new_page: Callable[..., Page]
) -> None:
    """Nobody watches any more after that: no feed is opened for an element that is not there."""
    stand.stop()
    around = hosting("<opask-inbox></opask-inbox>")
    stand.serve(auth=alice, around=around)
    page = new_page(signed_in=False)
    page.clock.install()
    page.goto(stand.url)
    expect(page.get_by_text("Nothing waits for you")).to_be_visible()
    feeds: list[str] = []

    def refuse(route: Routed) -> None:
        feeds.append(route.request.url)
        route.fulfill(status=503)

    page.route("**/api/feed*", refuse)
    check = Late(page, "**/api/sessions?*")
    stand.stop()
    stand.serve(auth=alice, around=around)
    check.wait()
    page.locator("opask-inbox").evaluate("element => element.remove()")
    with page.expect_response("**/api/sessions?*") as answer:
        check.arrives()
    answer.value.finished()
    page.evaluate("fetch('./ask/api/sessions?limit=1').then((response) => response.json())")
    page.clock.fast_forward(60_000)
    page.evaluate("fetch('./ask/api/sessions?limit=1').then((response) => response.json())")
    assert len(feeds) == 1


def test_the_page_works_under_a_prefix(stand: Stand, new_page: Callable[..., Page]) -> None:
    """The whole page too may be mounted: all its addresses are relative."""
    outcome = stand.asks(stand.begin(title="Set up the service"), DATABASE)
    stand.stop()
    stand.serve(auth=alice, around=hosting(""))
    page = new_page(signed_in=False)
    page.goto(stand.url)
    page.goto(f"{stand.url}ask/")
    card_in(page, "Database").get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Set up the service")
    card_in(page, "Database").get_by_role("button", name="SQLite").click()
    assert outcome.result(WAIT_S) == Answered((Answer((1,)),), "web:alice")
