"""Start a runtime by its plan, and run it to its end."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import Process

from opask.driver.process import RunningRuntime
from opask.driver.terms import Bounds, DrivenSession, Pace, Policy, RunResult, Tee
from opask.errors import RuntimeUnavailableError
from opask.launch import LaunchPlan

__all__ = ["run", "start"]

_GUARD: Final = Path(__file__).resolve().parent.parent / "guard.py"


@asynccontextmanager
async def start(
    session: DrivenSession,
    plan: LaunchPlan,
    *,
    cwd: Path | str | None = None,
    policy: Policy | None = None,
    tee: Tee | None = None,
    interpreter: str | None = None,
    bounds: Bounds = Bounds(),  # noqa: B008 - frozen
    pace: Pace | None = None,
) -> AsyncIterator[RunningRuntime]:
    """Start a runtime by its plan, under `opask.guard`; end it when the block is left.

    The runtime gets a session and a process group of its own, no terminal, and no file descriptor but its pipes.
    However this process dies, the runtime and all that it started die with it.

    Args:
        session: whose plan it is; it hears what the runtime says, and is told when it exits.
        plan: from the session's `plan_launch`.
        cwd: where the runtime runs; by default where its plan says.
        policy: decides permission requests that opask has no opinion on; without one they are denied.
        tee: sees every line both ways, for recordings.
        interpreter: the Python that runs the guard; by default this one, in a frozen application the ``python3``
            on the PATH.
        bounds: how long to wait, and how much to keep.
        pace: holds the runtime back while the host has enough of its output to take.

    Yields:
        The running runtime.

    Raises:
        RuntimeUnavailableError: its program is missing, or nothing can be started there.
    """
    process, leash = await _spawn(session, plan, plan.cwd if cwd is None else cwd, interpreter)
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        runtime = RunningRuntime(
            session, plan, process, leash, tasks, policy=policy, tee=tee, bounds=bounds, pace=pace
        )
        try:
            yield runtime
        except Exception as error:  # raised below: the task group would wrap it
            failure = error
        finally:
            await runtime.end()
    if failure is not None:
        raise failure


async def run(
    session: DrivenSession,
    plan: LaunchPlan,
    prompt: str,
    *,
    cwd: Path | str | None = None,
    policy: Policy | None = None,
    tee: Tee | None = None,
    interpreter: str | None = None,
    bounds: Bounds = Bounds(),  # noqa: B008 - frozen
    pace: Pace | None = None,
) -> RunResult:
    """Start a runtime, give it one prompt, and wait until it is done and has exited.

    Cancelled, it ends the runtime first: see `RunningRuntime.end`.

    Args:
        session: see `start`, as for the other arguments.
        plan: from the session's `plan_launch`.
        prompt: what the agent is to do; named also where it is in the argv.
        cwd: where the runtime runs.
        policy: decides permission requests that opask has no opinion on.
        tee: sees every line both ways.
        interpreter: the Python that runs the guard.
        bounds: how long to wait, and how much to keep.
        pace: holds the runtime back while the host has enough of its output to take.

    Returns:
        How it ended; a runtime that fails is a result, not an error.

    Raises:
        RuntimeUnavailableError: its program is missing, or nothing can be started there.
        LaunchError: the process takes no prompt.
    """
    started = start(
        session, plan, cwd=cwd, policy=policy, tee=tee, interpreter=interpreter, bounds=bounds, pace=pace
    )
    async with started as runtime:
        await runtime.prompt(prompt)
        await runtime.turn_over()
        return await runtime.finish()


async def _spawn(
    session: DrivenSession, plan: LaunchPlan, cwd: Path | str | None, interpreter: str | None
) -> tuple[Process, int]:
    """Start the guard with the runtime below it; give it, and this process's end of its leash."""
    runtime, program = session.adapter.runtime, plan.argv[0]
    if not _is_there(program, plan.env, cwd):
        where = "" if "/" in program else " on the PATH"
        wrong = f"there is no program {program!r}{where}; install it, or give its path"
        if "/" in program and os.path.lexists(os.path.join(cwd or ".", program)):  # noqa: ASYNC240, PTH118 - at once
            wrong = f"{program!r} cannot be run by this user; give the path of a program"
        raise RuntimeUnavailableError(
            f"{runtime}: {wrong}",
            runtime=runtime,
            what=program,
        )
    if interpreter is None:
        interpreter = shutil.which("python3") if getattr(sys, "frozen", False) else sys.executable
    removed = [part for folder in session.folders for part in ("--remove", str(folder))]
    try:
        read_end, write_end = os.pipe()
    except OSError as error:
        raise _not_started(runtime, program, error) from error
    leash = ("--leash", str(read_end))
    try:
        process = await anyio.open_process(
            [interpreter or "python3", "-I", "-S", str(_GUARD), *leash, *removed, "--", *plan.argv],
            cwd=cwd,
            env=plan.env,
            start_new_session=True,
            pass_fds=(read_end,),
        )
    except OSError as error:
        os.close(write_end)
        raise _not_started(runtime, program, error) from error
    except BaseException:
        os.close(write_end)
        raise
    finally:
        os.close(read_end)
    return process, write_end


def _not_started(runtime: str, program: str, error: OSError) -> RuntimeUnavailableError:
    if error.errno == errno.E2BIG:
        why = "its arguments and environment are too long for this system; give it a shorter prompt"
    elif error.filename is None:
        why = error.strerror or str(error)
    else:
        why = f"{error.filename}: {error.strerror}; is the folder there, and the Python that runs the guard?"
    return RuntimeUnavailableError(
        f"{runtime}: {program!r} cannot be started: {why}", runtime=runtime, what=program
    )


def _is_there(program: str, env: Mapping[str, str], cwd: Path | str | None) -> bool:
    if "/" in program:
        return shutil.which(Path(cwd or ".", program)) is not None
    return shutil.which(program, path=env.get("PATH", os.defpath)) is not None
