from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from opask.adapters import Adapter, adapter, installed_runtimes
from opask.errors import AdapterError, UnknownRuntimeError

GOOD = """
from opask.hooks import hookimpl

class Made:
    runtime = "made-up"
    def plan_launch(self, request, endpoint, /): ...
    def conversation(self, plan, /): ...

@hookimpl
def opask_adapter():
    return Made()
"""
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Give a function that installs a package with one module and an entry point for it."""
    names: list[str] = []

    def install(
        source: str, *, runtime: str = "made-up", package: str = "opask_made_up", attribute: str = ""
    ) -> None:
        folder = tmp_path / package
        info = folder / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (folder / f"{package}.py").write_text(source, encoding="utf-8")
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", encoding="utf-8"
        )
        (info / "entry_points.txt").write_text(
            f"[opask]\n{runtime} = {package}{attribute}\n", encoding="utf-8"
        )
        monkeypatch.syspath_prepend(folder)
        names.append(package)
        adapter.cache_clear()

    yield install
    adapter.cache_clear()
    for name in names:
        sys.modules.pop(name, None)


def fault(runtime: str = "made-up") -> str:
    """Return why the adapter of a runtime cannot be had."""
    with pytest.raises(AdapterError) as caught:
        adapter(runtime)
    assert not isinstance(caught.value, UnknownRuntimeError)
    return str(caught.value)


def test_an_installed_adapter_is_found_and_loaded_once(install: Install) -> None:
    """An adapter is known by its entry point, loaded by the first look-up, and the same at the next."""
    install(GOOD)
    assert "made-up" in installed_runtimes()
    assert "opask_made_up" not in sys.modules
    found = adapter("made-up")
    assert isinstance(found, Adapter)
    assert found.runtime == "made-up"
    assert adapter("made-up") is found


def test_only_the_wanted_adapter_is_loaded(install: Install) -> None:
    """A broken adapter of another runtime does no harm."""
    install(GOOD)
    install("raise RuntimeError", runtime="broken", package="opask_broken")
    assert installed_runtimes() == tuple(sorted(installed_runtimes()))
    assert {"made-up", "broken"} <= set(installed_runtimes())
    assert adapter("made-up").runtime == "made-up"
    assert "opask_broken" not in sys.modules


def test_an_unknown_runtime_lists_the_installed_ones(install: Install) -> None:
    """The error for a runtime without adapter names the ones there are and how to add one."""
    install(GOOD)
    with pytest.raises(UnknownRuntimeError) as caught:
        adapter("made-down")
    assert caught.value.runtime == "made-down"
    assert caught.value.known == installed_runtimes()
    assert str(caught.value) == (
        f"no adapter for runtime 'made-down' is installed (installed: {', '.join(installed_runtimes())}); "
        "install a package that registers it in the entry-point group 'opask', or take 'acp' where it speaks that"
    )


def test_where_nothing_is_installed_the_error_says_so() -> None:
    """Without any adapter the list in the error reads "none"."""
    assert "(installed: none)" in str(UnknownRuntimeError("claude", ()))


def test_a_misspelt_hook_is_an_error(install: Install) -> None:
    """A hook that opask does not have is named, not passed over."""
    install(GOOD.replace("def opask_adapter", "def opask_adaptor"))
    why = fault()
    assert why.startswith("the adapter for 'made-up' (opask_made_up) registers wrongly: ")
    assert "opask_adaptor" in why


def test_a_hook_that_takes_arguments_is_an_error(install: Install) -> None:
    """A hook of another form than opask's is an error that names the argument."""
    install(GOOD.replace("def opask_adapter():", "def opask_adapter(session):"))
    assert "session" in fault()


@pytest.mark.parametrize("change", [("@hookimpl", ""), ("return Made()", "return None")])
def test_a_package_without_hook_is_an_error(change: tuple[str, str], install: Install) -> None:
    """A module that implements no hook, or whose hook gives nothing, is told which one to implement."""
    install(GOOD.replace(*change))
    assert fault() == (
        "the adapter for 'made-up' (opask_made_up) implements no hook opask_adapter; "
        "decorate it with opask.hooks.hookimpl"
    )


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("def broken(:", "SyntaxError: "),
    ],
)
def test_an_import_error_is_named(source: str, why: str, install: Install) -> None:
    """What goes wrong while a package is imported is in the error, with the package that it is about."""
    install(source)
    assert fault().startswith(f"the adapter for 'made-up' (opask_made_up) cannot be imported: {why}")


def test_an_entry_point_to_nothing_is_an_error(install: Install) -> None:
    """An entry point that names an attribute that is not there is an import error too."""
    install(GOOD, attribute=":plugin")
    assert "cannot be imported: AttributeError" in fault()


def test_a_failing_hook_is_named(install: Install) -> None:
    """An exception out of the hook itself is an adapter's error with its words."""
    install(GOOD.replace("return Made()", "raise ValueError('no config')"))
    assert (
        fault() == "the adapter for 'made-up' (opask_made_up) fails in opask_adapter: ValueError: no config"
    )


def test_two_packages_for_one_runtime_are_an_error(install: Install) -> None:
    """Opask does not choose between two packages that serve the same runtime."""
    install(GOOD)
    install(GOOD, package="opask_second")
    assert fault() == (
        "several packages serve runtime 'made-up' (opask_made_up, opask_second); uninstall all but one"
    )


@pytest.mark.parametrize(
    "change",
    [
        ("return Made()", "return 'adapter'"),
        ("def conversation", "def talk"),
        ("def plan_launch", "def launch"),
        ('runtime = "made-up"', ""),
        ('runtime = "made-up"', 'runtime = "claude"'),
    ],
)
def test_what_is_no_adapter_of_the_runtime_is_an_error(change: tuple[str, str], install: Install) -> None:
    """A value that does not keep the contract, or is another runtime's, is refused with a pointer to the contract."""
    install(GOOD.replace(*change))
    why = fault()
    assert why.startswith("opask_made_up registers 'made-up' but gives ")
    assert why.endswith("which is no adapter of that runtime; see opask.adapters.Adapter")


def test_a_fault_is_not_remembered(install: Install) -> None:
    """A runtime that was unknown is found once its package is installed, in the same process."""
    with pytest.raises(UnknownRuntimeError):
        adapter("made-up")
    install(GOOD)
    assert adapter("made-up").runtime == "made-up"
