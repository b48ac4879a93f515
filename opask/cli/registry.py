"""`opask registry check`: the registry held against its evidence."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from opask.cli import UsageError
from opask.cli.table import colour, is_coloured
from opask.inert import inert_line
from opask.registry import Registry, shipped_path

if TYPE_CHECKING:
    from opask.registry_lint import Finding

__all__ = ["configure", "run"]

HELP = "work with the registry of routes"
EXAMPLE = "opask registry check"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    commands = parser.add_subparsers(dest="registry_command", metavar="COMMAND", required=True)
    check = commands.add_parser(
        "check",
        help="hold the registry's rows against their recordings",
        description="Hold the registry's rows against their recordings. Exit 1 on an error; a warning is no error.",
        epilog="example: opask registry check --json",
    )
    check.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="a registry file, its evidence beside it; by default opask's own",
    )
    check.add_argument("--json", action="store_true", help="print one JSON object")
    check.add_argument(
        "--installed", action="store_true", help="warn too where a version installed here is another one"
    )


def run(args: argparse.Namespace) -> int:
    """Print what the linter finds.

    Returns:
        1 where one of the findings is an error, else 0.

    Raises:
        UsageError: there is no such file.
    """
    from opask.registry_lint import lint

    path: Path = args.file or shipped_path()
    if not path.is_file():
        raise UsageError(f"{path}: there is no such file; name a registry file")
    findings = lint(path, installed=_installed(path) if args.installed else None)
    errors = sum(finding.severity == "error" for finding in findings)
    if args.json:
        report = {
            "registry": path.name,
            "errors": errors,
            "warnings": len(findings) - errors,
            "findings": [finding.to_json() for finding in findings],
        }
        sys.stdout.write(json.dumps(report, ensure_ascii=False, indent=2) + "\n")
    else:
        sys.stdout.write(_text(path, findings, errors))
    return 1 if errors else 0


def _installed(path: Path) -> dict[str, str]:
    from opask.errors import RegistryError
    from opask.installed import installed_versions

    try:
        registry = Registry.load(path)
    except RegistryError:
        return {}  # the linter says so
    return {
        id_: version for id_, version in installed_versions(registry.runtimes).items() if version is not None
    }


def _text(path: Path, findings: Sequence[Finding], errors: int) -> str:
    on = is_coloured()
    lines = []
    for finding in findings:
        place = finding.where if finding.line is None else f"{finding.where}:{finding.line}"
        word = colour(finding.severity, "red" if finding.severity == "error" else "yellow", on=on)
        lines.append(f"{word} {finding.rule}: {inert_line(place)}: {inert_line(finding.message)}")
        lines.append(f"  {colour(inert_line(finding.remedy), 'dim', on=on)}")
    warnings = len(findings) - errors
    lines.append(f"{path.name}: {_count(errors, 'error')}, {_count(warnings, 'warning')}")
    return "".join(f"{line}\n" for line in lines)


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"
