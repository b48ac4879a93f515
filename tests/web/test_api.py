"""The JSON API: what it gives, what it takes, and what it refuses with which words."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import anyio
import pytest
from attrs import evolve
from jsonschema import Draft202012Validator  # type: ignore[import-untyped] # comes with mcp, without types

from opask.inbox import InboxPrompter, MemoryStore
from opask.outcomes import Answered, Cancelled, Outcome, Skipped, TimedOut
from opask.questions import Answer, Ask, Question
from opask.surfaces.web import TokenAuth, application
from opask.surfaces.web.openapi import described_file, description
from opask.surfaces.web.operations import OPERATIONS
from web_actors import Actor, acting
from web_play import DATABASE, HOSTILE, HOSTILE_TEXT, NAME, PARTS
from web_site import Site, reading


class Asking:
    """One ask that is under way."""

    def __init__(self, actor: Actor, *questions: Question, **options: Any) -> None:
        self._actor = actor
        self._questions = questions
        self._options = options
        self.outcome: Outcome | None = None

    async def run(self) -> None:
        self.outcome = await self._actor.asks(*self._questions, **self._options)


async def pending(site: Site, count: int = 1) -> list[dict[str, Any]]:
    """Wait until so many asks are open; give them."""
    async with reading(site, watch="0") as lines:
        async for _ in lines:
            asks: list[dict[str, Any]] = (await site.get("/api/asks"))["asks"]
            if len(asks) >= count:
                return asks
    raise AssertionError("the feed ended")


async def given_up(site: Site, prompter: InboxPrompter, ask_id: str) -> None:
    """Put an ask into session s1 that nobody answers in time."""
    await site.store.put(Ask(ask_id, "s1", (NAME,), datetime.now(UTC)), prompter.host_id)
    await site.store.settle(ask_id, TimedOut(timedelta(seconds=1)))


async def test_an_answer_by_position_reaches_the_agent(site: Site, prompter: InboxPrompter) -> None:
    """An answer that is posted is the agent's outcome, and says that it came by the web."""
    async with acting(prompter, "s1") as actor, anyio.create_task_group() as tasks:
        asking = Asking(actor, DATABASE, PARTS, NAME)
        tasks.start_soon(asking.run)
        (ask,) = await pending(site)
        response = await site.answer(
            ask, {"selected": [1]}, {"labels": ["Docs", "API"]}, {"text": "opus, maybe"}
        )
        assert response.status_code == 200
        assert response.json()["ask"]["by"] == "web"
    assert asking.outcome == Answered(
        (Answer((1,)), Answer((2, 0)), Answer(text="opus, maybe")),
        "web",
    )
    kept = (await site.get(f"/api/asks/{ask['id']}"))["ask"]
    assert kept["state"] == "delivered"
    assert kept["answers"] == {
        DATABASE.text: "SQLite",
        PARTS.text: ["Docs", "API"],
        NAME.text: "opus, maybe",
    }
    assert kept["selections"][2] == {"selected": [], "text": "opus, maybe"}


@pytest.mark.parametrize(
    ("verb", "outcome"), [("skip", Skipped("web")), ("cancel", Cancelled("operator"))], ids=["skip", "cancel"]
)
async def test_a_skip_and_a_cancel_reach_the_agent(
    site: Site, prompter: InboxPrompter, verb: str, outcome: Outcome
) -> None:
    """What an operator does instead of answering is its own outcome, by name."""
    async with acting(prompter, "s1") as actor, anyio.create_task_group() as tasks:
        asking = Asking(actor, DATABASE)
        tasks.start_soon(asking.run)
        (ask,) = await pending(site)
        response = await site.post(f"/api/asks/{ask['id']}/{verb}", {"session_id": "s1"})
        assert response.status_code == 200
        assert response.json()["ask"]["by"] == "web"
    assert asking.outcome == outcome


@pytest.mark.parametrize(
    ("answers", "refused"),
    [
        ([{"labels": ["MySQL"]}], (400, "misfit", "question 1 has no option 'MySQL'")),
        ([{"selected": [2]}], (400, "misfit", "")),
        ([{"selected": [-1]}], (400, "misfit", "")),
        ([{"selected": [0, 1]}], (400, "misfit", "")),
        ([{"selected": []}], (400, "misfit", "")),
        ([{"text": "  "}], (400, "misfit", "")),
        ([{"selected": [0], "labels": ["SQLite"]}], (400, "misfit", "give one of them")),
        ([None], (400, "misfit", "")),
        ([], (400, "misfit", "a list of 1")),
        ([{"selected": [0]}, {"selected": [0]}], (400, "misfit", "a list of 1")),
        ([{"selected": ["0"]}], (400, "bad_request", "answers.0.selected.0")),
        ([{"selected": [True]}], (400, "bad_request", "answers.0.selected.0")),
        ([{"chosen": [0]}], (400, "bad_request", "there is no such field")),
        ({"Which": "SQLite"}, (400, "bad_request", "at answers")),
    ],
)
async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays_open(
    site: Site, prompter: InboxPrompter, answers: object, refused: tuple[int, str, str]
) -> None:
    """An unknown label, an empty answer or another form is refused in so many words, and nothing is decided by it."""
    async with acting(prompter, "s1") as actor, anyio.create_task_group() as tasks:
        tasks.start_soon(Asking(actor, DATABASE).run)
        (ask,) = await pending(site)
        status, code, says = refused
        response = await site.post(f"/api/asks/{ask['id']}/answer", {"session_id": "s1", "answers": answers})
        assert response.status_code == status
        error = response.json()["error"]
        assert error["code"] == code
        assert says in error["message"]
        assert (await site.get(f"/api/asks/{ask['id']}"))["ask"]["state"] == "pending"
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("verb", ["answer", "skip", "cancel", "typing"])
async def test_an_ask_is_decided_only_in_its_own_session(
    site: Site, prompter: InboxPrompter, verb: str
) -> None:
    """What is sent for an ask with another session's id is refused, without a word of the ask."""
    async with acting(prompter, "s1") as actor, acting(prompter, "s2"), anyio.create_task_group() as tasks:
        tasks.start_soon(Asking(actor, DATABASE).run)
        (ask,) = await pending(site)
        body = {"session_id": "s2", **({"answers": [{"selected": [0]}]} if verb == "answer" else {})}
        response = await site.post(f"/api/asks/{ask['id']}/{verb}", body)
        assert response.status_code == 409
        assert response.json()["error"]["code"] == "wrong_session"
        assert "ask" not in response.json()["error"]
        assert (await site.get(f"/api/asks/{ask['id']}"))["ask"]["state"] == "pending"
        tasks.cancel_scope.cancel()


async def test_of_two_clients_that_answer_at_once_one_wins(site: Site, prompter: InboxPrompter) -> None:
    """Whoever is second is told that it is answered, with the answer that stands and who gave it."""
    async with acting(prompter, "s1") as actor, anyio.create_task_group() as tasks:
        asking = Asking(actor, DATABASE)
        tasks.start_soon(asking.run)
        (ask,) = await pending(site)
        responses = {}

        async def answer(position: int) -> None:
            responses[position] = await site.answer(ask, {"selected": [position]})

        async with anyio.create_task_group() as clients:
            clients.start_soon(answer, 0)
            clients.start_soon(answer, 1)
    assert sorted(response.status_code for response in responses.values()) == [200, 409]
    (winner,) = (position for position, response in responses.items() if response.status_code == 200)
    error = responses[1 - winner].json()["error"]
    assert error["code"] == "already_resolved"
    assert "by web" in error["message"]
    assert error["ask"]["selections"] == [{"selected": [winner], "text": None}]
    assert asking.outcome == Answered((Answer((winner,)),), "web")


async def test_a_late_answer_is_refused_and_becomes_a_prompt(site: Site, prompter: InboxPrompter) -> None:
    """An answer for which the agent no longer waits is refused with the reason, and can be made its next prompt."""
    async with acting(prompter, "s1") as actor, anyio.create_task_group() as tasks:
        tasks.start_soon(Asking(actor, DATABASE, wait=timedelta(milliseconds=300)).run)
        (ask,) = await pending(site)
    response = await site.answer(ask, {"selected": [0]})
    assert response.status_code == 409
    error = response.json()["error"]
    assert error["code"] == "too_late"
    assert error["ask"]["state"] == "timed_out"
    response = await site.post(f"/api/asks/{ask['id']}/follow-up", {"answers": [{"labels": ["PostgreSQL"]}]})
    assert response.status_code == 200
    assert "PostgreSQL" in response.json()["text"]
    assert DATABASE.text in response.json()["text"]


async def test_typing_moves_the_deadline_as_far_as_it_goes(site: Site, prompter: InboxPrompter) -> None:
    """An operator who is typing has a minute again where the route allows it, and is told of no error where not."""
    async with acting(prompter, "s1") as actor, anyio.create_task_group() as tasks:
        tasks.start_soon(Asking(actor, DATABASE, wait=timedelta(seconds=20)).run)
        (ask,) = await pending(site)
        response = await site.post(f"/api/asks/{ask['id']}/typing", {"session_id": "s1"})
        assert response.status_code == 200
        assert response.json()["ask"]["deadline"] == ask["deadline"]  # latest is the deadline itself here
        host = await site.store.join()
        entry = await site.store.entry(ask["id"])
        moved = datetime.now(UTC) + timedelta(seconds=20)
        free = await site.store.put(evolve(entry.ask, id="ask_again", deadline=moved), host.id, latest=None)
        response = await site.post(f"/api/asks/{free.id}/typing", {"session_id": "s1"})
        assert datetime.fromisoformat(response.json()["ask"]["deadline"]) > moved + timedelta(seconds=30)
        host.release()
        tasks.cancel_scope.cancel()


async def test_a_conversation_has_each_card_where_it_was_asked(site: Site, prompter: InboxPrompter) -> None:
    """A card stands behind the announcement of its call; one that belongs to no call is pinned; events read on."""
    async with acting(prompter, "s1", title="Set it up") as actor, anyio.create_task_group() as tasks:
        actor.says("First")
        tasks.start_soon(Asking(actor, DATABASE).run)
        await pending(site, 1)
        tasks.start_soon(lambda: Asking(actor, NAME, pinned=True).run())
        _, pinned = await pending(site, 2)
        await prompter_flushed(site)
        shown = await site.get("/api/sessions/s1/conversation")
        kinds = [item["event"]["event"] if item["kind"] == "event" else "card" for item in shown["items"]]
        at = kinds.index("card")
        assert kinds[at - 1] == "tool_announced"
        assert shown["items"][at]["ask"]["questions"][0]["question"] == DATABASE.text
        assert [card["id"] for card in shown["pinned"]] == [pinned["id"]]
        events = (await site.get("/api/sessions/s1/events", after=0, limit=2))["events"]
        assert [each["event"]["event"] for each in events] == kinds[:2]
        later = (await site.get("/api/sessions/s1/events", after=shown["position"]))["events"]
        assert later == []
        tasks.cancel_scope.cancel()
    session = (await site.get("/api/sessions/s1"))["session"]
    assert (session["title"], session["running"], session["ending"]) == ("Set it up", False, "ended")


async def test_a_conversation_is_read_backwards_in_parts(site: Site, prompter: InboxPrompter) -> None:
    """Its end comes first, and each part says what gives the one before; together they are the whole, each once."""
    path = "/api/sessions/s1/conversation"
    async with acting(prompter, "s1") as actor, anyio.create_task_group() as tasks:
        for number in range(3):
            actor.says(f"Step {number}")
            tasks.start_soon(Asking(actor, DATABASE).run)
            await pending(site, number + 1)
            tasks.start_soon(lambda: Asking(actor, NAME, pinned=True).run())
        await pending(site, 6)
        await prompter_flushed(site)
        whole = await site.get(path)
        assert (whole["before"], len(whole["pinned"])) == (None, 3)
        for limit in (1, 2, 5):
            part = await site.get(path, limit=limit)
            assert (part["position"], part["pinned"]) == (whole["position"], whole["pinned"])
            items = part["items"]
            while part["before"] is not None:
                part = await site.get(path, limit=limit, before=part["before"])
                assert part["items"][0]["kind"] == "event"
                assert len(part["items"]) <= limit + 1  # a card is not parted from its call
                assert (part["pinned"], part["position"]) == ([], whole["position"])
                items = part["items"] + items
            assert items == whole["items"]
        assert (await site.get(path, before=1))["items"] == []
        tasks.cancel_scope.cancel()


async def test_of_many_asks_without_a_call_the_youngest_and_the_open_ones_are_given(
    site: Site, prompter: InboxPrompter
) -> None:
    """What is pinned to a conversation is bounded too, and no open ask is left out."""
    async with acting(prompter, "s1") as actor, anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: Asking(actor, NAME, pinned=True, ask_id="open").run())
        await pending(site)
        for ask_id in ("one", "two"):
            await given_up(site, prompter, ask_id)
        shown = await site.get("/api/sessions/s1/conversation", limit=1)
        assert [card["id"] for card in shown["pinned"]] == ["open", "two"]
        tasks.cancel_scope.cancel()


async def test_of_many_sessions_the_youngest_and_the_running_ones_are_listed(
    site: Site, prompter: InboxPrompter
) -> None:
    """What has ended long ago is left out, and what runs never is."""
    async with acting(prompter, "runs"):
        for number in range(4):
            async with acting(prompter, f"ended-{number}"):
                pass
        listed = (await site.get("/api/sessions", limit=2))["sessions"]
        assert [each["id"] for each in listed] == ["runs", "ended-2", "ended-3"]
        assert len((await site.get("/api/sessions"))["sessions"]) == 5


async def prompter_flushed(site: Site) -> None:
    """Wait until what was appended before is in the store."""
    await site.store.leases()


@pytest.mark.parametrize(
    "session_id", ["a/b c%2F/?#ü", "a\nb\n", "\x1b]0;x\x07\r\n", "\u202eab", "n" * 10_000]
)
async def test_an_id_may_be_any_text(site: Site, prompter: InboxPrompter, session_id: str) -> None:
    """Ids are a host's own: one with slashes, percent signs or control characters is reached like any other."""
    path = f"/api/sessions/{quote(session_id, safe='')}"
    async with acting(prompter, session_id):
        assert (await site.get(path))["session"]["id"] == session_id
        assert (await site.get(f"{path}/conversation"))["pinned"] == []
        (begun,) = (await site.get(f"{path}/events"))["events"]
        assert begun["event"]["session_id"] == session_id
    ask_id = "q/1/answer"
    await given_up(site, prompter, ask_id)
    assert (await site.get(f"/api/asks/{quote(ask_id, safe='')}"))["ask"]["id"] == ask_id


async def test_a_conversation_is_cleared_once_nothing_in_it_is_open(
    site: Site, prompter: InboxPrompter
) -> None:
    """Clearing is refused with the open asks named, and takes the cards along once they are decided."""
    async with acting(prompter, "s1") as actor, anyio.create_task_group() as tasks:
        tasks.start_soon(Asking(actor, DATABASE).run)
        (ask,) = await pending(site)
        refused = await site.post("/api/sessions/s1/clear", {})
        assert refused.status_code == 409
        assert refused.json()["error"]["code"] == "open_asks"
        assert refused.json()["error"]["ask_ids"] == [ask["id"]]
        await site.post(f"/api/asks/{ask['id']}/skip", {"session_id": "s1"})
    cleared = await site.post("/api/sessions/s1/clear", {})
    assert (cleared.status_code, cleared.content) == (204, b"")
    assert (await site.client.get(f"/api/asks/{ask['id']}")).status_code == 404
    assert (await site.get("/api/sessions"))["sessions"] == []


async def test_the_history_is_read_backwards_in_pages(site: Site, prompter: InboxPrompter) -> None:
    """The youngest so many come first, and each page goes on before the last."""
    async with acting(prompter, "s1"):
        for number in range(5):
            await given_up(site, prompter, f"ask_{number}")
        seen: list[str] = []
        before: dict[str, int] = {}
        while page := (await site.get("/api/asks", state="all", limit=2, **before))["asks"]:
            seen[:0] = [ask["id"] for ask in page]
            before = {"before": page[0]["number"]}
    assert seen == [f"ask_{number}" for number in range(5)]
    assert (await site.get("/api/asks"))["asks"] == []
    assert len((await site.get("/api/asks", state="all", session="s1"))["asks"]) == 5
    assert (await site.get("/api/asks", state="all", session="s2"))["asks"] == []


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/asks/ask_none", 404, "unknown_ask"),
        ("GET", "/api/asks/%00", 404, "unknown_ask"),
        ("GET", "/api/asks/%FF", 404, "unknown_ask"),
        ("GET", "/api/sessions/none", 404, "unknown_session"),
        ("GET", "/api/sessions/none/conversation", 404, "unknown_session"),
        ("GET", "/api/sessions/none/feed", 404, "unknown_session"),
        ("GET", "/api/sessions/none/events", 404, "unknown_session"),
        ("GET", "/api/asks?state=closed", 400, "bad_request"),
        ("GET", "/api/asks?limit=0", 400, "bad_request"),
        ("GET", "/api/asks?limit=1&limit=2", 400, "bad_request"),
        ("GET", "/api/asks?unknown=1", 400, "bad_request"),
        ("GET", "/api/feed?watch=2", 400, "bad_request"),
        ("HEAD", "/api/feed", 405, ""),
        ("GET", "/api/none", 404, "not_found"),
        ("GET", "/none", 404, "not_found"),
        ("DELETE", "/api/asks", 405, "method_not_allowed"),
        ("PUT", "/api/asks/x/answer", 405, "method_not_allowed"),
    ],
)
async def test_an_address_that_is_not_there_is_refused_as_json(
    site: Site, method: str, path: str, status: int, code: str
) -> None:
    """Unknown ids, addresses, methods and parameters are refused in the one form that errors have."""
    response = await site.client.request(method, path)
    assert response.status_code == status
    if code:
        assert response.json()["error"]["code"] == code
        assert response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("content", "kind", "status", "code"),
    [
        (b"{", "application/json", 400, "bad_json"),
        (b"", "application/json", 400, "bad_json"),
        (b"[" * 50_000, "application/json", 400, "bad_json"),
        (b'{"session_id": NaN}', "application/json", 400, "bad_json"),
        (b'{"session_id": "a", "session_id": "b"}', "application/json", 400, "bad_json"),
        (b"\xff\xfe", "application/json", 400, "bad_json"),
        (b"[]", "application/json", 400, "bad_request"),
        (b"{}", "application/json", 400, "bad_request"),
        (b'{"session_id": "s1", "by": "alice"}', "application/json", 400, "bad_request"),
        (b'{"session_id": "s1"}', "text/plain", 415, "wrong_type"),
        (b"session_id=s1", "application/x-www-form-urlencoded", 415, "wrong_type"),
        (b'{"session_id": "s1"}', "application/json; charset=utf-8", 404, "unknown_ask"),
    ],
)
async def test_a_body_of_another_form_is_refused(
    site: Site, content: bytes, kind: str, status: int, code: str
) -> None:
    """A body that is no JSON, has unknown fields or lacks some, or is of another type, is refused before anything."""
    response = await site.client.post("/api/asks/x/skip", content=content, headers={"Content-Type": kind})
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)


async def test_an_agents_text_is_data_and_never_markup(site: Site, prompter: InboxPrompter) -> None:
    """Script tags, escapes and bidi tricks in every field come back as JSON of the very same text, as JSON's type."""
    async with acting(prompter, "s1", title=HOSTILE_TEXT, runtime="claude") as actor:
        actor.says(HOSTILE_TEXT)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Asking(actor, HOSTILE, agent_id=HOSTILE_TEXT).run)
            (ask,) = await pending(site)
            for path in (
                "/api/asks",
                f"/api/asks/{ask['id']}",
                "/api/sessions",
                "/api/sessions/s1/conversation",
            ):
                response = await site.client.get(path)
                assert response.status_code == 200, path
                assert response.headers["content-type"] == "application/json"
                assert response.headers["x-content-type-options"] == "nosniff"
                assert response.content.isascii()
            sent = HOSTILE_TEXT.replace("\ud83d", "\ufffd")
            assert ask["questions"][0]["question"] in {HOSTILE_TEXT, sent}
            response = await site.answer(ask, {"text": HOSTILE_TEXT})
            assert response.status_code == 200
            assert response.json()["ask"]["selections"][0]["text"] in {HOSTILE_TEXT, sent}


# -- openapi.json ------------------------------------------------------------------------------------------------------


def test_openapi_json_is_what_the_table_and_the_models_say() -> None:
    """The file that ships is generated from the operations; `python -m opask.surfaces.web.openapi` writes it anew."""
    assert described_file().read_text(encoding="utf-8") == description()


def test_openapi_json_names_every_route_and_no_other() -> None:
    """Each route of the application but the page and the description itself is in the description."""
    app = application(MemoryStore(), auth=TokenAuth())
    routes = {
        (getattr(route, "path", "").replace("{id:opask_id}", "{id}"), method.lower())
        for route in app.routes
        for method in getattr(route, "methods", None) or ()
        if getattr(route, "path", "").startswith("/api/") and method != "HEAD"
    }
    paths = json.loads(described_file().read_text(encoding="utf-8"))["paths"]
    assert routes - {("/api/openapi.json", "get")} == {
        (path, method) for path, methods in paths.items() for method in methods
    }


async def test_real_responses_are_as_openapi_json_says(site: Site, prompter: InboxPrompter) -> None:
    """What each operation really gives, granted and refused, fits the schema that the description has for it."""
    document = await site.get("/api/openapi.json")
    assert document == json.loads(described_file().read_text(encoding="utf-8"))
    seen: set[tuple[str, str, int]] = set()

    async def hold(method: str, path: str, body: object = None) -> None:
        response = await (site.client.request(method, path) if method == "GET" else site.post(path, body))
        template = _template(path)
        described = document["paths"][template][method.lower()]["responses"][str(response.status_code)]
        seen.add((template, method, response.status_code))
        if response.status_code == 204:
            assert not response.content
            return
        schema = described["content"]["application/json"]["schema"]
        problems = Draft202012Validator({**schema, "components": document["components"]}).iter_errors(
            response.json()
        )
        assert [problem.message for problem in problems] == []

    async with acting(prompter, "s1", title="t") as actor, anyio.create_task_group() as tasks:
        actor.says("Well")
        for question in (DATABASE, PARTS, NAME):
            tasks.start_soon(Asking(actor, question, pinned=question is NAME).run)
        first, second, third = await pending(site, 3)
        await hold("POST", f"/api/asks/{first['id']}/typing", {"session_id": "s1"})
        for verb, ask in (("skip", second), ("cancel", third)):
            await hold("POST", f"/api/asks/{ask['id']}/{verb}", {"session_id": "s1"})
        await hold("POST", "/api/sessions/s1/clear", {})
        await hold("GET", "/api/sessions/s1/conversation")
        by = {
            question.text: answers
            for question, answers in (
                (DATABASE, [{"selected": [0]}]),
                (PARTS, [{"selected": [0]}]),
                (NAME, [{"text": "x"}]),
            )
        }
        answers = by[first["questions"][0]["question"]]
        for _ in range(2):
            await hold("POST", f"/api/asks/{first['id']}/answer", {"session_id": "s1", "answers": answers})
        await hold("POST", f"/api/asks/{first['id']}/answer", {"session_id": "s1"})
        await hold("POST", f"/api/asks/{first['id']}/follow-up", {"answers": answers})
        await hold("POST", f"/api/asks/{first['id']}/follow-up", {"answers": []})
    for path in (
        "/api/asks",
        "/api/asks?state=all",
        f"/api/asks/{first['id']}",
        "/api/asks/none",
        "/api/sessions",
    ):
        await hold("GET", path)
    for path in ("", "/conversation", "/events", "/events?limit=0"):
        await hold("GET", f"/api/sessions/s1{path}")
    await hold("POST", "/api/sessions/s1/clear", {})
    await hold("GET", "/api/sessions/s1")
    granted = {(path, method) for path, method, status in seen if status < 300}
    assert granted == {(each.path, each.method) for each in OPERATIONS if not each.streams}


def _template(path: str) -> str:
    parts = path.partition("?")[0].split("/")
    return "/".join("{id}" if at == 3 else part for at, part in enumerate(parts))


async def test_what_feeds_send_is_as_openapi_json_says(site: Site, prompter: InboxPrompter) -> None:
    """Each kind of update, and each logged event, fits the schema that the description names for it."""
    document = await site.get("/api/openapi.json")

    def hold(model: str, data: object) -> None:
        schema = {"$ref": f"#/components/schemas/{model}", "components": document["components"]}
        assert [problem.message for problem in Draft202012Validator(schema).iter_errors(data)] == []

    kinds: set[str] = set()
    async with reading(site) as lines:
        first = await anext(lines)
        hold("UpdateForm", first.data)
        async with acting(prompter, "s1") as actor:
            actor.says("Well")
            await given_up(site, prompter, "ask_1")
            async with reading(site, "/api/sessions/s1/feed") as logged:
                line = await anext(logged)
                assert line.event == "log"
                hold("EventForm", line.data)
        await site.post("/api/sessions/s1/clear", {})
        async for line in lines:
            kinds.add(line.event)
            assert line.event == line.data["kind"]
            hold("UpdateForm", line.data)
            if line.event == "cleared":
                break
    assert kinds == {"entry", "session", "cleared"}
