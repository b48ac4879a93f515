"""`opask mcp`, driven by the TypeScript SDK's client: stdio and HTTP, each era, with forms and without."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from node_packages import NodePackages
from opask.inbox import SqliteStore

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

OPASK = Path(sys.executable).with_name("opask")
HERE = Path(__file__).parent
(MODERN,) = MODERN_PROTOCOL_VERSIONS
SAID = "The service will use “SQLite”. I will do first: “API”, “Docs”."


@pytest.fixture(params=["stdio", "http"])
def way(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Give the client's way to a server, over each transport."""
    arguments = ["mcp", "--inbox", str(tmp_path / "inbox.db"), "--runtime", "demo"]
    if request.param == "stdio":
        yield {"stdio": {"command": str(OPASK), "args": arguments}}
        return
    argv = [str(OPASK), *arguments, "--http", "--port", "0"]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        url = re.search(r"http://\S+", process.stderr.readline())
        token = re.search(r"Bearer (\S+)", process.stderr.readline())
        assert url
        assert token
        yield {"http": {"url": url.group(), "token": token.group(1)}}
        process.terminate()


@pytest.mark.parametrize(
    ("negotiation", "version"),
    [
        ({"mode": "legacy", "versions": ["2025-06-18"]}, "2025-06-18"),
        ({"mode": "legacy", "versions": ["2025-11-25"]}, "2025-11-25"),
        ({"mode": {"pin": MODERN}}, MODERN),
    ],
    ids=str,
)
@pytest.mark.parametrize("forms", [False, True], ids=["parked", "forms"])
async def test_the_typescript_client_drives_and_answers(
    packages: NodePackages,
    way: dict[str, Any],
    negotiation: dict[str, Any],
    version: str,
    *,
    forms: bool,
    tmp_path: Path,
) -> None:
    """With forms one call goes to the end; without, a wrong answer is refused, the right one taken, and its outcome told."""
    wanted = {"modules": packages.modules, "forms": forms, **negotiation, **way}
    script = str(HERE / "mcp_driver.mjs")
    done = await anyio.run_process(
        [packages.node, script, json.dumps(wanted)], check=False, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert done.returncode == 0, done.stderr.decode()
    said = json.loads(done.stdout)
    assert said["version"] == version
    assert "session_drive" in said["tools"]
    assert (said["results"][-1]["outcome"], said["results"][-1]["text"]) == ("done", SAID)
    assert len(said["forms"]) == int(forms)
    assert len(said["results"]) == (1 if forms else 3)
    if not forms:
        assert "has no option 'MySQL'; the question stays open" in said["results"][1]
    async with SqliteStore(tmp_path / "inbox.db") as store:
        (entry,) = await store.entries()
    assert (entry.state, entry.by) == ("delivered", "elicitation:typescript" if forms else "mcp:typescript")
