"""Reading the registry, and what it says of a runtime at a version."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from opask.errors import RegistryError
from opask.registry import Registry, shipped_path, support
from opask.registry_schema import Observation, RouteRow, read_document
from opask.versions import compare_versions

KNOWN = [
    "acp",
    "claude",
    "claude-agent-acp",
    "cline",
    "codex",
    "codex-acp",
    "copilot",
    "fast-agent",
    "gemini",
    "hermes",
    "kilocode",
    "kimi",
    "kimi-cli",
    "omp",
    "opencode",
    "pi",
    "qwen",
    "vibe",
]


def seen(version: str, status: str = "verified", platform: str = "linux-x86_64") -> dict[str, Any]:
    """Give one observation."""
    return {
        "version": version,
        "date": date(2026, 11, 30),
        "platform": platform,
        "probe": "probes/acme.py",
        "recording": "probes/recordings/acme.jsonl",
        "sha256": "0" * 64,
        "status": status,
    }


def route(
    *observations: dict[str, Any], status: str = "verified", id_: str = "mcp-stdio", **claims: Any
) -> dict[str, Any]:
    """Give one route's row."""
    return {"id": id_, "status": status, "observations": list(observations), **claims}


def registry(*routes: dict[str, Any], **runtimes: Any) -> Registry:
    """Give a registry of one runtime, acme, with these routes."""
    raw = {
        "schema_version": 1,
        "data_version": 1,
        "runtimes": {"acme": {"title": "Acme", "routes": list(routes)}, **runtimes},
    }
    return Registry(read_document(raw, file="registry.toml"), Path("registry.toml"))


# -- the shipped file ------------------------------------------------------------------------------------------


def test_the_shipped_registry_can_be_read() -> None:
    """The registry that comes with opask keeps to its schema, and knows the runtimes that are known."""
    assert set(KNOWN) <= set(Registry.shipped().runtimes)


def test_the_shipped_registry_is_read_once() -> None:
    """A second look-up reads no file, from another thread either."""
    first = Registry.shipped()
    found: list[Registry] = []
    thread = threading.Thread(target=lambda: found.append(Registry.shipped()))
    thread.start()
    thread.join(10)
    assert found[0] is first


def test_no_shipped_row_claims_more_than_its_evidence() -> None:
    """`questions` of every shipped route is true exactly where an observation of it is verified."""
    shipped = Registry.shipped()
    for id_, row in shipped.runtimes.items():
        for one in row.routes:
            verified = one.status == "verified" and any(
                seen.status == "verified" for seen in one.observations
            )
            assert shipped.support(id_, route=one.id).questions == verified


def test_an_import_does_not_read_the_registry() -> None:
    """Importing the module loads neither pydantic nor a TOML parser; the first look-up does."""
    script = (
        "import sys, opask.registry as registry; "
        "assert not {'pydantic', 'tomllib'} & set(sys.modules), 'at import'; "
        "registry.support('claude'); assert {'pydantic', 'tomllib'} <= set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_the_shipped_file_is_the_one_at_the_top() -> None:
    """The file in the package is the tree's own registry, not a copy of it."""
    top = Path(__file__).resolve().parents[2] / "registry.toml"
    assert shipped_path().read_bytes() == top.read_bytes()


# -- what it says of a version ---------------------------------------------------------------------------------

HISTORY = route(
    seen("2.0.76", "refuted"),
    seen("2.1.63", "verified"),
    seen("2.1.332", "verified"),
    seen("2.2.0", "refuted"),
)


@pytest.mark.parametrize(
    ("version", "status", "drift", "rests_on"),
    [
        ("2.1.332", "verified", "same", "2.1.332"),
        ("2.1.63", "verified", "same", "2.1.63"),
        ("2.1.200", "verified", "older", "2.1.332"),
        ("2.1.400", "verified", "newer", "2.1.332"),
        ("2.2.0", "refuted", "same", "2.2.0"),
        ("3.0.0", "refuted", "newer", "2.2.0"),
        ("2.1.0", "verified", "older", "2.1.63"),
        ("2.0.76", "refuted", "same", "2.0.76"),
        ("1.0.0", "refuted", "older", "2.0.76"),
        ("nightly", "verified", "unknown", "2.1.332"),
        (None, "verified", "unknown", "2.1.332"),
    ],
)
def test_the_nearest_observation_decides(version: str | None, status: str, drift: str, rests_on: str) -> None:
    """What was seen at a version counts there; between two, what was seen nearest towards the verified one."""
    found = registry(HISTORY).support("acme", version)
    assert (found.status, found.drift, found.seen_version) == (status, drift, rests_on)
    assert found.questions == (status == "verified")


@pytest.mark.parametrize(
    ("row", "status"),
    [
        (route(status="untested"), "untested"),
        (route(seen("1.0.0"), status="untested"), "untested"),
        (route(status="verified"), "untested"),
        (route(seen("1.0.0", "untested"), status="verified"), "untested"),
        (route(seen("1.0.0", "refuted"), status="verified"), "untested"),
        (route(seen("1.0.0", "refuted"), status="refuted"), "refuted"),
        (route(seen("0.9.0"), seen("1.0.0", "refuted"), status="refuted"), "refuted"),
        (route(status="refuted"), "refuted"),
    ],
)
@pytest.mark.parametrize("version", ["0.9.0", "1.0.0", "2.0.0", None])
def test_nothing_but_a_verified_observation_of_a_verified_route_counts(
    row: dict[str, Any], status: str, version: str | None
) -> None:
    """A route that is only called verified, or whose observations are something else, is not."""
    found = registry(row).support("acme", version)
    assert (found.status, found.questions) == (status, False)


def test_one_platform_that_works_is_enough() -> None:
    """Where a version is verified on one platform and refuted on another, it counts as verified."""
    row = route(seen("1.0.0", "refuted", "macos-arm64"), seen("1.0.0"), seen("2.0.0"))
    assert registry(row).support("acme", "1.0.0").questions


def test_what_is_not_known_is_not_a_guess() -> None:
    """A runtime or a route that the registry does not have cannot ask, and nothing more is said of it."""
    for found in (
        registry(HISTORY).support("other", "1.0.0"),
        registry(HISTORY).support("acme", route="carrier-pigeon"),
    ):
        assert (found.status, found.drift, found.questions, found.levers) == (
            "untested",
            "unknown",
            False,
            (),
        )
        assert "unknown" in found.summary or "no route" in found.summary or "untested" in found.summary


def test_a_verified_route_is_preferred() -> None:
    """Without a route named, a verified one is taken, then one that is not refuted, then the first."""
    refuted, untested, verified = (
        route(seen("1.0.0", "refuted"), status="refuted", id_="first"),
        route(status="untested", id_="second"),
        route(seen("1.0.0"), id_="third"),
    )
    assert registry(refuted, untested, verified).support("acme").route == "third"
    assert registry(refuted, untested).support("acme").route == "second"
    assert registry(refuted).support("acme").route == "first"
    assert registry(refuted, untested, verified).support("acme", route="first").status == "refuted"


def test_the_file_s_order_breaks_a_tie() -> None:
    """Of two verified routes the first in the file is taken."""
    rows = [route(seen("1.0.0"), id_="mcp-stdio"), route(seen("1.0.0"), id_="mcp-http")]
    assert registry(*rows).support("acme").route == "mcp-stdio"
    assert registry(*reversed(rows)).support("acme").route == "mcp-http"


def test_levers_come_once_each() -> None:
    """The levers of a route are named once, whichever claims name them; one may stand without an array."""
    row = route(
        status="untested",
        exposure={"lever": "always-load"},
        native_ask={"denied_by": ["native-ask-denied"]},
        permission={"lever": "ask-allowed"},
        wait={"lever": ["call-timeout", "always-load"], "ceiling_s": 90},
    )
    found = registry(row).support("acme")
    assert found.levers == ("always-load", "native-ask-denied", "ask-allowed", "call-timeout")
    assert found.wait == 90


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("2.1.332", "Acme 2.1.332: route mcp-stdio verified at 2.1.332 (2026-11-30)"),
        ("2.1.400", "this version is newer"),
        ("2.1.100", "this version is older"),
        (None, "Acme: route mcp-stdio verified at 2.1.332"),
        ("2.2.0", "refuted at 2.2.0"),
    ],
)
def test_the_summary_says_it_in_one_line(version: str | None, words: str) -> None:
    """For a person, the installed version stands beside the seen one in one line."""
    summary = registry(HISTORY).support("acme", version).summary
    assert words in summary
    assert "\n" not in summary


STATUSES = st.sampled_from(["verified", "refuted", "untested"])
VERSIONS = st.builds("{}.{}".format, st.integers(0, 3), st.integers(0, 3))


@given(
    st.lists(st.tuples(VERSIONS, STATUSES), unique_by=lambda pair: pair[0], max_size=6),
    STATUSES,
    VERSIONS | st.none() | st.just("nightly"),
)
def test_questions_rest_on_a_verified_observation(
    history: list[tuple[str, str]], status: str, version: str | None
) -> None:
    """Whatever the rows, `questions` is true only with a verified observation that nothing refuted stands before."""
    found = registry(route(*(seen(*pair) for pair in history), status=status)).support("acme", version)
    verified = [one for one, what in history if what == "verified"]
    if not found.questions:
        return
    assert status == "verified"
    assert found.seen_version in verified
    if version is not None and found.drift != "unknown":
        for one, what in history:
            between = compare_versions(one, version) != compare_versions(one, found.seen_version or "")
            assert not (what == "refuted" and between)


# -- a host's own file -----------------------------------------------------------------------------------------


def write(folder: Path, change: Callable[[dict[str, Any]], object] = lambda raw: None) -> Path:
    """Write a small registry with a change to it."""
    raw: dict[str, Any] = {
        "schema_version": 1,
        "data_version": 7,
        "runtimes": {"acme": {"title": "Acme", "routes": [route(seen("1.0.0"))]}},
    }
    change(raw)
    path = folder / "own.toml"
    path.write_text(tomlkit.dumps(raw))
    return path


def test_a_host_reads_its_own_file(tmp_path: Path) -> None:
    """A host's own registry answers in the place of the shipped one."""
    own = Registry.load(write(tmp_path))
    assert own.document.data_version == 7
    assert support("acme", "1.0.0", registry=own).questions
    assert not support("acme", "1.0.0").questions


def test_a_host_s_file_lies_over_the_shipped_one(tmp_path: Path) -> None:
    """Laid over the shipped registry, a host's runtimes take the place of those of the same id, and add to the rest."""

    def also_claude(raw: dict[str, Any]) -> None:
        raw["runtimes"]["claude"] = {"title": "Ours", "routes": [route(seen("1.0.0"))]}

    both = Registry.shipped().overlaid_by(Registry.load(write(tmp_path, also_claude)))
    assert both.support("acme").questions
    assert both.support("claude").title == "Ours"
    assert both.support("omp").title == Registry.shipped().support("omp").title


def the_route(raw: dict[str, Any]) -> dict[str, Any]:
    """Give the one route of the small registry."""
    found: dict[str, Any] = raw["runtimes"]["acme"]["routes"][0]
    return found


@pytest.mark.parametrize(
    ("change", "row", "field", "words"),
    [
        (lambda raw: raw.update(schema_version=2), None, "schema_version", "install a newer opask"),
        (lambda raw: raw.update(colour="red"), None, "colour", "no such field"),
        (lambda raw: raw.pop("data_version"), None, "data_version", "missing"),
        (lambda raw: the_route(raw).update(colour=1), "acme/mcp-stdio", "colour", "no such field"),
        (lambda raw: the_route(raw).update(status="good"), "acme/mcp-stdio", "status", "'verified'"),
        (lambda raw: the_route(raw).update(parallel=True), "acme/mcp-stdio", "parallel", "'serial'"),
        (
            lambda raw: the_route(raw).update(cancel_reaches_server="yes"),
            "acme/mcp-stdio",
            None,
            "true or false",
        ),
        (lambda raw: the_route(raw).update(wait={"default_s": "soon"}), "acme/mcp-stdio", None, "unbounded"),
        (
            lambda raw: the_route(raw).update(wait={"ceiling_s": float("inf")}),
            "acme/mcp-stdio",
            None,
            "unbounded",
        ),
        (
            lambda raw: the_route(raw).update(wait={"lever": "A_B=1"}),
            "acme/mcp-stdio",
            None,
            "never a variable",
        ),
        (
            lambda raw: the_route(raw).update(wait={"lever": "--timeout"}),
            "acme/mcp-stdio",
            None,
            "never a variable",
        ),
        (lambda raw: the_route(raw).update(env={"A": "B"}), "acme/mcp-stdio", "env", "no such field"),
        (
            lambda raw: the_route(raw)["observations"][0].pop("sha256"),
            "acme/mcp-stdio@1.0.0",
            "sha256",
            "missing",
        ),
        (
            lambda raw: the_route(raw)["observations"][0].update(recording="../x.jsonl"),
            "acme/mcp-stdio@1.0.0",
            "recording",
            "below the registry",
        ),
        (
            lambda raw: the_route(raw)["observations"][0].update(recording="/etc/x"),
            "acme/mcp-stdio@1.0.0",
            "recording",
            "below the registry",
        ),
        (
            lambda raw: the_route(raw)["observations"].append(seen("1.0.0")),
            "acme/mcp-stdio",
            None,
            "observed twice",
        ),
        (
            lambda raw: raw["runtimes"]["acme"].update(version_command=["acme"]),
            "acme",
            "version_command",
            "nothing else is safe",
        ),
        (
            lambda raw: raw["runtimes"]["acme"].update(version_command=["sh", "-c"]),
            "acme",
            "version_command",
            "nothing else is safe",
        ),
        (
            lambda raw: raw["runtimes"]["acme"].update(version_command=["/bin/acme", "--version"]),
            "acme",
            "version_command",
            "plain name",
        ),
        (
            lambda raw: raw["runtimes"]["acme"].update(version_pattern="(a"),
            "acme",
            "version_pattern",
            "expression",
        ),
        (
            lambda raw: raw["runtimes"]["acme"].update(version_pattern="a"),
            "acme",
            "version_pattern",
            "one group",
        ),
        (lambda raw: raw["runtimes"]["acme"].update(routes=[]), "acme", None, "no route"),
        (lambda raw: raw["runtimes"].update(Acme={"title": "A", "routes": []}), "Acme", None, "lower-case"),
    ],
)
def test_a_fault_is_named_with_its_place(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], row: str | None, field: str | None, words: str
) -> None:
    """What does not keep to the schema is refused, naming file, row and field and what to do."""
    with pytest.raises(RegistryError) as caught:
        Registry.load(write(tmp_path, change))
    error = caught.value
    assert (error.file, error.row) == ("own.toml", row)
    assert field in (None, error.field)
    assert str(error).startswith("own.toml: ")
    assert words in str(error)


@pytest.mark.parametrize(
    ("content", "words"), [(b"[[", "no TOML"), (b"\xff", "no TOML"), (None, "cannot be read")]
)
def test_a_file_that_is_no_registry_is_refused(tmp_path: Path, content: bytes | None, words: str) -> None:
    """A missing file, and one that is no TOML, are errors that say so."""
    path = tmp_path / "own.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RegistryError, match=words):
        Registry.load(path)


def test_a_row_cannot_be_changed_in_place() -> None:
    """What was read stays as it was read."""
    row = RouteRow.model_validate(route(seen("1.0.0")))
    with pytest.raises(ValueError, match="frozen"):
        row.status = "untested"
    assert isinstance(row.observations[0], Observation)
