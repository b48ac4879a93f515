"""What is built from this tree: the wheel, the sdist, the editable install, and the lock that goes with them."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
# Folders of this tree that are no packages: nothing of these names may be importable from what is installed.
FOLDERS = ("adapters", "benchmarks", "docs", "probes", "tests")
# One installed package for each of these folders.
PACKAGES = sorted(
    path.parent.relative_to(ROOT)
    for pattern in ("opask", "adapters/*", "probes/opask_*")
    for path in ROOT.glob(f"{pattern}/py.typed")
)


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Run a command that must succeed, with no settings of pip's and make's from outside; give what it printed."""
    outside = ("MAKE", "MFLAGS", "PIP_", "PYTHON")
    env = {name: value for name, value in os.environ.items() if not name.startswith(outside)}
    env["PIP_CONFIG_FILE"] = os.devnull
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pip(*arguments: str | Path) -> None:
    """Run pip on what is here already: no network, no build environment of its own."""
    run(sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments)


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel and the sdist; give the folder that they are in."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder)
    return folder


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    """Give the built wheel."""
    (path,) = dist.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def sdist(dist: Path) -> Path:
    """Give the built sdist."""
    (path,) = dist.glob("*.tar.gz")
    return path


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel without its dependencies; give the folder that is its site-packages."""
    folder = tmp_path_factory.mktemp("site")
    pip("install", "--no-index", "--no-deps", "--target", folder, wheel)
    return folder


def importable(names: Sequence[str], *options: str, path: Path | None = None) -> list[str]:
    """Give those names that a fresh interpreter finds, with a folder added to its path."""
    script = (
        "import sys; from importlib.util import find_spec; "
        f"sys.path += {[str(path)] if path else []!r}; "
        f"print(*[name for name in {list(names)!r} if find_spec(name)])"
    )
    return run(sys.executable, "-I", *options, "-c", script, cwd=Path(sys.prefix)).split()


def pyproject() -> dict[str, Any]:
    """Read the project's metadata."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def contents(path: Path) -> dict[str, bytes]:
    """Give every file of a wheel by name."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


# -- the wheel -------------------------------------------------------------------------------------------------


def test_the_wheel_holds_the_packages_and_nothing_else(installed: Path) -> None:
    """What lies at the top of an installed wheel is one folder for each package, the metadata, and the command."""
    top = {path.name for path in installed.iterdir() if path.suffix != ".dist-info"}
    assert top == {package.name for package in PACKAGES} | {"bin"}
    assert {"opask", "opask_claude", "opask_probes"} <= top


def test_no_folder_of_the_tree_is_importable_from_the_wheel(installed: Path) -> None:
    """An installed wheel takes no common name: adapters, probes and tests are found nowhere."""
    assert importable((*FOLDERS, "opask"), "-S", path=installed) == ["opask"]


def test_no_folder_of_the_tree_is_importable_from_an_editable_install() -> None:
    """An editable install offers what the wheel does, and not the folders beside it."""
    assert importable((*FOLDERS, "opask")) == ["opask"]


@pytest.mark.parametrize("package", PACKAGES, ids=str)
def test_each_package_is_whole_and_typed(package: Path, installed: Path) -> None:
    """Each package of the tree is installed with every module as it is here, and says that it is typed."""
    here = {path.relative_to(ROOT / package) for path in (ROOT / package).rglob("*.py")}
    there = {path.relative_to(installed / package.name) for path in (installed / package.name).rglob("*.py")}
    assert here == there
    assert (installed / package.name / "py.typed").is_file()
    for path in here:
        assert (installed / package.name / path).read_bytes() == (ROOT / package / path).read_bytes()


def test_the_registry_is_in_the_wheel_as_a_file_of_its_own(wheel: Path, installed: Path) -> None:
    """The symlink beside the package becomes a regular file with the registry's content."""
    assert (ROOT / "opask/registry.toml").is_symlink()
    with zipfile.ZipFile(wheel) as archive:
        mode = archive.getinfo("opask/registry.toml").external_attr >> 16
    assert stat.S_ISREG(mode)
    assert not (installed / "opask/registry.toml").is_symlink()
    assert (installed / "opask/registry.toml").read_bytes() == (ROOT / "registry.toml").read_bytes()


def test_the_command_and_every_adapter_are_registered(installed: Path) -> None:
    """The wheel registers the command, and each adapter's package under the name of its runtime."""
    (distribution,) = metadata.distributions(path=[str(installed)])
    found = {(entry.group, entry.name): entry.value for entry in distribution.entry_points}
    adapters = {package.name for package in PACKAGES if package.parent.name == "adapters"}
    registered = {value.partition(".")[0] for (group, _), value in found.items() if group == "opask"}
    assert found["console_scripts", "opask"] == "opask.cli:main"
    assert found["opask", "claude"] == "opask_claude.plugin"
    assert registered == adapters


def test_the_licence_is_in_the_wheel(wheel: Path) -> None:
    """The licence's text comes with the wheel, and the metadata names it."""
    files = contents(wheel)
    (licence,) = [name for name in files if name.endswith(".dist-info/licenses/LICENSE")]
    (described,) = [name for name in files if name.endswith(".dist-info/METADATA")]
    assert files[licence] == (ROOT / "LICENSE").read_bytes()
    assert b"License-Expression: Apache-2.0\n" in files[described]


# -- the sdist -------------------------------------------------------------------------------------------------


def test_the_sdist_builds_the_same_wheel(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    """A wheel that is built from the sdist has the same files, byte for byte, as one built from the tree."""
    pip("wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, sdist)
    (again,) = tmp_path.glob("*.whl")
    assert contents(again) == contents(wheel)


def test_the_sdist_can_be_worked_on(sdist: Path) -> None:
    """The sdist holds what the project's own commands need, and nothing that was made by running them."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Makefile", "requirements.lock", "registry.toml", "tests/conftest.py", "CHANGELOG.md"} <= names
    assert [name for name in names if re.search(r"__pycache__|\.pyc$|^\.venv|_cache", name)] == []


# -- the lock --------------------------------------------------------------------------------------------------


def locked() -> dict[str, tuple[str, int]]:
    """Give each locked distribution's version, and how many hashes it may have."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8").replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        if line and not line.lstrip().startswith("#"):
            name, version = line.split(maxsplit=1)[0].split("==")
            found[canonicalize_name(name)] = (version, line.count("--hash=sha256:"))
    return {str(name): entry for name, entry in found.items()}


def asked_for() -> list[Requirement]:
    """Give every requirement of the project, of its extras and of its dev group, but for those on itself."""
    project = pyproject()
    listed = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(line for extra in project["project"]["optional-dependencies"].values() for line in extra),
        *project["dependency-groups"]["dev"],
    ]
    return [requirement for requirement in map(Requirement, listed) if requirement.name != "opask"]


@pytest.mark.parametrize("requirement", asked_for(), ids=str)
def test_the_lock_meets_what_the_project_asks_for(requirement: Requirement) -> None:
    """Each requirement is locked at a version that meets it; `make lock` has been run since it changed."""
    version, _ = locked()[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(version)


def test_everything_locked_has_a_hash() -> None:
    """No distribution is installed whose content is not known beforehand."""
    assert [name for name, (_, hashes) in locked().items() if not hashes] == []
    assert len(locked()) > len(asked_for()) // 2


def test_the_lock_names_no_place() -> None:
    """The lock holds no address, no option and no path, so that it serves wherever packages come from."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert re.findall(r"^.*(?:://|^-|\s@\s|(?<![\w.])/).*$", text, re.MULTILINE) == []


# -- make ------------------------------------------------------------------------------------------------------


def test_make_lists_every_target() -> None:
    """`make` alone prints one line for each target that it has, and does nothing else."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    lines = run("make", "--no-print-directory").splitlines()
    assert [line.split()[:2] for line in lines] == [["make", target] for target in phony.split()]
    assert all(len(line.split()) > 3 for line in lines)
