"""Servers that are killed at random moments under load: what was committed is delivered, and nothing is lost."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
import pytest

from opask.inbox import Entry, InboxPrompter, SqliteStore
from opask.outcomes import Answered, Outcome
from web_actors import acting
from web_play import DATABASE

OPASK = Path(sys.executable).with_name("opask")
AGENTS = 8
ASKS = 12  # of each agent
KILLS = 4


def begin(inbox: Path, port: int) -> tuple[subprocess.Popen[str], str]:
    """Start a server; give it and its token, once it serves."""
    process = subprocess.Popen(
        [OPASK, "serve", "--port", str(port), "--inbox", str(inbox)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip().partition("token=")[2]


def end(process: subprocess.Popen[str]) -> None:
    """Kill a server."""
    process.kill()
    process.communicate()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", [1, 2])
async def test_a_committed_answer_outlives_the_server_that_took_it(tmp_path: Path, seed: int) -> None:
    """However often the server is killed, each answer that it confirmed is the agent's, and each ask has one."""
    chance = random.Random(seed)
    inbox = tmp_path / "in.db"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    outcomes: dict[str, Outcome] = {}
    confirmed: dict[str, int] = {}
    replies: Counter[int] = Counter()
    process, token = await anyio.to_thread.run_sync(begin, inbox, port)
    try:
        async with SqliteStore(inbox) as store, InboxPrompter(store, when_absent="attach") as prompter:

            async def agent(number: int) -> None:
                async with acting(prompter, f"s{number}") as actor:
                    for count in range(ASKS):
                        ask_id = f"ask_{number}_{count}"
                        outcomes[ask_id] = await actor.asks(DATABASE, ask_id=ask_id)

            async def operator() -> None:
                """Answer whatever waits, over and over, each time with a choice of its own."""
                headers = {"Authorization": f"Bearer {token}"}
                url = f"http://127.0.0.1:{port}"
                async with httpx2.AsyncClient(base_url=url, headers=headers, trust_env=False) as client:
                    while True:
                        try:
                            asks = (await client.get("/api/asks")).json()["asks"]
                            for ask in asks:
                                choice = chance.randrange(2)
                                body = {"session_id": ask["session_id"], "answers": [{"selected": [choice]}]}
                                response = await client.post(f"/api/asks/{ask['id']}/answer", json=body)
                                replies[response.status_code] += 1
                                if response.status_code == 200:
                                    assert ask["id"] not in confirmed
                                    confirmed[ask["id"]] = choice
                        except httpx2.TransportError:
                            await anyio.sleep(0.02)  # the server is gone; there is another one soon

            async def killer() -> None:
                nonlocal process
                for _ in range(KILLS):
                    before = len(outcomes)
                    goal = before + chance.randrange(1, AGENTS)
                    while len(outcomes) < min(goal, AGENTS * ASKS):  # noqa: ASYNC110 - in the middle of the load
                        await anyio.sleep(0.001)
                    await anyio.to_thread.run_sync(end, process)
                    process, again = await anyio.to_thread.run_sync(begin, inbox, port)
                    assert again == token

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(operator)
                tasks.start_soon(operator)
                async with anyio.create_task_group() as agents:
                    agents.start_soon(killer)
                    for number in range(AGENTS):
                        agents.start_soon(agent, number)
                tasks.cancel_scope.cancel()
            entries: dict[str, Entry] = {entry.id: entry for entry in await store.entries()}
    finally:
        await anyio.to_thread.run_sync(end, process)
    assert len(outcomes) == len(entries) == AGENTS * ASKS
    assert set(replies) <= {200, 409}
    assert len(confirmed) > AGENTS
    assert {entry.state for entry in entries.values()} == {"delivered"}
    for ask_id, entry in entries.items():
        outcome = outcomes[ask_id]
        assert isinstance(outcome, Answered)
        assert outcome == entry.reply
        if ask_id in confirmed:
            (answer,) = outcome.answers
            assert answer is not None
            assert answer.selected == (confirmed[ask_id],)
