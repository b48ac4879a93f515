"""Kimi Code, Kimi CLI and omp, driven by `opask mcp`: the official SDK's client starts them and answers what they ask."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from attrs import frozen
from mcp import Client

from live_runs import GONE_S, OPASK
from live_scenes import ASK, DATABASE, NAME, ask, given, says
from mcp_clients import call, over_http, over_stdio, pending, refused, tried
from opask import Answer, Answered
from opask.inbox import AlreadyResolvedError, SqliteStore
from opask_probes.install import InstallError, installed
from opask_probes.model import Conversation, Expect, Scenario, Step, When
from opask_probes.runtimes import RUNTIMES
from opask_probes.sandbox import Isolation
from opask_probes.stage import Stage, all_gone, processes_in, stage

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

BOUND_S = 120.0  # they are slow to start where several do
SPELLINGS = {"kimi": ASK, "kimi-cli": "ask_user_question", "omp": "mcp__opask_ask_user_question"}
ARGUMENTS = {"omp": ("--args", "omp=--no-title")}
BY_ALICE, BY_BOB = [{"labels": ["SQLite"]}], [{"labels": ["PostgreSQL"]}]
HEAD = re.compile(rb".* serving (\S+)\n.* Bearer (\S+)\n")


@frozen
class Place:
    """Where servers are started that drive some runtimes.

    Args:
        stage: it.
        inbox: the inbox.
        argv: the command line of a server.
        env: its environment.
    """

    stage: Stage
    inbox: Path
    argv: Sequence[str]
    env: dict[str, str]

    def client(self, name: str = "tester", *more: str) -> AbstractAsyncContextManager[Client]:
        """Start a server for one client."""
        return over_stdio([*self.argv, *more], self.env, name=name)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[tuple[str, str]]:
        """Start a server for several; give its address and token. It has nothing else to say."""
        argv = [*self.argv, "--http", "--port", "0"]
        async with await anyio.open_process(argv, env=self.env, stdin=subprocess.DEVNULL) as process:
            assert process.stderr is not None
            told = BufferedByteReceiveStream(process.stderr)
            lines = [await told.receive_until(b"\n", 4096) + b"\n" for _ in range(2)]
            head = HEAD.fullmatch(b"".join(lines))
            assert head is not None
            yield head[1].decode(), head[2].decode()
            process.terminate()
            with pytest.raises(anyio.EndOfStream):
                pytest.fail((await told.receive()).decode())
            assert await process.wait() == 128 + signal.SIGTERM


@asynccontextmanager
async def place(
    isolation: Isolation, *runtimes: str, plays: Mapping[str, Sequence[Step]], is_cut_short: bool = False
) -> AsyncIterator[Place]:
    """Set a stage for servers; the scenario is played to its end, and nothing is left of them.

    An agent that is cut short may have begun to go on before it was ended.

    The servers are out here, where their clients are; what they start is in the namespace.
    """
    parts = [
        Conversation(name, tuple(steps), When(prompt_contains=(name.upper(),)))
        for name, steps in plays.items()
    ]
    async with stage(Scenario("driven", tuple(parts)), isolation) as stage_:
        root, url = stage_.sandbox.root, stage_.url
        argv = [str(OPASK), "mcp", f"--inbox={root / 'inbox.db'}", f"--cwd={stage_.sandbox.work}"]
        for runtime in runtimes:
            RUNTIMES[runtime].prepare(stage_.sandbox.home, url)
            argv += [f"--runtime={runtime}", f"--bin={runtime}={entering(stage_, runtime)}"]
            argv += ARGUMENTS.get(runtime, ())
        env = stage_.sandbox.environment(*(RUNTIMES[runtime].model(url) for runtime in runtimes))
        try:
            with anyio.fail_after(BOUND_S):
                yield Place(stage_, root / "inbox.db", argv, env)
            assert await all_gone(root, GONE_S) == []
            assert list(stage_.sandbox.tmp.glob("opask-*")) == []
        finally:
            for pid, _ in processes_in(root):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        await stage_.close()
        goes_on = "all 1 steps are played and the runtime asks again"
        assert [each for each in stage_.failures if not (is_cut_short and each.endswith(goes_on))] == []


def entering(stage_: Stage, runtime: str) -> Path:
    """Make a program that is the runtime in the stage's namespace."""
    try:
        program = installed(runtime)
    except InstallError as error:
        pytest.skip(str(error))
    folder = stage_.sandbox.root / "bin"
    folder.mkdir(exist_ok=True)
    path = folder / program.name
    path.write_text(f'#!/bin/sh\nexec {shlex.join([*stage_.enter, str(program)])} "$@"\n', encoding="utf-8")
    path.chmod(0o700)
    return path


def asks(runtime: str, question: str, *parts: str) -> tuple[Step, Step]:
    """Make the steps in which an agent asks and then says what the answer was, which has these parts."""
    tool = SPELLINGS[runtime]
    return (
        says("I ask.", ask(question, tool), expect=Expect(offered=(tool,))),
        says("Picked {{result}}", expect=given(question, *parts, error=None)),
    )


@pytest.mark.parametrize("runtime", list(SPELLINGS))
async def test_an_agent_is_driven_and_answered_by_its_client_and_elsewhere(
    runtime: str, isolation: Isolation
) -> None:
    """Of two turns of one session the client answers the first one's question, the inbox that of the second one."""
    turns = (*asks(runtime, DATABASE, "SQLite"), *asks(runtime, NAME, "Boreas"))
    async with place(isolation, runtime, plays={"main": turns}) as there, there.client() as client:
        asked = await call(client, "session_drive", runtime=runtime, prompt="MAIN", max_wait_s=BOUND_S)
        assert asked["awaiting_operator"] is True
        assert [one["question"] for one in asked["questions"]] == [DATABASE]
        first = await call(client, "session_answer", question_id=asked["question_id"], answers=BY_ALICE)
        assert (first["session_id"], first["outcome"]) == (asked["session_id"], "done")
        assert "Picked" in first["text"]
        assert "SQLite" in first["text"]
        again = {"session_id": asked["session_id"]}
        asked = await call(client, "session_drive", **again, prompt="And the name?", max_wait_s=BOUND_S)
        assert [one["question"] for one in asked["questions"]] == [NAME]
        async with SqliteStore(there.inbox) as store:
            await store.resolve(asked["question_id"], Answered((Answer((1,)),), "web:alice"))
            late = {"question_id": asked["question_id"], "answers": [{"labels": ["Atlas"]}]}
            assert (await refused(client, "session_answer", **late)).startswith("web:alice was faster")
            last = await call(client, "session_status", **again, max_wait_s=BOUND_S)
            assert (last["outcome"], last["state"], last["turns"]) == ("done", "idle", 2)
            assert "Boreas" in last["text"]
            entries = [(entry.state, entry.by) for entry in await store.entries()]
        assert entries == [("delivered", "mcp:tester"), ("delivered", "web:alice")]
        assert (await call(client, "session_cancel", **again))["state"] == "ended"


# Not kimi-cli: it forgets what it said last in a cancelled turn, which the scripted model takes for another conversation.
@pytest.mark.parametrize("runtime", ["kimi", "omp"])
async def test_a_turn_with_an_open_question_is_cancelled_and_the_session_goes_on(
    runtime: str, isolation: Isolation
) -> None:
    """The agent does not go on in the turn that was cancelled; the next prompt's words are those of its own turn."""
    tool = SPELLINGS[runtime]
    steps = (
        says("I ask.", ask(DATABASE, tool), expect=Expect(offered=(tool,))),
        says("On with it.", expect=Expect(text_contains=("And on.",))),
    )
    async with place(isolation, runtime, plays={"main": steps}) as there, there.client() as client:
        asked = await call(client, "session_drive", runtime=runtime, prompt="MAIN", max_wait_s=BOUND_S)
        again = {"session_id": asked["session_id"]}
        cancelled = await call(client, "session_cancel", **again, keep=True)
        assert (cancelled["state"], cancelled["outcome"]) == ("idle", "cancelled")
        last = await call(client, "session_drive", **again, prompt="And on.", max_wait_s=BOUND_S)
        assert (last["outcome"], last["text"]) == ("done", "On with it.")
        async with SqliteStore(there.inbox) as store:
            (entry,) = await store.entries()
        assert entry.state in {"abandoned", "cancelled"}
        assert (await call(client, "session_cancel", **again))["state"] == "ended"


async def race(question_id: str, **clients: Client) -> tuple[str, str]:
    """Have two clients answer one question at once; give who came first, and what the other was told."""
    given_ = {"alice": BY_ALICE, "bob": BY_BOB}
    said: dict[bool, tuple[str, str]] = {}

    async def answers(name: str) -> None:
        came_first, told = await tried(
            clients[name], "session_answer", question_id=question_id, answers=given_[name]
        )
        assert came_first not in said
        said[came_first] = name, told

    async with anyio.create_task_group() as tasks:
        for name in clients:
            tasks.start_soon(answers, name)
    assert '"outcome": "done"' in said[True][1]
    return said[True][0], said[False][1]


async def test_two_clients_of_one_server_each_have_a_session_and_one_answer_counts(
    isolation: Isolation,
) -> None:
    """At once, over HTTP and in two revisions, each drives a runtime; both answer both, and who was slower hears whose it is."""
    driven = {"alice": "kimi", "bob": "omp"}
    plays = {name: asks(runtime, DATABASE) for name, runtime in driven.items()}
    asked: dict[str, dict[str, Any]] = {}
    async with place(isolation, *driven.values(), plays=plays) as there, AsyncExitStack() as stack:
        server = await stack.enter_async_context(there.listening())
        clients = {
            name: await stack.enter_async_context(over_http(*server, name=name, era=era))
            for name, era in (("alice", "legacy"), ("bob", "2026-07-28"))
        }

        async def drives(name: str) -> None:
            wanted = {"runtime": driven[name], "prompt": name.upper(), "max_wait_s": BOUND_S}
            asked[name] = await call(clients[name], "session_drive", **wanted)

        async with anyio.create_task_group() as tasks:
            for name in clients:
                tasks.start_soon(drives, name)
        listed = (await call(clients["alice"], "sessions_list"))["sessions"]
        assert {one["session_id"]: (one["runtime"], one["question_id"]) for one in listed} == {
            one["session_id"]: (driven[name], one["question_id"]) for name, one in asked.items()
        }
        for name, one in asked.items():
            winner, told = await race(one["question_id"], **clients)
            label, other = ("SQLite", "PostgreSQL") if winner == "alice" else ("PostgreSQL", "SQLite")
            assert told.startswith(f"mcp:{winner} was faster: the question is ")
            assert label in told
            for client in clients.values():
                last = await call(client, "session_status", session_id=one["session_id"], max_wait_s=BOUND_S)
                assert (last["runtime"], last["outcome"]) == (driven[name], "done")
                assert label in last["text"]
                assert other not in last["text"]
            async with SqliteStore(there.inbox) as store:
                entry = await store.entry(one["question_id"])
            assert (entry.state, entry.by) == ("delivered", f"mcp:{winner}")


async def decided(store: SqliteStore, question_id: str, client: Client, name: str) -> str:
    """Have a client answer a question, and somebody in the inbox at once; each hears of the other; give who came first."""
    first, faster = [], []

    async def in_the_inbox() -> None:
        try:
            await store.resolve(question_id, Answered((Answer((0,)),), "web:carol"))
            first.append("web:carol")
        except AlreadyResolvedError as error:
            faster.append(None if error.entry is None else error.entry.by)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(in_the_inbox)
        came_first, told = await tried(client, "session_answer", question_id=question_id, answers=BY_ALICE)
    if came_first:
        first.append(f"mcp:{name}")
        assert faster == first
    else:
        assert told.startswith("web:carol was faster")
    (who,) = first
    return who


async def test_two_servers_on_one_inbox_each_answer_for_their_own(isolation: Isolation) -> None:
    """Their questions are in one inbox; a client answers its own server's alone, and who looks there may be faster."""
    plays = {name: asks("kimi", DATABASE) for name in ("alice", "bob")}
    asked: dict[str, dict[str, Any]] = {}
    async with (
        place(isolation, "kimi", plays=plays) as there,
        SqliteStore(there.inbox) as store,
        there.client("alice") as alice,
        there.client("bob") as bob,
    ):
        clients = {"alice": alice, "bob": bob}

        async def drives(name: str) -> None:
            wanted = {"runtime": "kimi", "prompt": name.upper(), "max_wait_s": BOUND_S}
            asked[name] = await call(clients[name], "session_drive", **wanted)

        async with anyio.create_task_group() as tasks:
            for name in clients:
                tasks.start_soon(drives, name)
        ids = {name: one["question_id"] for name, one in asked.items()}
        assert {entry.id for entry in await store.entries(states=("pending",))} == set(ids.values())
        said = await refused(alice, "session_answer", question_id=ids["bob"], answers=BY_ALICE)
        assert "no session of this server" in said
        assert (await store.entry(ids["bob"])).state == "pending"
        for name, client in clients.items():
            who = await decided(store, ids[name], client, name)
            last = await call(
                client, "session_status", session_id=asked[name]["session_id"], max_wait_s=BOUND_S
            )
            entry = await store.entry(ids[name])
            assert (last["outcome"], entry.state, entry.by) == ("done", "delivered", who)
            assert ("PostgreSQL" if who == "web:carol" else "SQLite") in last["text"]


async def test_a_runtime_that_takes_one_prompt_ends_its_session_with_it(isolation: Isolation) -> None:
    """Kimi Code that prints asks and is answered; what comes after its turn is refused, since its session has ended."""
    printing = ("--args", "kimi=--output-format stream-json")
    async with (
        place(isolation, "kimi", plays={"main": asks("kimi", DATABASE, "SQLite")}) as there,
        there.client("tester", *printing) as client,
    ):
        asked = await call(client, "session_drive", runtime="kimi", prompt="MAIN", max_wait_s=BOUND_S)
        last = await call(client, "session_answer", question_id=asked["question_id"], answers=BY_ALICE)
        assert last["outcome"] == "done"
        assert "SQLite" in last["text"]
        (session,) = (await call(client, "sessions_list"))["sessions"]
        assert session["state"] == "ended"
        again = {"session_id": asked["session_id"], "prompt": "And on."}
        assert "start another with a runtime" in await refused(client, "session_drive", **again)


async def test_a_session_over_http_outlives_its_client(isolation: Isolation) -> None:
    """Whoever drove it is gone while it works; another client finds the question, answers it and has the outcome."""
    async with (
        place(isolation, "kimi", plays={"main": asks("kimi", DATABASE, "SQLite")}) as there,
        there.listening() as server,
        SqliteStore(there.inbox) as store,
    ):
        async with over_http(*server, name="alice") as alice:
            await call(alice, "session_drive", runtime="kimi", prompt="MAIN", max_wait_s=0)
        async with over_http(*server, name="bob") as bob:
            (session,) = (await call(bob, "sessions_list"))["sessions"]
            await pending(store)
            asked = await call(bob, "session_status", session_id=session["session_id"])
            last = await call(bob, "session_answer", question_id=asked["question_id"], answers=BY_ALICE)
            assert (last["session_id"], last["outcome"]) == (session["session_id"], "done")


@pytest.mark.parametrize("runtime", list(SPELLINGS))
async def test_a_client_that_ends_its_server_ends_what_it_drove(runtime: str, isolation: Isolation) -> None:
    """The SDK's client does so by a signal, 2 s after it went: the question is cancelled, and the runtime is gone with it."""
    question, _ = asks(runtime, DATABASE)
    async with place(isolation, runtime, is_cut_short=True, plays={"main": (question,)}) as there:
        async with there.client() as client:
            asked = await call(client, "session_drive", runtime=runtime, prompt="MAIN", max_wait_s=BOUND_S)
        async with SqliteStore(there.inbox) as store:
            entry = await store.entry(asked["question_id"])
            session = await store.session(asked["session_id"])
        assert (entry.state, entry.by, session.is_running) == ("cancelled", "host", False)
