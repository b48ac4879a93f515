"""The registry's pages in the documentation say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from opask import registry_schema as schema
from opask.registry import Registry
from opask.registry_lint import RULES
from opask.registry_page import duration, page

ROOT = Path(__file__).resolve().parents[2]
TWIN = (ROOT / "docs/registry.md").read_text(encoding="utf-8")

SECTIONS: dict[str, type[BaseModel]] = {
    "The file": schema.Document,
    "A runtime": schema.RuntimeRow,
    "A package": schema.Package,
    "A route": schema.RouteRow,
    "Spellings": schema.Spellings,
    "Exposure": schema.Exposure,
    "The native ask tool": schema.NativeAsk,
    "Permission": schema.Permission,
    "Wait": schema.Wait,
    "Start": schema.Startup,
    "An observation": schema.Observation,
    "An exception": schema.Exemption,
}


def first_cells(title: str, level: str = "###") -> list[str]:
    """Give the first cells of the table under a heading, without their head."""
    section = re.search(rf"^{level} {title}\b.*?$(.*?)(?=^##|\Z)", TWIN, re.MULTILINE | re.DOTALL)
    assert section, title
    return re.findall(r"^\| `([\w-]+)` \|", section[1], re.MULTILINE)


@pytest.mark.parametrize("title", SECTIONS)
def test_every_field_is_explained_in_its_place(title: str) -> None:
    """The page names each field of the schema in its table's section, in the schema's order, and no other."""
    assert first_cells(title) == list(SECTIONS[title].model_fields)


def test_no_table_of_the_schema_is_left_out() -> None:
    """Every table that the schema has is a section of the page."""
    rows = {
        value
        for value in vars(schema).values()
        if isinstance(value, type) and issubclass(value, BaseModel) and value.__name__ in schema.__all__
    }
    assert rows == set(SECTIONS.values())


def test_every_rule_is_explained() -> None:
    """The page has each rule of the linter, with its severity and its own words, in the linter's order."""
    listed = re.findall(r"^\| `([\w-]+)` \| (error|warning) \| (.+) \|$", TWIN, re.MULTILINE)
    assert [row[0] for row in listed] == ["schema", *(rule.name for rule in RULES), "exception-is-needed"]
    assert listed[1:-1] == [(rule.name, rule.severity, rule.message) for rule in RULES]


def test_the_page_names_the_schema_that_is_read() -> None:
    """The schema's version on the page is the one that the code reads."""
    assert f"as this page explains it: {schema.SCHEMA_VERSION}." in TWIN


def test_the_example_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python on the page works in the source tree."""
    monkeypatch.chdir(ROOT)
    (example,) = re.findall(r"```python\n(.*?)```", TWIN, re.DOTALL)
    exec(compile(example, "docs/registry.md", "exec"), {})  # noqa: S102 # our own page


def test_the_table_of_routes_is_current() -> None:
    """docs/routes.md is what the registry gives; make it anew with `python -m opask.registry_page > docs/routes.md`."""
    assert (ROOT / "docs/routes.md").read_text(encoding="utf-8") == page(Registry.shipped())


def test_every_route_is_on_the_page() -> None:
    """Each route has its line in the table of all routes, and its column in its runtime's."""
    text = page(Registry.shipped())
    for row in Registry.shipped().runtimes.values():
        assert f"## {row.title}\n" in text
        assert f"| Claim | {' | '.join(route.id for route in row.routes)} |" in text
        for route in row.routes:
            assert f"| {row.title} | {route.id} | {route.status} |" in text


def test_every_table_of_the_page_is_square() -> None:
    """No cell breaks its table: each line of a table has as many cells as its head."""
    for table in re.findall(r"(?:^\|.*\n)+", page(Registry.shipped()), re.MULTILINE):
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(counts) == 1, table


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, None),
        ("unbounded", "unbounded"),
        (0.25, "250 ms"),
        (0, "0 s"),
        (60, "1 min"),
        (90, "90 s"),
        (300, "5 min"),
        (3600, "1 h"),
        (2147483, "24.9 d"),
    ],
)
def test_spans_are_written_as_people_do(seconds: float | str | None, words: str | None) -> None:
    """A span is shown in the unit that it is thought of in."""
    assert duration(seconds) == words
