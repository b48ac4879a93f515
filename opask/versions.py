"""Versions of runtimes: found in what a program prints, and put in order.

The order is that of Semantic Versioning (clause 11): the release first, number by number, and a pre-release
before its release; build metadata does not count. Python's ``.post`` comes after its release (PEP 440).
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

__all__ = ["Drift", "compare_versions", "drift", "find_version", "is_version"]

Drift: TypeAlias = Literal["same", "newer", "older", "unknown"]
"""How a version in hand stands to one that was seen."""

_SUFFIX = r"-[0-9A-Za-z.-]*[0-9A-Za-z]|\.?(?:alpha|beta|dev|post|pre|rc|a|b)\.?\d+"
_VERSION = re.compile(rf"v?(?P<release>\d+(?:\.\d+)+)(?P<suffix>{_SUFFIX})?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)
_IN_TEXT = re.compile(rf"(?<![\w.-]){_VERSION.pattern}(?!\w|\.\d)", re.ASCII)

_Part: TypeAlias = tuple[int, int, str]


def is_version(text: str) -> bool:
    """Tell whether a text is a version and nothing else."""
    return _VERSION.fullmatch(text) is not None


def find_version(text: str) -> str | None:
    """Return the first version in a text, without a leading ``v``; None where there is none."""
    found = _IN_TEXT.search(text)
    return found.group().removeprefix("v") if found else None


def _key(version: str) -> tuple[tuple[int, ...], int, tuple[_Part, ...]] | None:
    found = _VERSION.fullmatch(version.strip())
    if not found:
        return None
    release = [int(number) for number in found["release"].split(".")]
    while release and release[-1] == 0:
        release.pop()
    suffix = (found["suffix"] or "").lstrip("-.")
    stage = 0 if not suffix else 1 if suffix.startswith("post") else -1
    parts: list[_Part] = [
        (0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.findall(r"\d+|[^\d.]+", suffix)
    ]
    return tuple(release), stage, tuple(parts)


def compare_versions(one: str, other: str) -> int | None:
    """Return -1, 0 or 1 as the first version is older, the same or newer; None where one is no version."""
    left, right = _key(one), _key(other)
    if left is None or right is None:
        return None
    return (left > right) - (left < right)


def drift(version: str | None, seen: str | None) -> Drift:
    """Say how a version in hand stands to the one that was seen; ``unknown`` where either is not known."""
    if version is None or seen is None:
        return "unknown"
    if version == seen:
        return "same"
    order = compare_versions(version, seen)
    names: dict[int | None, Drift] = {None: "unknown", -1: "older", 0: "same", 1: "newer"}
    return names[order]
