"""The official MCP conformance suite against the HTTP endpoint, through a proxy that adds the token it cannot send."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from bridge_peers import PlainAdapter, attach
from node_packages import NodePackages
from opask import LaunchRequest
from opask.bridge import Bridge
from opask.testing import Scripted
from token_proxy import token_proxy

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

APPLY = (
    "server-initialize",
    "ping",
    "tools-list",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
)

_ITS_OWN_TOOL = "calls a tool of the suite's own, which a server with the one ask tool has not"
_NO_LOGGING = "the server sends no log messages and declares no logging capability"
_NO_COMPLETION = "the server completes no arguments and declares no completion capability"
_NO_RESOURCES = "the server has no resources and declares no such capability"
_NO_PROMPTS = "the server has no prompts and declares no such capability"
DO_NOT_APPLY = {
    "logging-set-level": _NO_LOGGING,
    "completion-complete": _NO_COMPLETION,
    "tools-call-simple-text": _ITS_OWN_TOOL,
    "tools-call-image": _ITS_OWN_TOOL,
    "tools-call-audio": _ITS_OWN_TOOL,
    "tools-call-embedded-resource": _ITS_OWN_TOOL,
    "tools-call-mixed-content": _ITS_OWN_TOOL,
    "tools-call-with-logging": _ITS_OWN_TOOL,
    "tools-call-error": _ITS_OWN_TOOL,
    "tools-call-with-progress": _ITS_OWN_TOOL,
    "tools-call-sampling": _ITS_OWN_TOOL,
    "tools-call-elicitation": _ITS_OWN_TOOL,
    "json-schema-2020-12": _ITS_OWN_TOOL,
    "elicitation-sep1034-defaults": _ITS_OWN_TOOL,
    "elicitation-sep1330-enums": _ITS_OWN_TOOL,
    "server-sse-polling": "resumes a dropped stream, which is optional and not offered: a call that is sent again "
    "is joined instead",
    "resources-list": _NO_RESOURCES,
    "resources-read-text": _NO_RESOURCES,
    "resources-read-binary": _NO_RESOURCES,
    "resources-templates-read": _NO_RESOURCES,
    "resources-subscribe": _NO_RESOURCES,
    "resources-unsubscribe": _NO_RESOURCES,
    "prompts-list": _NO_PROMPTS,
    "prompts-get-simple": _NO_PROMPTS,
    "prompts-get-with-args": _NO_PROMPTS,
    "prompts-get-embedded-resource": _NO_PROMPTS,
    "prompts-get-with-image": _NO_PROMPTS,
}


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """A session's endpoint, without its token."""
    async with (
        Bridge() as bridge,
        await attach(bridge, "s", PlainAdapter(), Scripted({}), transport="http") as session,
    ):
        endpoint = session.plan_launch(LaunchRequest(["runtime"])).endpoint
        assert endpoint is not None
        assert endpoint.url is not None
        assert endpoint.token is not None
        async with token_proxy(endpoint.url, endpoint.token) as proxied:
            yield proxied


async def run(packages: NodePackages, url: str, scenario: str, results: Path) -> tuple[bool, str]:
    """Run one scenario; tell whether all its checks succeeded, at least one and none with a warning."""
    command = [*packages.conformance, "server", "--url", url, "--scenario", scenario, "-o", str(results)]
    done = await anyio.run_process(command, check=False)
    said = (done.stdout + done.stderr).decode()
    found = re.search(r"Passed: (\d+)/(\d+), (\d+) failed, (\d+) warnings", said)
    if done.returncode or found is None:
        return False, said
    passed, of, failed, warnings = map(int, found.groups())
    return passed == of > 0 == failed == warnings, said


async def test_every_scenario_is_run_or_has_its_reason(packages: NodePackages) -> None:
    """A new version of the suite with another scenario fails here until it is sorted in."""
    done = await anyio.run_process([*packages.conformance, "list", "--server"])
    listed = re.findall(r"^  - (\S+)", done.stdout.decode(), re.MULTILINE)
    assert sorted(listed) == sorted((*APPLY, *DO_NOT_APPLY))


@pytest.mark.parametrize("scenario", APPLY)
async def test_a_scenario_that_applies_passes(
    packages: NodePackages, url: str, scenario: str, tmp_path: Path
) -> None:
    """All its checks succeed, without a warning."""
    passed, said = await run(packages, url, scenario, tmp_path)
    assert passed, said


async def test_no_scenario_is_left_out_without_need(packages: NodePackages, url: str, tmp_path: Path) -> None:
    """One that passes all the same has to be run."""
    unneeded = [name for name in DO_NOT_APPLY if (await run(packages, url, name, tmp_path))[0]]
    assert unneeded == []
