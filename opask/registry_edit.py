"""Write what a probe saw into a registry file; comments, order and layout stay as they are.

Needs tomlkit, which the extra ``probe`` brings.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opask.errors import RegistryError
from opask.registry import Registry, RouteStatus
from opask.versions import compare_versions

if TYPE_CHECKING:
    from tomlkit import TOMLDocument
    from tomlkit.items import AoT, Table

__all__ = ["record_observation"]


def record_observation(
    path: Path | str,
    *,
    runtime: str,
    route: str,
    version: str,
    platform: str,
    probe: str,
    recording: str,
    day: date | None = None,
    status: RouteStatus | None = None,
) -> bool:
    """Write one observation into a registry file, in the place of an earlier one of that version and platform.

    The route's own status is left alone: a person sets it. The file's data version is raised by one.

    Args:
        path: the registry file; a link is followed.
        runtime: the runtime's id.
        route: the route's id.
        version: the version that was seen.
        platform: where it was seen, such as ``linux-x86_64``.
        probe: the probe's file, below the registry's folder.
        recording: the recording's file, below the registry's folder; its digest is taken as it is now.
        day: when it was seen, UTC; today by default.
        status: what was seen. By default an earlier observation keeps its status, and a new one is untested.

    Returns:
        Whether the file has changed: a second call with the same facts changes nothing.

    Raises:
        RegistryError: tomlkit is not installed, there is no such row or recording, or the file cannot be read,
            or would not keep to the schema.
    """
    try:
        import tomlkit
    except ImportError as error:
        raise RegistryError(
            "tomlkit, which edits the registry, is not installed; install opask[probe]", file=str(path)
        ) from error
    path = Path(path).resolve()
    Registry.load(path)  # what is not readable now is not touched
    try:
        digest = hashlib.sha256((path.parent / recording).read_bytes()).hexdigest()
    except OSError as error:
        raise RegistryError(
            f"{path.name}: {runtime}/{route}@{version}: the recording {recording} cannot be read "
            f"({error.strerror}); it has to lie below the registry's folder",
            file=path.name,
            row=f"{runtime}/{route}@{version}",
            field="recording",
        ) from error
    text = path.read_text(encoding="utf-8")
    document = tomlkit.parse(text)
    row = _route(document, path.name, runtime, route)
    before = next(
        (
            seen
            for seen in row.get("observations", ())
            if (seen["version"], seen["platform"]) == (version, platform)
        ),
        None,
    )
    facts = {
        "version": version,
        "date": day or datetime.now(UTC).date(),
        "platform": platform,
        "probe": probe,
        "recording": recording,
        "sha256": digest,
        "status": status or (str(before["status"]) if before is not None else "untested"),
    }
    expected = document.unwrap()
    if before is not None and before.unwrap() == facts:
        return False
    if before is None:
        _insert(row, facts)
    else:
        before.update(facts)
    document["data_version"] = document["data_version"] + 1
    _replace(path, tomlkit.dumps(document), _edited(expected, runtime, route, facts))
    return True


def _route(document: TOMLDocument, file: str, runtime: str, route: str) -> Table:
    runtimes: Any = document["runtimes"]
    for row in runtimes.get(runtime, {}).get("routes", ()):
        if row["id"] == route:
            found: Table = row
            return found
    raise RegistryError(
        f"{file}: {runtime}/{route}: there is no such row; add [[runtimes.{runtime}.routes]] with this id first",
        file=file,
        row=f"{runtime}/{route}",
    )


def _insert(row: Table, facts: Mapping[str, Any]) -> None:
    """Add an observation where the newest stands first, with the blank lines and comments around it in place."""
    import tomlkit

    table = tomlkit.table()
    for name, value in facts.items():
        table.add(name, value)
    observations: AoT = row.get("observations", tomlkit.aot())
    place = _place([str(seen["version"]) for seen in observations], facts["version"])
    if place < len(observations):
        table.add(tomlkit.nl())
        observations.insert(place, table)
        return
    # What follows the row up to the next one is a part of its last table; it has to follow the new one.
    last = observations[-1] if observations else _last_table(row)
    body = last.value.body
    end = len(body)
    while end and body[end - 1][0] is None:
        end -= 1
    following = next((at for at in range(end, len(body)) if not body[at][1].as_string().strip()), len(body))
    trivia: list[Any] = [item for _, item in body[following:]]
    del body[following:]
    last.add(tomlkit.nl())
    for item in trivia:
        table.add(item)
    observations.append(table)
    if "observations" not in row:
        row.append("observations", observations)


def _last_table(row: Table) -> Any:
    """Give the table of a route that stands last in the file: the route itself, or a table below it."""
    from tomlkit.items import Table

    last: Any = row
    for _, item in row.value.body:
        if isinstance(item, Table):
            last = item
    return last


def _place(versions: list[str], version: str) -> int:
    return next(
        (at for at, other in enumerate(versions) if compare_versions(version, other) == 1), len(versions)
    )


def _edited(plain: dict[str, Any], runtime: str, route: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Make the same edit on plain values, as the measure of the other."""
    plain["data_version"] += 1
    row = next(row for row in plain["runtimes"][runtime]["routes"] if row["id"] == route)
    seen = row.setdefault("observations", [])
    for at, one in enumerate(seen):
        if (one["version"], one["platform"]) == (facts["version"], facts["platform"]):
            seen[at] = dict(facts)
            return plain
    seen.insert(_place([one["version"] for one in seen], facts["version"]), dict(facts))
    return plain


def _replace(path: Path, text: str, expected: Mapping[str, Any]) -> None:
    """Put the new text in the file's place at once, if it says what it should and keeps to the schema."""
    import tomllib

    from opask.registry_schema import read_document

    raw = tomllib.loads(text)
    if raw != expected:
        raise RegistryError(
            f"{path.name}: the edit would change more than the observation; the file is left as it was, edit it by hand",
            file=path.name,
        )
    read_document(raw, file=path.name)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    new = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        new.chmod(path.stat().st_mode)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
