"""`opask demo`: a question asked and answered on the real path, with a scripted agent in place of a runtime."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Final

from opask.cli.operators import add_arguments, chosen

__all__ = ["configure", "run"]

HELP = "see a question asked and answered, with a scripted agent"
EXAMPLE = (
    'opask demo --answers \'{"Which database should the service use?": "SQLite", '
    '"Which parts should be done first?": ["API", "Docs"]}\''
)

_TASK: Final = "set up a small web service"
_PACE_S: Final = 0.02  # for a person to see that it streams


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_arguments(parser, "terminal", "web")


def run(args: argparse.Namespace) -> int:
    """Run the agent; see `opask.cli.run.run` for what comes back."""
    from opask.cli.conduct import Errand, conduct
    from opask.cli.demo_adapter import DemoAdapter

    adapter = DemoAdapter(_PACE_S if sys.stdout.isatty() else 0.0)
    return conduct(
        Errand(
            command="demo",
            adapter=adapter,
            argv=tuple(adapter.default_argv(adapter.program, _TASK, ())),
            env=dict(os.environ),
            prompt=_TASK,
            operator=chosen(args),
            allow_unverified=True,
        )
    )
