"""Who may import whom, and what an import costs.

The table is the rule; the rest reads every module's source and holds it to the table. A module that no row
covers is an error, so that a new module gets its place on purpose.
"""

from __future__ import annotations

import ast
import graphlib
import importlib
import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import pytest

ROOT = Path(__file__).resolve().parent.parent
# The folders that hold packages, as the wheel takes them.
SOURCE_ROOTS = (ROOT, ROOT / "adapters", ROOT / "probes")


def package(*names: str) -> tuple[str, ...]:
    """Give the patterns that cover each package and everything in it."""
    return tuple(pattern for name in names for pattern in (name, f"{name}.*"))


@dataclass(frozen=True)
class Rule:
    """What the modules that match a pattern may import; the first row that covers a module is its rule."""

    modules: tuple[str, ...]
    project: tuple[str, ...] = ()  # modules of this project, as patterns
    others: tuple[str, ...] = ()  # other distributions, by the top-level name that is imported
    late: tuple[
        str, ...
    ] = ()  # both kinds, but only inside a function or for the type checker; goes before the two
    never: tuple[str, ...] = ()  # modules that the patterns would let in; only those of the same row are
    without: tuple[str, ...] = ()  # standard modules that are not allowed, nor what is below them
    pure: bool = False  # no I/O: none of the standard modules and builtins by which it is done
    computed: bool = False  # whether a module's name may be computed at run time


# -- the table -------------------------------------------------------------------------------------------------

NETWORK = (
    "socket",
    "socketserver",
    "ssl",
    "select",
    "selectors",
    "http.client",
    "http.server",
    "urllib.request",
)
PROCESSES = ("subprocess", "multiprocessing", "signal", "pty", "concurrent.futures")
THREADS = ("asyncio", "threading", "_thread", "queue", "sched")
FILES = ("os", "io", "fcntl", "mmap", "shutil", "tempfile", "glob", "sqlite3", "dbm", "shelve")
PURE = (*NETWORK, *PROCESSES, *THREADS, *FILES)
PURE_CALLS = ("open", "input", "print")

CORE = (
    "opask.adapters",
    "opask.correlation",
    "opask.effects",
    "opask.errors",
    "opask.events",
    "opask.grants",
    "opask.inert",
    "opask.intake",
    "opask.launch",
    "opask.names",
    "opask.outcomes",
    "opask.permissions",
    "opask.prompter",
    "opask.proposals",
    "opask.questions",
    "opask.recording",
    "opask.tokens",
    "opask.trace",
    "opask.versions",
    "opask.wire",
)
ATTRS = ("attr", "attrs")
MCP = ("mcp", "mcp_types")
SPEAKS_MCP = ("opask.bridge.lines", "opask.bridge.server", "opask.bridge.http")
# The modules of each surface.
PLAIN = package("opask.surfaces.plain")
TERMINAL = package("opask.surfaces.terminal", "opask.surfaces.inline", "opask.surfaces.screen")
FULLSCREEN = package("opask.surfaces.fullscreen")
WEB = package("opask.surfaces.web")
MCP_SURFACE = package("opask.surfaces.mcp")
SURFACES = (*PLAIN, *TERMINAL, *FULLSCREEN, *WEB, *MCP_SURFACE)
INBOX = package("opask.inbox")
CALLING = "opask.calling"
HTTP = ("opask.http_faults", "opask.http_serving")
# What a host asks by itself.
GATES = ("opask.asking", "opask.clarify", "opask.permitting", "opask.write_gate")

DOOR = "opask.__main__"  # `python -m opask` is the command line

# Each runs as a file in a process of its own, started as `python -I -S FILE`.
ALONE = ("opask.relay", "opask.guard", "opask.cli.demo_agent")

RULES = (
    # The standard library and nothing else.
    Rule(ALONE),
    # The pure core, and its two doors: the registry's file, and pluggy where an adapter is looked up by name.
    Rule(("opask.adapters",), CORE, ATTRS, late=("opask.hooks",), pure=True),
    Rule(("opask.hooks",), CORE, ("pluggy",), pure=True),
    Rule(("opask.registry_schema",), CORE, ("pydantic", "pydantic_core"), pure=True),
    Rule(
        ("opask.registry",),
        CORE,
        ATTRS,
        late=("opask.registry_schema",),
        without=(*NETWORK, *PROCESSES, *THREADS),
    ),
    Rule(
        ("opask.registry_edit",),
        (*CORE, "opask.registry"),
        ATTRS,
        late=("opask.registry_schema", "tomlkit"),
        without=(*NETWORK, *PROCESSES, *THREADS),
    ),
    Rule(
        ("opask.registry_page",), (*CORE, "opask.registry"), ATTRS, late=("opask.registry_schema",), pure=True
    ),
    Rule(
        package("opask.registry_lint"),
        (*CORE, "opask.registry", "opask.registry_schema", *package("opask.registry_lint")),
        ATTRS,
        without=(*NETWORK, *PROCESSES, *THREADS),
    ),
    Rule(
        ("opask",), CORE, pure=True, computed=True
    ),  # each of its names is loaded when it is first asked for
    Rule(CORE, CORE, ATTRS, pure=True),
    # Adapters: sans-IO, and no sibling but the protocol family that one specialises.
    *(
        Rule(package(name), ("opask", *CORE, "opask.hooks", *package(name, *family)), ATTRS, pure=True)
        for name, family in {
            "opask_claude": (),
            "opask_acp": (),
            "opask_kimi": ("opask_acp",),
            "opask_omp": ("opask_acp",),
        }.items()
    ),
    # The read-only profile for shell commands; its parser is an extra.
    Rule(
        package("opask.shell"),
        (*CORE, *package("opask.shell")),
        ATTRS,
        late=("tree_sitter", "tree_sitter_bash"),
        pure=True,
    ),
    # What a host asks the operator itself: on its own loop, through its own prompter.
    Rule(
        GATES,
        (*CORE, CALLING, *GATES, *package("opask.shell")),
        (*ATTRS, "anyio"),
        without=(*NETWORK, *PROCESSES, *FILES),
    ),
    # How what a host gives is called.
    Rule((CALLING,), (), ("anyio",)),
    # What the servers of bridge and surfaces have in common.
    Rule(HTTP, ("opask.errors", *HTTP), ("anyio", "h11", "starlette", "uvicorn")),
    # What does I/O. Those modules of the bridge that speak MCP are imported by it in its own thread, once it opens.
    Rule(
        ("opask.bridge.http",),
        ("opask.tokens", *HTTP, *package("opask.bridge")),
        (*MCP, "anyio", "starlette"),
    ),
    Rule(SPEAKS_MCP, (*CORE, *package("opask.bridge")), (*ATTRS, *MCP, "anyio")),
    Rule(
        package("opask.bridge"),
        (*CORE, CALLING, "opask.registry", *package("opask.bridge")),
        (*ATTRS, "anyio"),
        late=SPEAKS_MCP,
    ),
    Rule(package("opask.driver"), (*CORE, CALLING, *package("opask.driver")), (*ATTRS, "anyio")),
    Rule(("opask.installed",), CORE, ATTRS, late=("opask.registry_schema",)),
    Rule(INBOX, (*CORE, CALLING, *INBOX), (*ATTRS, "anyio")),
    # Surfaces: each with its own way to a screen; none knows the bridge or another surface. What they share is pure.
    # The package chooses one.
    Rule(("opask.surfaces",), late=SURFACES),
    Rule(
        PLAIN,
        (*CORE, *INBOX, "opask.surfaces.*"),
        (*ATTRS, "anyio"),
        never=SURFACES,
    ),
    Rule(
        TERMINAL,
        (*CORE, *INBOX, "opask.surfaces.*"),
        (*ATTRS, "anyio", "prompt_toolkit"),
        never=SURFACES,
    ),
    Rule(
        FULLSCREEN,
        (*CORE, *INBOX, "opask.surfaces.*"),
        (*ATTRS, "anyio", "rich", "textual"),
        never=SURFACES,
    ),
    Rule(
        MCP_SURFACE,
        (*CORE, *INBOX, *HTTP, *MCP_SURFACE),
        (*ATTRS, *MCP, "anyio", "pydantic", "starlette"),
    ),
    Rule(
        WEB,
        (*CORE, *INBOX, *HTTP, *WEB),
        (*ATTRS, "anyio", "pydantic", "starlette"),
        never=SURFACES,
    ),
    Rule(package("opask.surfaces"), (*CORE, "opask.surfaces.*"), ATTRS, never=SURFACES, pure=True),
    # What a host's own tests use.
    Rule(
        package("opask.testing"),
        ("opask", *CORE, "opask.registry", *package("opask.bridge", "opask.testing")),
        (*ATTRS, "anyio"),
        late=(*MCP, "pytest"),
    ),
    # The command line composes, late, so that `opask --help` is quick; the probes drive everything.
    Rule((DOOR,), ("opask.cli",)),
    Rule(
        package("opask.cli"),
        package("opask", "opask_*"),
        (*ATTRS, "anyio"),
        late=("prompt_toolkit", "pydantic"),
        computed=True,
    ),
    Rule(
        package("opask_probes"),
        package("opask", "opask_*"),
        (*ATTRS, *MCP, "anyio", "pydantic", "starlette", "uvicorn"),
        computed=True,
    ),
)

# Imported by nothing outside themselves, whatever a row lets in: some stand on top of all else, some are only run.
UNIMPORTED = ("opask.cli", "opask_probes", *ALONE)

# What an import in a fresh interpreter may load besides the standard library and this project.
ANYIO_AND_ITS_OWN = frozenset({"anyio", "idna", "sniffio", "typing_extensions"})
COSTS = {
    "opask": frozenset(ATTRS),
    "opask.registry": frozenset(ATTRS),
    "opask.bridge": frozenset(ATTRS) | ANYIO_AND_ITS_OWN,
    "opask.driver": frozenset(ATTRS) | ANYIO_AND_ITS_OWN,
    "opask.inbox": frozenset(ATTRS) | ANYIO_AND_ITS_OWN,
    "opask.cli": frozenset(ATTRS) | ANYIO_AND_ITS_OWN,
    "opask_acp": frozenset(ATTRS),
    "opask_claude": frozenset(ATTRS),
    "opask_kimi": frozenset(ATTRS),
    "opask_omp": frozenset(ATTRS),
}

# -- the reader ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Module:
    name: str
    path: Path

    def __str__(self) -> str:
        return self.name

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def is_public(self) -> bool:
        return not any(part.startswith("_") for part in self.name.split("."))


@dataclass(frozen=True)
class Import:
    """One imported module; ``names`` is it and, for ``from a import b``, also ``a.b``, which may be a module."""

    names: tuple[str, ...]
    line: int
    when: Literal["at import", "late", "for types"]


def modules_under(roots: Iterable[Path]) -> list[Module]:
    """Give every module of the packages ``opask`` and ``opask_*`` that lie directly in one of the folders."""
    found = []
    for root in roots:
        for init in sorted(root.glob("opask*/__init__.py")):
            for path in sorted(init.parent.rglob("*.py")):
                parts = path.relative_to(root).with_suffix("").parts
                found.append(Module(".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return found


class _Reader(ast.NodeVisitor):
    def __init__(self, module: Module) -> None:
        self.module = module
        self.imports: list[Import] = []
        self.calls: list[tuple[str, int]] = []
        self.computed: list[int] = []
        self._when: Literal["at import", "late", "for types"] = "at import"

    def _within(self, when: Literal["late", "for types"], nodes: Iterable[ast.AST]) -> None:
        before, self._when = self._when, when
        for node in nodes:
            self.visit(node)
        self._when = before

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        # Decorators, defaults and annotations run when the module is imported; only the body runs late.
        for part in (*node.decorator_list, node.args, *filter(None, [node.returns])):
            self.visit(part)
        self._within("late", node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.args)
        self._within("late", [node.body])

    def visit_If(self, node: ast.If) -> None:
        name = node.test.attr if isinstance(node.test, ast.Attribute) else getattr(node.test, "id", None)
        if name == "TYPE_CHECKING":
            self._within("for types", node.body)
            for other in node.orelse:
                self.visit(other)
        else:
            self.generic_visit(node)

    def _add(self, node: ast.AST, *names: str) -> None:
        self.imports.append(Import(names, getattr(node, "lineno", 0), self._when))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            parts = self.module.name.split(".")
            parts = parts[: len(parts) - node.level + self.module.is_package]
            base = ".".join([*parts, *filter(None, [base])])
        for alias in node.names:
            self._add(node, base, f"{base}.{alias.name}")

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name in ("import_module", "__import__"):
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                self._add(node, first.value)
            else:
                self.computed.append(node.lineno)
        if isinstance(function, ast.Name):
            self.calls.append((name, node.lineno))
        self.generic_visit(node)


def read(module: Module) -> _Reader:
    """Read a module's source for what it imports and which plain functions it calls."""
    reader = _Reader(module)
    reader.visit(ast.parse(module.path.read_text(encoding="utf-8"), str(module.path)))
    return reader


def covers(patterns: Iterable[str], name: str) -> bool:
    """Tell whether a pattern of the table covers a module's name."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def is_below(name: str, *tops: str) -> bool:
    """Tell whether a dotted name is one of the others or lies in it."""
    return any(name == top or name.startswith(f"{top}.") for top in tops)


def violations(modules: Sequence[Module], rules: Sequence[Rule] = RULES) -> list[str]:
    """Hold each module to its row; give one line for every import or call that the row does not let in."""
    known = {module.name for module in modules}
    found = []
    for module in modules:
        rule = next((rule for rule in rules if covers(rule.modules, module.name)), None)
        if rule is None:
            found.append(
                f"{module.name}: no row of the table in tests/test_architecture.py covers this module"
            )
            continue
        reader = read(module)
        for imported in reader.imports:
            problem = _problem(module, rule, imported, known)
            if problem:
                found.append(f"{module.name}:{imported.line}: {problem}")
        found += [
            f"{module.name}:{line}: calls {name}()"
            for name, line in reader.calls
            if rule.pure and name in PURE_CALLS
        ]
        if not rule.computed:
            found += [f"{module.name}:{line}: imports a computed name" for line in reader.computed]
    return found


def _problem(module: Module, rule: Rule, imported: Import, known: set[str]) -> str | None:
    target = imported.names[0]
    top = target.partition(".")[0]
    if top == "__future__":
        return None
    if top == "opask" or top.startswith("opask_"):
        # `from package import name` names a module where there is one, and the package itself where there is none.
        target = imported.names[-1] if imported.names[-1] in known else target
        own = module.name.split(".")[: 1 if module.name.startswith("opask_") else 2]
        for unimported in UNIMPORTED:
            if is_below(target, unimported) and ".".join(own) != unimported and module.name != DOOR:
                return f"imports {target}, which nothing may import"
        if covers(rule.never, target) and not (
            covers(rule.never, module.name) and covers(rule.modules, target)
        ):
            return f"imports {target}"
        if covers(rule.late, target):
            return _unless_late(imported, target)
        return None if covers(rule.project, target) else f"imports {target}"
    if top in sys.stdlib_module_names:
        without = PURE if rule.pure else rule.without
        denied = next((name for name in imported.names if is_below(name, *without)), None)
        return f"imports {denied}" if denied else None
    if top in rule.late:
        return _unless_late(imported, top)
    return None if top in rule.others else f"imports {top}"


def _unless_late(imported: Import, name: str) -> str | None:
    return f"imports {name} at import; only late is allowed" if imported.when == "at import" else None


def import_graph(modules: Sequence[Module]) -> dict[str, set[str]]:
    """Give, for each module, the modules of the project that are imported when it is."""
    known = {module.name for module in modules}
    return {
        module.name: {
            next((name for name in reversed(imported.names) if name in known), module.name)
            for imported in read(module).imports
            if imported.when == "at import"
        }
        - {module.name}
        for module in modules
    }


MODULES = modules_under(SOURCE_ROOTS)
PUBLIC = [module.name for module in MODULES if module.is_public]

# -- the project -----------------------------------------------------------------------------------------------


def test_the_reader_finds_the_project() -> None:
    """The rules are held against the modules of this project and not against an empty list."""
    assert {"opask", "opask.questions", "opask.errors"} <= {module.name for module in MODULES}


def test_every_import_is_one_that_the_table_lets_in() -> None:
    """No module imports, early or late, what its row in the table does not let in."""
    assert "\n".join(violations(MODULES)) == ""


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports that run when a module is imported form no cycle."""
    list(graphlib.TopologicalSorter(import_graph(MODULES)).static_order())


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_exists(name: str) -> None:
    """Each name that a public module lists in ``__all__`` is there, and listed once."""
    module = importlib.import_module(name)
    listed = getattr(module, "__all__", [])
    assert [entry for entry in listed if not hasattr(module, entry)] == []
    assert len(set(listed)) == len(listed)


def loaded_by(statement: str, *options: str) -> set[str]:
    """Run a statement in a fresh interpreter; give the top-level names of all that it loaded."""
    script = (
        f"import json, runpy, sys; before = set(sys.modules); {statement}; "
        "print(json.dumps(sorted({name.partition('.')[0] for name in set(sys.modules) - before})))"
    )
    run = subprocess.run(
        [sys.executable, "-I", *options, "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout))


@pytest.mark.parametrize("name", [module.name for module in MODULES if module.name in COSTS])
def test_an_import_loads_only_what_it_needs(name: str) -> None:
    """An import in a fresh interpreter loads no distribution beyond those that the table of costs allows."""
    loaded = loaded_by(f"import {name}") - sys.stdlib_module_names
    assert {top for top in loaded if not top.startswith("opask")} <= COSTS[name]


@pytest.mark.parametrize("module", [module for module in MODULES if covers(ALONE, module.name)], ids=str)
def test_a_file_that_runs_alone_needs_no_installed_package(module: Module) -> None:
    """The relay and the guard load in an interpreter without site-packages, and load nothing but standard modules."""
    assert loaded_by(f"runpy.run_path({str(module.path)!r})", "-S") <= sys.stdlib_module_names


# -- the checker itself ----------------------------------------------------------------------------------------


def write(root: Path, **sources: str) -> list[Module]:
    """Write made-up modules, named with ``__`` for a dot, under a folder; give them as the reader finds them."""
    for name, source in sources.items():
        path = root.joinpath(*name.split("__"))
        path.mkdir(parents=True, exist_ok=True)
        (path / "__init__.py").write_text(source, encoding="utf-8")
        for parent in path.relative_to(root).parents:
            if parent != Path():
                (root / parent / "__init__.py").touch()
    return modules_under([root])


@pytest.mark.parametrize(
    ("name", "source", "complaint"),
    [
        ("opask__questions", "import anyio", "imports anyio"),
        ("opask__questions", "import socket", "imports socket"),
        ("opask__questions", "from concurrent import futures", "imports concurrent.futures"),
        ("opask__questions", "from os.path import join", "imports os.path"),
        ("opask__questions", "def ask():\n    import subprocess", "imports subprocess"),
        ("opask__questions", "try:\n    import asyncio\nexcept ImportError:\n    pass", "imports asyncio"),
        ("opask__questions", "from opask import registry", "imports opask"),
        ("opask__questions", "from opask.bridge import Bridge", "imports opask.bridge"),
        ("opask__questions", "class A:\n    print('x')", "calls print()"),
        ("opask__questions", "import importlib\nimportlib.import_module('mcp')", "imports mcp"),
        (
            "opask__questions",
            "import importlib\nimportlib.import_module('m' + 'cp')",
            "imports a computed name",
        ),
        ("opask__adapters", "from opask.hooks import load_adapter", "imports opask.hooks at import"),
        ("opask__relay", "import attrs", "imports attrs"),
        ("opask__bridge", "import mcp", "imports mcp"),
        ("opask__bridge", "from opask.bridge.lines import serve", "imports opask.bridge.lines at import"),
        (
            "opask__bridge",
            "def f(x=__import__('opask.bridge.lines')): ...",
            "imports opask.bridge.lines at import",
        ),
        ("opask__testing", "import pytest", "imports pytest at import"),
        ("opask__bridge", "from opask.relay import main", "which nothing may import"),
        ("opask__driver", "from opask.bridge import Bridge", "imports opask.bridge"),
        ("opask__inbox__sqlite", "from opask.bridge import Bridge", "imports opask.bridge"),
        ("opask__inbox__sqlite", "from opask.surfaces import plain", "imports opask.surfaces"),
        ("opask__surfaces__terminal", "from opask.bridge import Bridge", "imports opask.bridge"),
        ("opask__surfaces__terminal", "from opask.surfaces import plain", "imports opask.surfaces"),
        (
            "opask__surfaces__terminal",
            "from opask.surfaces.plain import show",
            "imports opask.surfaces.plain",
        ),
        ("opask__surfaces__form", "from opask.surfaces.plain import show", "imports opask.surfaces.plain"),
        ("opask__surfaces__mcp__server", "from opask.bridge import Bridge", "imports opask.bridge"),
        ("opask__surfaces__mcp__server", "from opask.surfaces import plain", "imports opask.surfaces"),
        ("opask__surfaces__form", "import anyio", "imports anyio"),
        ("opask__surfaces__plain", "import prompt_toolkit", "imports prompt_toolkit"),
        ("opask__testing", "from opask.cli import main", "which nothing may import"),
        ("opask__cli__demo", "def demo():\n    import opask_probes.model", "which nothing may import"),
        ("opask_claude", "import pluggy", "imports pluggy"),
        ("opask_claude", "from opask_acp import session", "imports opask_acp"),
        ("opask_claude", "text = open('x').read()", "calls open()"),
        ("opask_acp", "from opask_kimi import adapter", "imports opask_kimi"),
        ("opask__novel", "", "no row of the table"),
    ],
)
def test_the_checker_names_what_is_not_allowed(
    tmp_path: Path, name: str, source: str, complaint: str
) -> None:
    """A made-up module that breaks a rule is reported by name, with what it did."""
    found = violations(write(tmp_path, **{name: source}))
    assert len(found) == 1
    assert found[0].startswith(name.replace("__", "."))
    assert complaint in found[0]


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("opask__questions", "from attrs import frozen\nfrom opask.errors import OpaskError\nimport logging"),
        ("opask__adapters", "def adapter(name):\n    from opask.hooks import load_adapter"),
        ("opask__bridge", "import anyio, socket\ndef serve():\n    from opask.bridge.lines import serve"),
        ("opask__bridge__lines", "from mcp.server.lowlevel import Server"),
        ("opask__testing", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pytest"),
        (
            "opask__bridge__session",
            "from .desk import Desk\nfrom . import desk\nimport opask.bridge.desk",
        ),
        (
            "opask__cli__demo",
            "from opask.cli import output\nfrom opask.bridge import Bridge\nimport opask_claude",
        ),
        ("opask_kimi", "from opask_acp.session import Session\nfrom opask import Ask"),
        ("opask_probes__claude", "import subprocess, uvicorn\nfrom opask_probes import model"),
    ],
)
def test_the_checker_lets_in_what_is_allowed(tmp_path: Path, name: str, source: str) -> None:
    """A made-up module that keeps to its row is not reported."""
    assert violations(write(tmp_path, **{name: source})) == []


def test_a_relative_import_is_read_as_the_module_that_it_names(tmp_path: Path) -> None:
    """Dots in an import count from the package that the module is in."""
    modules = write(tmp_path, opask__surfaces__plain="", opask__surfaces__terminal="")
    (tmp_path / "opask/surfaces/web.py").write_text("from .plain import show\nfrom ..bridge import Bridge\n")
    (web,) = [module for module in modules_under([tmp_path]) if module.name == "opask.surfaces.web"]
    assert len(modules) == 4
    assert [imported.names[0] for imported in read(web).imports] == ["opask.surfaces.plain", "opask.bridge"]


def test_a_circle_of_imports_is_found(tmp_path: Path) -> None:
    """Two modules that import each other when they are imported are reported; a late import breaks the circle."""
    early = "from opask.wire import text"
    modules = write(tmp_path, opask__questions=early, opask__wire="import opask.questions")
    with pytest.raises(graphlib.CycleError):
        list(graphlib.TopologicalSorter(import_graph(modules)).static_order())
    modules = write(tmp_path, opask__wire="def text():\n    import opask.questions")
    assert list(graphlib.TopologicalSorter(import_graph(modules)).static_order())


def test_a_costly_import_is_seen() -> None:
    """What an import brings along is seen by its top-level name."""
    assert "anyio" in loaded_by("import anyio")
