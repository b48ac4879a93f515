"""Serves the page with played agents who ask: for trying it by hand, and for the browser's tests.

    python tests/web/play.py [--port 8787] [--inbox FILE] [--scene NAME] [--bridge]

Prints the link, then a line for each outcome. Without --inbox the store is in memory. Each scene's agents ask at once,
with ``hold``: questions wait whether or not anybody is watching. With --bridge another agent asks over the real bridge,
and what its tool call gave is printed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import anyio

from opask.adapters import adapter
from opask.bridge import Bridge
from opask.http_serving import listen
from opask.inbox import InboxPrompter, MemoryStore, SqliteStore, Store
from opask.outcomes import Outcome
from opask.surfaces.web import TokenAuth, application
from opask.surfaces.web.serving import served
from opask.testing import Agent
from web_actors import Actor, acting, question

DATABASE = question(
    "Which database should the service use?",
    ("PostgreSQL", "A server of its own; several writers, extensions"),
    ("SQLite", "A file beside the service; one writer"),
    header="Database",
)
PARTS = question(
    "Which parts should be done first?",
    ("API", "Routes and storage"),
    ("Web page", "What people see"),
    ("Docs", "How to run it"),
    header="Parts",
    several=True,
)
NAME = question("What should the service be called?", header="Name")
CODE = question(
    "Which form of the handler do you want?",
    ("Function", "```python\nasync def handle(request):\n    return Response('ok')\n```"),
    ("Class", "```python\nclass Handler:\n    async def get(self, request): ...\n```"),
    header="Handler",
)
MANY = question(
    "Which region should it run in?",
    *((f"region-{number:02}", f"Data centre {number}, with the usual services") for number in range(1, 25)),
    header="Region",
)
LONG = question(
    "How should the migration of the old accounts be done, given that some of them have no address? " * 4,
    "All at once in one night with a maintenance window announced a week before, then a rollback plan in case "
    * 3,
    "Step by step",
    header="A header that is much longer than a header ought to be",
)
HOSTILE_TEXT = (
    "<script>alert(1)</script><img src=x onerror=alert(2)> \x1b[31mred\x1b[0m \x1b]0;title\x07 "
    "\u202egnp.exe\u202c \u2066x\u2069 \u200b\ufeff \x00 \u2028 \ud83d [click](javascript:alert(3)) ${7*7} {{7*7}}"
)
HOSTILE = question(
    HOSTILE_TEXT,
    (f"A {HOSTILE_TEXT}", HOSTILE_TEXT),
    ("</script><script>document.title='owned'</script>", "--><svg onload=alert(4)>"),
    header=HOSTILE_TEXT,
)

Scene = Callable[[InboxPrompter, anyio.abc.TaskGroup, Callable[[str], object]], Awaitable[None]]


async def _few(prompter: InboxPrompter, tasks: anyio.abc.TaskGroup, tell: Callable[[str], object]) -> None:
    async def first(actor: Actor) -> Outcome:
        actor.says("I will set up the service. First I look at what is there.")
        actor.uses("Read")
        actor.says("There is no storage yet, so I ask.")
        outcome = await actor.asks(DATABASE)
        actor.says("Then I go on with it.")
        return outcome

    async def second(actor: Actor) -> Outcome:
        actor.says("Two things are open.")
        return await actor.asks(PARTS, NAME, siblings=2)

    async def third(actor: Actor) -> Outcome:
        return await actor.asks(CODE, agent_id="sub-agent 1", pinned=True, wait=timedelta(minutes=1))

    for play, runtime, title in (
        (first, "claude", "Set up a database for this service"),
        (second, "kimi", "Plan the work"),
        (third, "omp", "Write the handler"),
    ):
        tasks.start_soon(_act, prompter, tell, play, runtime, title)


async def _many(prompter: InboxPrompter, tasks: anyio.abc.TaskGroup, tell: Callable[[str], object]) -> None:
    async def play(actor: Actor) -> Outcome:
        async with anyio.create_task_group() as several:
            for each in (DATABASE, PARTS, MANY):
                several.start_soon(actor.asks, each)
        return await actor.asks(NAME)

    for number in range(10):
        tasks.start_soon(_act, prompter, tell, play, "claude", f"Task {number + 1} of ten")


async def _hostile(
    prompter: InboxPrompter, tasks: anyio.abc.TaskGroup, tell: Callable[[str], object]
) -> None:
    async def play(actor: Actor) -> Outcome:
        actor.says(HOSTILE_TEXT)
        actor.uses(HOSTILE_TEXT)
        return await actor.asks(HOSTILE, LONG)

    tasks.start_soon(_act, prompter, tell, play, "claude", HOSTILE_TEXT)


async def _life(prompter: InboxPrompter, tasks: anyio.abc.TaskGroup, tell: Callable[[str], object]) -> None:
    async def play(actor: Actor) -> Outcome:
        while True:
            actor.says("Another step is done.")
            outcome = await actor.asks(DATABASE, wait=timedelta(seconds=20))
            tell(f"{actor.session_id}: {outcome}")

    for number in range(3):
        tasks.start_soon(_act, prompter, tell, play, "claude", f"Agent {number + 1}")


async def _act(
    prompter: InboxPrompter,
    tell: Callable[[str], object],
    play: Callable[[Actor], Awaitable[Outcome]],
    runtime: str,
    title: str,
) -> None:
    async with acting(prompter, runtime=runtime, title=title) as actor:
        outcome = await play(actor)
        tell(f"{actor.session_id}: {outcome}")
        await anyio.sleep_forever()  # the session runs on, until the play is over


async def _bridge(prompter: InboxPrompter, tasks: anyio.abc.TaskGroup, tell: Callable[[str], object]) -> None:
    tasks.start_soon(_over_bridge, prompter, tell)


async def _over_bridge(prompter: InboxPrompter, tell: Callable[[str], object]) -> None:
    async with (
        prompter.session("bridged", runtime="claude", title="Over the real bridge") as recorder,
        Bridge() as bridge,
        await bridge.attach("bridged", adapter("claude"), prompter) as session,
    ):
        session.subscribe(recorder)
        result = await Agent(session).ask(
            {"questions": [{"question": "Go on?", "header": "Go", "options": ["Yes", "No"]}]}
        )
        tell(f"bridged: {result.structured or result.text}")


SCENES: Mapping[str, Scene] = {
    "few": _few,
    "many": _many,
    "hostile": _hostile,
    "life": _life,
    "bridge": _bridge,
}


@asynccontextmanager
async def playing(
    store: Store,
    *scenes: str,
    port: int = 0,
    token: str | None = None,
    tell: Callable[[str], object] = lambda _: None,
) -> AsyncIterator[str]:
    """Serve a store with the agents of scenes, for the block.

    Args:
        store: the inbox, open.
        scenes: names of `SCENES`.
        port: the port; 0 for any.
        token: the token; a new one by default.
        tell: told how asks end.

    Returns:
        The link.
    """
    listener = listen("127.0.0.1", port)
    auth = TokenAuth(token)
    link = auth.link(f"http://127.0.0.1:{listener.getsockname()[1]}/")
    async with (
        served(application(store, auth=auth), listener),
        InboxPrompter(store, when_absent="attach") as prompter,
        anyio.create_task_group() as tasks,
    ):
        for scene in scenes:
            await SCENES[scene](prompter, tasks, tell)
        yield link
        tasks.cancel_scope.cancel()


async def _main(args: argparse.Namespace) -> None:
    def tell(text: str) -> None:
        print(ascii(text)[1:-1], flush=True)  # noqa: T201

    async def serve(store: Store) -> None:
        scenes = [args.scene, *(["bridge"] if args.bridge else [])]
        async with playing(store, *scenes, port=args.port, token=args.token, tell=tell) as link:
            tell(link)
            await anyio.sleep_forever()

    if args.inbox is None:
        await serve(MemoryStore())
    else:
        async with SqliteStore(args.inbox) as store:
            await serve(store)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=8787)
    parser.add_argument("--inbox", type=Path)
    parser.add_argument("--scene", choices=SCENES, default="few")
    parser.add_argument("--token")
    parser.add_argument("--bridge", action="store_true")
    try:
        anyio.run(_main, parser.parse_args())
    except KeyboardInterrupt:
        sys.exit(130)
