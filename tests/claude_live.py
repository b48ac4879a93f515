"""Run inside a namespace of its own: launches of the real claude as they are planned, against the scripted model.

``python claude_live.py JSON``, with a list of runs in the same sandbox; prints, for each, what did not fit.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio

from opask.bridge import Bridge
from opask.driver import start
from opask.events import Event, event_to_json
from opask.launch import LaunchRequest
from opask.testing import Scripted
from opask_claude import adapter
from opask_probes.model import from_data, serve
from opask_probes.runtimes import RUNTIMES


async def run(launch: dict[str, Any]) -> dict[str, Any]:
    """Play one scenario to one launch; give the failures and the events."""
    events: list[Event] = []
    prompter = Scripted(launch["answers"]) if launch.get("answers") else None
    async with (
        serve(from_data(launch["scenario"]), verify=False) as model,
        Bridge() as bridge,
        await bridge.attach("live", adapter, prompter, allow_unverified=True) as session,
    ):
        session.subscribe(events.append)
        env = {**os.environ, **RUNTIMES["claude"].model(model.url)}
        env.pop("PYTHONPATH", None)
        plan = session.plan_launch(LaunchRequest(launch["argv"], env))
        async with start(session, plan, cwd=Path.cwd()) as runtime:
            await runtime.prompt(launch["prompt"])
            await runtime.turn_over()
            runtime.close_input()
            result = await runtime.wait()
    failures = [str(failure) for failure in model.failures + model.unplayed]
    told = [event_to_json(event) for event in events]
    return {"failures": failures, "events": told, "code": result.exit_code, "stderr": result.stderr}


async def main(launches: list[dict[str, Any]]) -> None:
    """Run one launch after the other."""
    json.dump([await run(launch) for launch in launches], sys.stdout)


if __name__ == "__main__":
    anyio.run(main, json.loads(sys.argv[1]))
