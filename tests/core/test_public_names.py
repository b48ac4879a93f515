"""The names of the package itself, each loaded from its module when it is first asked for."""

from __future__ import annotations

import ast
import operator
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import opask


def imported_for_types() -> dict[str, str]:
    """Return the home of each name as a type checker sees it."""
    tree = ast.parse(Path(opask.__file__).read_text(encoding="utf-8"))
    return {
        alias.name: node.module or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("opask.")
        for alias in node.names
    }


def test_every_name_is_the_one_that_a_type_checker_sees() -> None:
    """What is listed, what type checkers read and what is loaded are the same."""
    homes = imported_for_types()
    assert sorted(homes) == sorted(opask.__all__)
    for name, home in homes.items():
        assert getattr(opask, name) is getattr(import_module(home), name)
    assert set(opask.__all__) <= set(dir(opask))


def test_a_name_that_there_is_not_is_told() -> None:
    """It is an attribute error, as of any module."""
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        operator.attrgetter("Nothing")(opask)


def test_importing_the_package_loads_none_of_its_modules() -> None:
    """Who wants one module of it does not pay for the others."""
    code = "import sys, opask; print(sorted(name for name in sys.modules if name.startswith(('opask.', 'attr'))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
