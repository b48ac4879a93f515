"""The contract between the core and a runtime's adapter, and how an installed adapter is found.

Adapters are sans-IO: they are told what was seen and say what it means and what to send; sockets, processes
and clocks belong to the session and the driver.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from opask.errors import AdapterError, UnknownRuntimeError
from opask.events import Event
from opask.launch import Endpoint, LaunchPlan, LaunchRequest
from opask.outcomes import Outcome
from opask.permissions import PermissionRequested, Verdict
from opask.questions import Ask

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

__all__ = [
    "Adapter",
    "CommandLineAdapter",
    "Conversation",
    "DuplexConversation",
    "Message",
    "adapter",
    "installed_runtimes",
]

Message: TypeAlias = Mapping[str, Any]
"""One JSON message of a runtime's protocol."""

_GROUP = "opask"


@runtime_checkable
class Conversation(Protocol):
    """One process of a runtime, or one ACP session: what goes on in it, as events.

    Every method is called under the session's lock, by one thread at a time, and neither blocks nor raises for
    what a runtime sends: an unreadable message is an event.
    """

    def receive(self, message: Message | str | bytes, /) -> Sequence[Event]:
        """Take in what the runtime said: a message, or one line of its output as it was."""
        ...

    def ask_arrived(self, ask: Ask, /) -> Sequence[Event]:
        """Take in an ask that reached the bridge; return its `QuestionAsked`, correlated if it can be.

        The start of the turn that it is in may come before it, where nothing had told of that yet.
        """
        ...

    def ask_settled(self, ask: Ask, outcome: Outcome, /) -> Sequence[Event]:
        """Take in how an ask ended; the session makes the `QuestionResolved` event itself."""
        ...

    def decide(self, request: PermissionRequested, /) -> Verdict:
        """Deny the native ask tool, allow exactly the supplied one, defer the rest."""
        ...

    def reply(self, request: PermissionRequested, verdict: Verdict, /) -> Message:
        """Return the verdict in the runtime's own wire form; `Defer` is written as a denial."""
        ...

    def prompt(self, text: str, /) -> Sequence[Message]:
        """Return the messages that give the agent its next prompt; none where it is in the argv.

        Raises:
            LaunchError: this process takes no (further) prompt.
        """
        ...

    def interrupt(self) -> Sequence[Message]:
        """Return the messages that end the running turn; none where only a signal does."""
        ...

    def end_turn(self, reason: Literal["ended", "interrupted", "exited"], /) -> Sequence[Event]:
        """Take in that the turn is over in a way that the runtime did not say itself."""
        ...


@runtime_checkable
class DuplexConversation(Conversation, Protocol):
    """A conversation in a protocol in which both sides make requests, and which begins with a handshake.

    What `prompt`, `interrupt` and `reply` return is to be sent as ever. A prompt that comes before the handshake is
    done is kept, and is among what is `outgoing` then.
    """

    def outgoing(self) -> Sequence[Message]:
        """Return the messages that are due, each once: the handshake's next, and answers to the runtime's requests.

        To be sent before anything is received, and again after everything that was.
        """
        ...

    def sent(self, message: Message | str | bytes, /) -> Sequence[Event]:
        """Take in a message that was sent and did not come from here: by a client of the host's, or in a replay."""
        ...

    def tool_listed(self) -> Sequence[Event]:
        """Take in that the runtime itself has taken the ask tool's list."""
        ...


@runtime_checkable
class Adapter(Protocol):
    """One runtime's adapter.

    Attributes:
        runtime: its name in the registry and on the command line.
    """

    runtime: str

    def plan_launch(self, request: LaunchRequest, endpoint: Endpoint | None, /) -> LaunchPlan:
        """Merge the ask tool into the host's own launch.

        Args:
            request: the host's launch.
            endpoint: where the tool is served; None where nobody is there to ask, so that nothing is attached
                and the native tool is denied all the same.

        Raises:
            LaunchError: the host's own arguments stand against it.
            WaitTooLongError: the endpoint's wait cannot be had.
        """
        ...

    def conversation(self, plan: LaunchPlan, /) -> Conversation:
        """Return the conversation with a process that is started by this plan."""
        ...


@runtime_checkable
class CommandLineAdapter(Adapter, Protocol):
    """An adapter that knows how its runtime is started for one prompt, as ``opask run`` does it.

    One whose program may be another product altogether, or is launched otherwise at some versions, also has
    ``version_argv(program, arguments) -> Sequence[str]``, from the user's own arguments the command that tells a version,
    empty where no launch depends on it; it is run before the launch then, and `LaunchRequest.version` is what it said.

    One whose `default_argv` starts a process for one prompt alone, and that can also be started for several, has
    ``conversation_argv(program, arguments) -> Sequence[str]``: a launch whose prompts all come by messages.

    Attributes:
        program: the runtime's program, as it is found on the PATH; empty where only the user knows which.
    """

    program: str

    def default_argv(self, program: str, prompt: str, arguments: Sequence[str], /) -> Sequence[str]:
        """Return a launch by which the agent gets a prompt and this adapter can hear it.

        Args:
            program: the runtime's program, or the path of one.
            prompt: what the agent is to do; of any text, one that looks like an option too.
            arguments: the user's own arguments for the runtime.
        """
        ...


def _entry_points() -> EntryPoints:
    from importlib.metadata import entry_points  # 20 ms, and most hosts import their adapter directly

    return entry_points(group=_GROUP)


def installed_runtimes() -> tuple[str, ...]:
    """Return the names of the runtimes that an installed adapter serves, sorted. Loads none of them."""
    return tuple(sorted({entry.name for entry in _entry_points()}))


@functools.cache
def adapter(runtime: str) -> Adapter:
    """Return the adapter of a runtime; only that adapter's package is loaded.

    Raises:
        UnknownRuntimeError: no installed package registers one.
        AdapterError: the package cannot be loaded, two packages claim the name, or it does not keep the contract.
    """
    from opask.hooks import load_adapter  # pluggy is loaded only where an adapter is looked up by name

    found = [entry for entry in _entry_points() if entry.name == runtime]
    if not found:
        raise UnknownRuntimeError(runtime, installed_runtimes())
    if len({entry.value for entry in found}) > 1:
        values = ", ".join(sorted(entry.value for entry in found))
        raise AdapterError(f"several packages serve runtime {runtime!r} ({values}); uninstall all but one")
    loaded = load_adapter(found[0])
    if not isinstance(loaded, Adapter) or loaded.runtime != runtime:
        raise AdapterError(
            f"{found[0].value} registers {runtime!r} but gives {loaded!r}, which is no adapter of that runtime; "
            "see opask.adapters.Adapter"
        )
    return loaded
