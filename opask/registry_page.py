"""The registry as a page of the documentation: `python -m opask.registry_page > docs/routes.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from opask.registry import Registry, verified_observation

if TYPE_CHECKING:
    from opask.registry_schema import Observation, RouteRow, RuntimeRow

__all__ = ["claims", "duration", "latest_observation", "main", "page"]

_UNKNOWN = "—"


def duration(seconds: float | str | None) -> str | None:
    """Return a span of the registry as people write it; None where it is not known."""
    if seconds is None or isinstance(seconds, str):
        return seconds
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size or seconds == size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1000:g} ms" if 0 < seconds < 1 else f"{seconds:g} s"


def latest_observation(route: RouteRow) -> Observation | None:
    """Return the observation that a route's status rests on; for an untested route, its newest recording."""
    judged = [seen for seen in route.observations if seen.status == route.status]
    return verified_observation(route) or (judged[0] if judged else None)


def _yes(value: bool | None) -> str | None:
    return None if value is None else "yes" if value else "no"


def _list(values: Iterable[str]) -> str | None:
    return ", ".join(f"`{value}`" for value in values) or None


def _code(value: str | None) -> str | None:
    return f"`{value}`" if value else None


def claims(route: RouteRow) -> Iterator[tuple[str, str | None]]:
    """Give each claim of a route as a label and a text in Markdown, None where nothing is known."""
    seen = latest_observation(route)
    yield "Status", route.status
    yield "Seen at", f"{seen.version}, {seen.platform}" if seen else None
    yield "On", str(seen.date) if seen else None
    yield "The model calls the tool", _code(route.spellings.model)
    yield "Events call it", _code(route.spellings.events)
    yield "Permission requests call it", _code(route.spellings.permission)
    yield "The arguments are in", route.arguments
    yield "An ask is matched to its call by", route.correlation
    yield (
        "The model sees the tool at once",
        {"listed": "yes", "deferred": "no"}.get(route.exposure.default or ""),
    )
    yield "Lever for that", _list(route.exposure.lever)
    yield "Own ask tool", _list(route.native_ask.names)
    yield "Own ask tool is offered", _yes(route.native_ask.offered)
    yield "Own ask tool is denied by", _list(route.native_ask.denied_by)
    yield "Own ask tool stays offered", _yes(route.native_ask.stays_offered)
    yield "A call needs permission", _yes(route.permission.asked)
    yield "A rejection ends the turn", _yes(route.permission.reject_ends_turn)
    yield "A rejection's reason reaches the model", _yes(route.permission.reason_reaches_model)
    yield "Lever for permission", _list(route.permission.lever)
    yield "A call may wait", duration(route.wait.default_s)
    yield "With the levers", duration(route.wait.ceiling_s)
    yield "Progress extends it", _yes(route.wait.progress_extends)
    yield "Levers for the wait", _list(route.wait.lever)
    yield "What they also change", route.wait.collateral
    yield "The server may take to start", duration(route.startup.window_s)
    yield "Lever for the start", _list(route.startup.lever)
    yield "A cancel reaches the server", _yes(route.cancel_reaches_server)
    yield "A call is sent again after a crash", _yes(route.resend_after_crash)
    yield "Resuming needs the servers again", _yes(route.resume_needs_servers)
    yield "Calls of one message run", route.parallel
    yield (
        "Sub-agents have the tool",
        {"inherit": "yes", "some": "some", "none": "no"}.get(route.subagents or ""),
    )
    yield "A sub-agent's question is known to be one", _yes(route.subagents_told)
    yield "The system prompt is added to by", route.clause_by


def page(registry: Registry) -> str:
    """Return the page, in Markdown."""
    document = registry.document
    lines = [
        "# Routes",
        "",
        "<!-- Made from registry.toml by `python -m opask.registry_page > docs/routes.md`; do not edit. -->",
        "",
        "What works on which runtime, at which version. A **verified** or **refuted** route rests on a recording of the",
        "real runtime that anyone can make again without a key; the claims of an **untested** one have been noted, and no",
        f"probe has seen them yet. “{_UNKNOWN}” is unknown, never no. [The registry](registry.md) explains the words.",
        "",
        f"Data version {document.data_version}, schema {document.schema_version}.",
        "",
        "## All routes",
        "",
        *_table(
            ["Runtime", "Route", "Status", "Seen at", "On"],
            [_overview(row, route) for row in document.runtimes.values() for route in row.routes],
        ),
    ]
    for id_, row in document.runtimes.items():
        lines += ["", *_section(id_, row)]
    return "\n".join(lines) + "\n"


def _overview(row: RuntimeRow, route: RouteRow) -> list[str | None]:
    facts = dict(claims(route))
    return [row.title, route.id, facts["Status"], facts["Seen at"], facts["On"]]


def _section(id_: str, row: RuntimeRow) -> Iterator[str]:
    yield f"## {row.title}"
    yield ""
    adapter = f"adapter `{row.adapter}`" if row.adapter else "no adapter yet"
    yield f"`{id_}`, {adapter}."
    if row.package:
        needs = f" (needs {', '.join(row.package.needs)})" if row.package.needs else ""
        yield f"`{row.package.install}`{needs}."
    if row.notes:
        yield row.notes
    yield ""
    columns = [dict(claims(route)) for route in row.routes]
    known = [label for label in columns[0] if any(column[label] is not None for column in columns)]
    yield from _table(
        ["Claim", *(route.id for route in row.routes)],
        [[label, *(column[label] for column in columns)] for label in known],
    )
    for route in row.routes:
        if route.notes:
            yield ""
            yield f"**{route.id}**: {route.notes}"


def _table(head: list[str], rows: Iterable[list[Any]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join(' --- ' for _ in head)}|"
    for row in rows:
        yield f"| {' | '.join(_UNKNOWN if cell is None else str(cell).replace('|', chr(92) + '|') for cell in row)} |"


def main() -> None:
    """Write the page of the shipped registry to standard output."""
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr] # a text file, when run as a program
    sys.stdout.write(page(Registry.shipped()))


if __name__ == "__main__":
    main()
