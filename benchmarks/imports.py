"""What an import costs a host, against an interpreter that imports nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs

import opask
import opask_claude
from measuring import Figure, Interleaved, Target
from programs import BARE, Controlled, environment, run_to_end

__all__ = ["imports"]

ROOT = Path(__file__).resolve().parent.parent
EVERY_NAME = "import opask\nfor name in opask.__all__: getattr(opask, name)"


def example() -> str:
    """Return the imports of the README's host example."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    (host,) = [block for block in blocks if "Bridge()" in block]
    return "\n".join(re.findall(r"^(?:from|import) .*", host, re.MULTILINE)) + "\n"


# What a host that only imports must not pay for.
HEAVY = ("mcp", "mcp_types", "starlette", "uvicorn", "textual", "acp", "pydantic", "prompt_toolkit", "pluggy")


def imports(_: Controlled, rounds: int) -> Iterator[Figure]:
    """Measure whole runs of an interpreter."""
    # Without `site`, as the bare one: the folders of the packages are put on the path by hand.
    folders = [str(Path(package.__file__ or "").parents[1]) for package in (opask, opask_claude, attrs)]
    prelude = f"import sys; sys.path[:0] = {folders!r}\n"

    def command(code: str) -> tuple[str, ...]:
        return (sys.executable, "-I", "-S", "-c", prelude + code)

    loaded = subprocess.run(
        command(example() + "import json, sys; print(json.dumps(sorted(sys.modules)))"),
        capture_output=True,
        env=environment(),
        check=True,
    )
    heavy = sorted({name.partition(".")[0] for name in json.loads(loaded.stdout)} & set(HEAVY))
    if heavy:
        raise RuntimeError(f"the host's example imports {', '.join(heavy)}")
    turns = Interleaved()
    turns.add("bare", lambda: run_to_end(BARE))
    turns.add("opask", lambda: run_to_end(command("import opask")))
    turns.add("names", lambda: run_to_end(command(EVERY_NAME)))
    turns.add("example", lambda: run_to_end(command(example())))
    turns.add("mcp", lambda: run_to_end(command("import mcp.server.lowlevel")), every=5)
    turns.run(rounds)
    against = "python -I -S -c pass"
    yield Figure.of_pairs(
        "import opask", "ms", turns.pairs("opask", "bare"), against=against, target=Target("ratio", 6)
    )
    yield Figure.of_pairs(
        "import opask, and each of its names", "ms", turns.pairs("names", "bare"), against=against
    )
    yield Figure.of_pairs(
        "import of the README's host example",
        "ms",
        turns.pairs("example", "bare"),
        against=against,
        target=Target("ratio", 20),
        note=f"without {', '.join(HEAVY)}",
    )
    yield Figure.of_pairs(
        "import of the README's host example",
        "ms",
        turns.pairs("example", "mcp"),
        against="import mcp.server.lowlevel",
    )
