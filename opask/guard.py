"""The parent of a runtime: ends it, and whatever it started, once the host is gone.

Run as ``python -I -S guard.py --leash FD [--remove DIR]... -- ARGV...``. It starts ARGV in a process group of its
own, with this process's stdin, stdout and stderr and no other descriptor, passes signals on to that group, and
exits with the runtime's exit code (128+n where signal n ended it). The leash is the read end of a pipe that the
host alone holds open: however the host ends, the kernel closes its end. Then the runtime gets SIGTERM, a second
later SIGKILL, and the folders are removed. What a runtime leaves running when it exits by itself is ended in the
same way.

On Linux this process adopts what the runtime's children leave behind (prctl(2), PR_SET_CHILD_SUBREAPER), so that
nothing below it gets away, whatever group or session it moved to. Elsewhere the process group is what is ended.
Killed by SIGKILL itself it ends nothing: that is left to a host that lives.

Exit codes of its own: 125 wrong usage; 126 the program cannot be started; 127 there is no such program.

Standard library alone, and little of it: its start is a part of every runtime's start.
"""

# ruff: noqa: PTH123, PTH208, SIM105
# Neither pathlib nor contextlib: each costs more than all that is imported here.

import _signal  # type: ignore[import-not-found]  # `signal` and its enums cost half the time of a bare start
import os
import select
import sys
import time

GRACE = 1.0  # seconds between SIGTERM and SIGKILL
PERIOD = 0.02  # seconds between two looks at what is left
LAST_LOOK = 50  # milliseconds in which a host that dies has closed all its pipes
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h

FORWARDED = (
    _signal.SIGHUP,
    _signal.SIGINT,
    _signal.SIGQUIT,
    _signal.SIGTERM,
    _signal.SIGUSR1,
    _signal.SIGUSR2,
)
# Python ignores the last two in itself, and a host may ignore any: a program expects to start with the defaults.
DEFAULTED = (*FORWARDED, _signal.SIGCHLD, _signal.SIGPIPE, _signal.SIGXFSZ)

# Whether the process tree can be read, and a child be seen dead before it is reaped.
TREE = hasattr(os, "waitid") and os.access("/proc/self/stat", os.R_OK)


class Stat:
    """What /proc/PID/stat says of a process (proc(5))."""

    def __init__(self, pid: int) -> None:
        with open(f"/proc/{pid}/stat", "rb") as file:
            content = file.read()
        # The second field, the program's name, may hold spaces and brackets.
        fields = content[content.rindex(b")") + 2 :].split()
        self.pid = pid
        self.dead = fields[0] in (b"Z", b"X")
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.start = int(fields[19])


def stat(pid: int) -> Stat | None:
    """Read what a process is; None where there is none."""
    try:
        return Stat(pid)
    except (OSError, ValueError, IndexError):
        return None


def descendants() -> list[Stat]:
    """Read the processes below this one that have not ended."""
    seen = {found.pid: found for name in os.listdir("/proc") if name.isdigit() and (found := stat(int(name)))}
    for process in list(seen.values()):
        # Its parent ended while the list was read: who is its parent now?
        if process.parent not in seen and (again := stat(process.pid)):
            seen[process.pid] = again
    children: dict[int, list[Stat]] = {}
    for process in seen.values():
        children.setdefault(process.parent, []).append(process)
    below: list[Stat] = []
    parents = [os.getpid()]
    while parents:
        for process in children.pop(parents.pop(), ()):
            below.append(process)
            parents.append(process.pid)
    return [process for process in below if not process.dead]


def send_to(process: Stat, number: int) -> None:
    """Signal a process that this one is not the parent of: never another one that was given its id since."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:  # it has ended, or the kernel is older than 5.3
        return
    try:
        now = stat(process.pid)
        if now and now.start == process.start:
            _signal.pidfd_send_signal(handle, number)
    except OSError:
        pass
    finally:
        os.close(handle)


class Child:
    """The runtime.

    Where the process tree can be read, it is reaped last: until then its id, which is its group's id, is no one
    else's.
    """

    def __init__(self, argv: list[str]) -> None:
        self.status: int | None = None
        self.pid = os.posix_spawnp(
            argv[0], argv, environment(), setpgroup=0, setsigmask=(), setsigdef=DEFAULTED
        )

    def has_exited(self) -> bool:
        """Tell whether it has; reap what was adopted and has ended."""
        while TREE:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is None or found.si_pid == self.pid:
                return found is not None
            os.waitpid(found.si_pid, 0)
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if pid else None
        return self.status is not None

    def has_left_any(self) -> bool:
        """Tell whether it or anything that it started still runs."""
        if TREE:
            return bool(descendants())
        exited = self.has_exited()  # unreaped, it would count
        try:
            os.killpg(self.pid, 0)
        except OSError:
            return not exited
        return True

    def send(self, number: int) -> None:
        """Signal its process group."""
        try:
            os.killpg(self.pid, number)
        except OSError:
            pass

    def send_to_all(self, number: int) -> None:
        """Signal its process group and whatever has moved out of it."""
        self.send(number)
        if TREE:
            for process in descendants():
                if process.group != self.pid:
                    send_to(process, number)

    def end(self, watch: "Watch") -> None:
        """End it and whatever it started, all of it: with SIGTERM, after a second with SIGKILL."""
        for number in (_signal.SIGTERM, _signal.SIGKILL):
            if not self.has_left_any():
                return
            self.send_to_all(number)
            until = time.monotonic() + GRACE
            while self.has_left_any() and time.monotonic() < until:
                if number == _signal.SIGKILL:
                    if not TREE and self.has_exited():
                        return  # no one resists; what is left of its group waits for init to reap it
                    self.send_to_all(number)  # what was started between the look and the blow
                watch.pause()

    def exit_code(self) -> int:
        """Reap it; give the code that a shell would give."""
        if self.status is None:
            pid, self.status = os.waitpid(self.pid, os.WNOHANG)
            if not pid:  # not even SIGKILL ended it: it hangs in the kernel
                return 128 + int(_signal.SIGKILL)
        code = os.waitstatus_to_exitcode(self.status)
        return code if code >= 0 else 128 - code


class Watch:
    """What this process waits for: signals, and the end of the host."""

    def __init__(self, leash: int) -> None:
        self.poll = select.poll()
        self.hosts = [leash]
        parent = os.getppid()
        try:
            # A host that forks without exec gives its end of the leash to a child that may outlive it.
            handle = os.pidfd_open(parent)
            if os.getppid() == parent:
                self.hosts.append(handle)
        except (AttributeError, OSError):
            pass
        for descriptor in self.hosts:
            self.poll.register(descriptor, select.POLLIN)
        self.signals, write_end = os.pipe()
        os.set_blocking(self.signals, False)
        os.set_blocking(write_end, False)
        self.poll.register(self.signals, select.POLLIN)
        _signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        for number in (*FORWARDED, _signal.SIGCHLD):
            _signal.signal(number, lambda *_: None)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, ())

    def wait(self) -> tuple[bool, bytes]:
        """Wait for something to happen; give whether the host is gone, and the signals that came."""
        ready = {descriptor for descriptor, _ in self.poll.poll()}
        came = os.read(self.signals, 4096) if self.signals in ready else b""
        return any(self._is_gone(descriptor) for descriptor in self.hosts if descriptor in ready), came

    def last_look(self) -> bool:
        """Tell whether the host is gone, or goes at this moment."""
        self.poll.unregister(self.signals)
        return any(self._is_gone(descriptor) for descriptor, _ in self.poll.poll(LAST_LOOK))

    def pause(self) -> None:
        """Wait a moment, or until a child ends."""
        ready = select.select([self.signals], [], [], PERIOD)[0]
        if ready:
            os.read(self.signals, 4096)

    def _is_gone(self, descriptor: int) -> bool:
        if descriptor != self.hosts[0]:
            return True
        try:
            return not os.read(descriptor, 4096)
        except OSError:  # no leash at all
            return True


def environment() -> dict[str, str]:
    """Give the environment that this process was started with."""
    values = dict(os.environ)
    # Python itself sets LC_CTYPE where the locale is C (PEP 538); `-I` leaves no way to tell it not to.
    try:
        with open("/proc/self/environ", "rb") as file:
            given = file.read().split(b"\0")
    except OSError:
        return values
    if not any(entry.startswith(b"LC_CTYPE=") for entry in given):
        values.pop("LC_CTYPE", None)
    return values


def adopt_orphans() -> None:
    """Make what the runtime's children leave behind this process's own, where the system can."""
    if not TREE:
        return
    try:
        import _ctypes  # a third of what `ctypes` costs

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]  # None: this program
        _ctypes.call_function(prctl, (PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    except (ImportError, AttributeError, OSError):
        pass


def close_all_but(leash: int) -> None:
    """Close every descriptor that was inherited, but the standard ones and the leash."""
    for name in os.listdir("/dev/fd"):
        if int(name) > 2 and int(name) != leash:
            try:
                os.close(int(name))
            except OSError:  # the listing's own
                pass
    os.set_inheritable(leash, False)


def let_go_of_pipes() -> None:
    """Leave stdin and stdout to the runtime alone, so that the host sees it close them."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)


def remove(folders: list[str]) -> None:
    """Remove the folders with all that is in them."""
    if folders:
        import shutil  # costs more than all else here, and is needed once, at the end

        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


def say(text: str) -> None:
    """Write a line to stderr, where there still is one."""
    try:
        os.write(2, f"opask guard: {text}\n".encode(errors="surrogateescape"))
    except OSError:
        pass


def read(arguments: list[str]) -> tuple[int, list[str], list[str]] | None:
    """Read the command line: the leash, the folders, and the runtime's argv; None where it is wrong."""
    leash: int | None = None
    folders: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            argv = list(rest)
            return (leash, folders, argv) if leash is not None and argv else None
        value = next(rest, "")
        if argument == "--leash" and value.isdecimal() and int(value) > 2:
            leash = int(value)
        elif argument == "--remove" and value:
            folders.append(value)
        else:
            return None
    return None


def guard(leash: int, folders: list[str], argv: list[str]) -> int:
    """Run a program for as long as the host lives; give its exit code."""
    try:
        close_all_but(leash)
    except OSError as error:
        say(f"descriptor {leash} is no leash: {error.strerror}")
        return 125
    adopt_orphans()
    watch = Watch(leash)
    try:
        child = Child(argv)
    except OSError as error:
        say(f"cannot start {argv[0]}: {error.strerror}")
        return 127 if isinstance(error, FileNotFoundError) else 126
    let_go_of_pipes()
    gone = False
    while not gone and not child.has_exited():
        gone, came = watch.wait()
        for number in came:
            if number in FORWARDED:
                child.send(number)
    child.end(watch)
    code = child.exit_code()
    # A dying host's pipes close one by one: the runtime may have seen its input end before the leash does.
    if folders and (gone or watch.last_look()):
        remove(folders)
    return code


def main(arguments: list[str]) -> int:
    """Run as the module's docstring says; give the exit code."""
    parts = read(arguments)
    if parts is None:
        say("usage: guard.py --leash FD [--remove DIR]... -- ARGV...")
        return 125
    return guard(*parts)


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
