"""Versions: found in what programs print, and put in order."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opask.versions import compare_versions, drift, find_version, is_version

# As Semantic Versioning orders them (clause 11), and Python's post-releases after their release.
IN_ORDER = [
    "0.19",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.0.post1",
    "1.0.1",
    "1.2",
    "1.10",
    "2.1.63",
    "2.1.197",
    "2.1.332",
]
VERSIONS = st.sampled_from(IN_ORDER) | st.from_regex(
    r"[0-9]{1,3}(\.[0-9]{1,3}){1,3}(-(rc|beta)\.[0-9])?", fullmatch=True
)


@pytest.mark.parametrize(("older", "newer"), list(combinations(IN_ORDER, 2)))
def test_an_older_version_comes_first(older: str, newer: str) -> None:
    """Of two versions of the list, the first is the older one, whichever way they are compared."""
    assert compare_versions(older, newer) == -1
    assert compare_versions(newer, older) == 1


@pytest.mark.parametrize(
    ("one", "other"), [("2.1", "2.1.0"), ("v1.0.0", "1.0.0"), ("1.0.0+build.5", "1.0.0")]
)
def test_versions_that_differ_in_writing_alone_are_the_same(one: str, other: str) -> None:
    """Trailing zeros, a leading v and build metadata make no other version."""
    assert compare_versions(one, other) == 0


@given(VERSIONS, VERSIONS, VERSIONS)
def test_the_order_is_an_order(one: str, two: str, three: str) -> None:
    """Comparing is antisymmetric, and what is between two versions is between them from both sides."""
    forth, back = compare_versions(one, two), compare_versions(two, one)
    assert forth is not None
    assert back == -forth
    if compare_versions(two, three) == forth:
        assert compare_versions(one, three) == forth


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ("2.1.332 (Claude Code)\n", "2.1.332"),
        ("codex-cli 0.171.0", "0.171.0"),
        ("kimi, version 1.50.0\nThis product moved.", "1.50.0"),
        ("omp/18.2.3 linux-x64", "18.2.3"),
        ("GitHub Copilot CLI 1.0.102.", "1.0.102"),
        ("v22.19.0", "22.19.0"),
        ("acme 1.2.3-beta.4+5", "1.2.3-beta.4+5"),
        ("acme x1.2.3", None),
        ("no version", None),
        ("", None),
    ],
)
def test_a_version_is_found_in_what_a_program_prints(printed: str, version: str | None) -> None:
    """The first thing that is a version is taken, without what stands around it."""
    assert find_version(printed) == version


@given(st.text())
def test_what_is_found_is_a_version(text: str) -> None:
    """Whatever a program prints, what is found in it is a version or nothing."""
    found = find_version(text)
    assert found is None or is_version(found)


@pytest.mark.parametrize(
    ("version", "seen", "expected"),
    [
        ("2.1.332", "2.1.332", "same"),
        ("2.1.340", "2.1.332", "newer"),
        ("2.1.99", "2.1.332", "older"),
        (None, "2.1.332", "unknown"),
        ("2.1.332", None, "unknown"),
        ("nightly", "2.1.332", "unknown"),
        ("nightly", "nightly", "same"),
    ],
)
def test_drift(version: str | None, seen: str | None, expected: str) -> None:
    """A version in hand is the same, newer or older than the one that was seen; or nobody can say."""
    assert drift(version, seen) == expected
