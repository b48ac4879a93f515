"""`opask routes`: the registry as a table, beside the versions that are installed here."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opask.cli import UsageError
from opask.cli.table import Colour, definitions, is_coloured, paragraph, table, width
from opask.inert import inert_line
from opask.registry import Registry, Support

if TYPE_CHECKING:
    from opask.registry_schema import RouteRow, RuntimeRow

__all__ = ["configure", "run"]

HELP = "show which runtime can ask by which route, beside the versions installed here"
EXAMPLE = "opask routes claude"

_COLOURS: dict[str, Colour] = {
    "verified": "green",
    "refuted": "red",
    "untested": "yellow",
    "newer": "yellow",
    "older": "yellow",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "runtime", nargs="?", metavar="RUNTIME", help="show this runtime's routes alone, claim by claim"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--registry", type=Path, metavar="FILE", help="read this registry instead of the shipped one"
    )
    parser.add_argument(
        "--no-versions",
        action="store_true",
        help="do not run the installed runtimes to ask for their versions",
    )


def run(args: argparse.Namespace) -> int:
    """Print the table.

    Raises:
        UsageError: there is no such runtime.
        RegistryError: the registry cannot be read.
    """
    registry = Registry.load(args.registry) if args.registry else Registry.shipped()
    rows = dict(registry.runtimes)
    if args.runtime is not None:
        if args.runtime not in rows:
            raise UsageError(f"the registry has no runtime {args.runtime!r}; it has {', '.join(rows)}")
        rows = {args.runtime: rows[args.runtime]}
    installed: Mapping[str, str | None] = {}
    if not args.no_versions:
        from opask.installed import installed_versions

        installed = installed_versions(rows)
    if args.json:
        sys.stdout.write(json.dumps(_json(registry, rows, installed), ensure_ascii=False, indent=2) + "\n")
    elif args.runtime is not None:
        sys.stdout.write(_one(registry, args.runtime, rows[args.runtime], installed))
    else:
        sys.stdout.write(_all(registry, rows, installed))
    return 0


def _support(registry: Registry, id_: str, route: RouteRow, installed: Mapping[str, str | None]) -> Support:
    return registry.support(id_, installed.get(id_), route=route.id)


def _here(id_: str, row: RuntimeRow, installed: Mapping[str, str | None]) -> str:
    """Say which version is installed here."""
    if id_ in installed:
        return installed[id_] or "version unknown"
    return "" if row.version_command is None else "no"


def _json(
    registry: Registry, rows: Mapping[str, RuntimeRow], installed: Mapping[str, str | None]
) -> dict[str, Any]:
    routes = []
    for id_, row in rows.items():
        for route in row.routes:
            support = _support(registry, id_, route, installed)
            routes.append(
                {
                    "runtime": id_,
                    "title": row.title,
                    "adapter": row.adapter,
                    "route": route.id,
                    "status": support.status,
                    "questions": support.questions,
                    "seen_version": support.seen_version,
                    "seen_date": support.seen_date.isoformat() if support.seen_date else None,
                    "installed": id_ in installed,
                    "installed_version": support.version,
                    "drift": support.drift,
                    "levers": list(support.levers),
                    "row": route.model_dump(mode="json", exclude_defaults=True),
                }
            )
    document = registry.document
    return {
        "schema_version": document.schema_version,
        "data_version": document.data_version,
        "routes": routes,
    }


def _all(registry: Registry, rows: Mapping[str, RuntimeRow], installed: Mapping[str, str | None]) -> str:
    cells = []
    for id_, row in rows.items():
        for route in row.routes:
            support = _support(registry, id_, route, installed)
            cells.append(
                [
                    id_,
                    route.id,
                    support.status,
                    support.seen_version or "",
                    str(support.seen_date or ""),
                    _here(id_, row, installed),
                    support.drift if support.drift != "unknown" else "",
                ]
            )
    head = ["RUNTIME", "ROUTE", "STATUS", "SEEN AT", "ON", "INSTALLED", "DRIFT"]
    return table(head, cells, keys=2, columns=width(), colours=_COLOURS if is_coloured() else None)


def _one(registry: Registry, id_: str, row: RuntimeRow, installed: Mapping[str, str | None]) -> str:
    from opask.registry_page import claims

    columns, colours = width(), _COLOURS if is_coloured() else None
    head = [("Installed here", _here(id_, row, installed) or "not known: it has no version command")]
    if row.package:
        head.append(("Install", row.package.install))
        if row.package.needs:
            head.append(("Needs", ", ".join(row.package.needs)))
    parts = [paragraph(f"{row.title} ({id_})", columns=columns) + definitions(head, columns=columns)]
    if row.notes:
        parts[0] += paragraph(row.notes, columns=columns, indent="  ")
    for route in row.routes:
        support = _support(registry, id_, route, installed)
        pairs = [("The agent can ask", "yes" if support.questions else "no"), ("Status", support.status)]
        if support.drift != "unknown":
            pairs.append(("The installed version is", support.drift))
        pairs += [
            (label, value.replace("`", ""))
            for label, value in claims(route)
            if value is not None and label != "Status"
        ]
        parts.append(f"{inert_line(route.id)}\n" + definitions(pairs, columns=columns, colours=colours))
        if route.notes:
            parts[-1] += paragraph(route.notes, columns=columns, indent="  ")
    return "\n".join(parts)
