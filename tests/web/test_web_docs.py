"""docs/web.md: its example runs, and what it names is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from opask.surfaces.web.operations import OPERATIONS
from web_actors import acting
from web_play import DATABASE

PAGE = (Path(__file__).parents[2] / "docs" / "web.md").read_text(encoding="utf-8")


async def test_the_example_mounts_the_page_with_the_hosts_own_auth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The application of the example lets its user in, asks, and records who answered."""
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(example, "docs/web.md", "exec"), names)  # noqa: S102 - the project's own page
    app = names["app"]
    headers = {"X-Token": "token-of-alice", "Origin": "https://ask.example"}
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app), base_url="https://ask.example/questions"
        ) as client,
        acting(app.state.prompter, "s1") as actor,
        anyio.create_task_group() as tasks,
    ):
        assert (await client.get("/api/asks")).status_code == 401
        tasks.start_soon(actor.asks, DATABASE)
        asks: list[dict[str, Any]] = []
        while not asks:
            asks = (await client.get("/api/asks", headers=headers)).json()["asks"]
        body = {"session_id": "s1", "answers": [{"labels": ["SQLite"]}]}
        answered = await client.post(f"/api/asks/{asks[0]['id']}/answer", json=body, headers=headers)
        assert answered.json()["ask"]["by"] == "web:alice"


def test_every_operation_is_on_the_page() -> None:
    """Each path of the API is named, as it is or by its last part in the row of its sibling."""
    for operation in OPERATIONS:
        path = operation.path.replace("{id}", "ID")
        assert path in PAGE or f"`/{path.rpartition('/')[2]}`" in PAGE, operation.name
