"""What differs from one ACP agent to the next, in one place.

The protocol leaves open how an agent spells an MCP tool, in which field it says so, how it reports arguments, whether
it has an ask tool of its own, and what it needs at launch. `Profile` is what holds for an agent that nobody has
probed; the profile of a known runtime sets its fields and overrides its methods.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from attrs import Factory, frozen

from opask.events import AskToolMissing
from opask.launch import Change, Endpoint, LaunchPlan
from opask.names import ToolName, sanitise
from opask.permissions import PermissionOption
from opask_acp.envelopes import bare, whole_object
from opask_acp.jsonrpc import Message
from opask_acp.toolcalls import ToolCall

if TYPE_CHECKING:
    from opask_acp.launch import Planning

__all__ = ["Named", "Place", "Profile"]

Place: TypeAlias = tuple[str, ...]
"""Where something stands in a tool call, by the protocol's own names."""

_NATIVE: Final = frozenset(
    {"AskUserQuestion", "ask", "ask_user", "question", "request_user_input", "request_user_input_async"}
)
_WRITTEN: Final[tuple[Place, ...]] = (
    ("name",),
    ("_meta", "toolName"),
    ("_meta", "tool_name"),
    ("_meta", "claudeCode", "toolName"),
)
_TEMPLATES: Final = (
    "mcp__{server}__{tool}",
    "mcp_{server}_{tool}",
    "mcp__{server}_{tool}",
    "{server}_{tool}",
    "{server}__{tool}",
    "{server}-{tool}",
    "{server}/{tool}",
    "mcp.{server}.{tool}",
    "mcp_{server}.{tool}",
    "{tool} ({server} MCP Server)",
)
_ANSWER_OPTION: Final = re.compile(r"q\d+_(?:opt_\d+|skip|other)")
_UNKNOWNS: Final = (
    "whether this agent gives the ask tool to its model at all: some accept MCP servers and ignore them",
    "how long it lets one call wait: a question may be cut short before the session's own limit",
    "whether it has an ask tool of its own: one by a name that is not known here is not denied by itself",
    "how it spells the ask tool: a permission request without the tool's name in a field for it is left to the host",
)


@frozen
class Named:
    """A name that a tool call was reported under.

    Args:
        spelling: the name as it stands there.
        written: whether the runtime wrote it, so that the model cannot have made it up.
    """

    spelling: str
    written: bool


@frozen(kw_only=True)
class Profile:
    """How one runtime speaks ACP.

    Args:
        runtime: its name in the registry and on the command line.
        templates: how it may spell an MCP tool, likeliest first; see `opask.names.ToolName.spelled`.
        native: the spellings of its own ask tools.
        written: where the runtime itself, and never the model, writes a tool's name: only these let a call through.
        titles: where a tool's name may stand beside that; good enough to tell of a call, or to deny it.
        agent: where the call of a sub-agent names the call that started it.
        delegates: tools that start a sub-agent, of a runtime that never announces a sub-agent's calls: one that
            nothing but a permission request tells of is a sub-agent's then.
        by_order: whether it never reports a call's arguments, so that only the order tells which ask is whose.
        unnamed: whether it reports calls under no name that can be known, so that one with exactly an ask's questions
            is taken for that ask's.
        elicitation: whether it may be told that forms can be filled in here. Only where that brings no ask tool of
            its own into being.
        elicits: who is behind a form that it sends: its own ask tool, an MCP server, or whoever made the call.
        clause_by: who says how the operator is reached: the first prompt, or the launch (`pull` sees to it then).
        transports: how it reaches an MCP server named in-band, preferred first.
        hold_prompt: whether the first prompt has to wait until the runtime has listed the tool.
        lists_apart: whether it takes the tool's list by a process that ends then; that nothing listed the tool is no
            sign of its missing then, and the first prompt must not wait for it.
        names_folder: whether the folder that the agent works in has to be named in-band.
        own_changes: the levers that `pull` may pull, by name.
        unknowns: what nobody has seen of it, in sentences for a person.
        gone: what to look at where it ends before it gives a session, in a sentence for a person; empty for nothing.
        floorless: why it cannot hold a read-only floor, in words that follow its name: what it changes without asking.
    """

    runtime: str = "acp"
    templates: tuple[str, ...] = _TEMPLATES
    native: frozenset[str] = _NATIVE
    written: tuple[Place, ...] = _WRITTEN
    titles: tuple[Place, ...] = (("title",),)
    agent: Place = ("_meta", "claudeCode", "parentToolUseId")
    delegates: frozenset[str] = frozenset()
    by_order: bool = False
    unnamed: bool = True
    elicitation: bool = False
    elicits: Literal["native", "server", "caller"] = "caller"
    clause_by: Literal["prompt", "launch"] = "prompt"
    transports: tuple[Literal["stdio", "http"], ...] = ("stdio", "http")
    hold_prompt: bool = True
    lists_apart: bool = False
    names_folder: bool = True
    own_changes: Mapping[str, Change] = Factory(dict)
    unknowns: tuple[str, ...] = _UNKNOWNS
    gone: str = ""
    floorless: str = "whether it asks permission for everything that it changes, nobody has seen"

    # -- names ----------------------------------------------------------------------------------------------------

    def mangled(self, part: str) -> str:
        """Return the name of a server, or of a tool, as it stands in a spelling."""
        return sanitise(part, "A-Za-z0-9_-")

    def spellings(self, name: ToolName) -> tuple[str, ...]:
        """Return every way in which the runtime may spell an MCP tool, likeliest first."""
        return tuple(name.spelled(template, self.mangled) for template in self.templates)

    def can_spell(self, server: str, spelling: str) -> bool:
        """Tell whether some tool of a server could get a spelling, whatever that tool is called."""
        for template in self.templates:
            before, _, behind = template.partition("{tool}")
            before = before.format(server=self.mangled(server))
            behind = behind.format(server=self.mangled(server))
            if (
                spelling.startswith(before)
                and spelling.endswith(behind)
                and len(spelling) > len(before + behind)
            ):
                return True
        return False

    # -- tool calls -----------------------------------------------------------------------------------------------

    def names(self, call: ToolCall) -> Iterator[Named]:
        """Give the names that a call was reported under, the most telling first."""
        for places, written in ((self.written, True), (self.titles, False)):
            for place in places:
                spelling = call.at(*place)
                if isinstance(spelling, str) and spelling:
                    yield Named(spelling, written)
        server, tool = call.at("rawInput", "server"), call.at("rawInput", "tool")
        if isinstance(server, str) and isinstance(tool, str):
            is_told = call.at("_meta", "is_mcp_tool_call") is True
            yield Named(ToolName(server, tool).spelled(self.templates[0], self.mangled), is_told)

    def arguments(self, call: ToolCall) -> Iterator[Mapping[str, Any]]:
        """Give what a call's arguments may be, as far as they are there in whole."""
        yield from bare(call.raw_input)
        for text in dict.fromkeys((*call.texts[:1], "".join(call.texts))):
            if (whole := whole_object(text)) is not None:
                yield whole

    def call_id(self, meta: Mapping[str, Any]) -> str | None:
        """Return the id of the tool call that an ask is made by, where the ask's own ``_meta`` carries it."""
        return None

    # -- permission -----------------------------------------------------------------------------------------------

    def is_question(self, call: ToolCall, options: Sequence[PermissionOption]) -> bool:
        """Tell whether a permission request is the runtime's own question in disguise, its answers as options."""
        if call.at("_meta", "qwenInteractionKind") == "user_question" or "qwenQuestions" in call.meta:
            return True
        return any(_ANSWER_OPTION.fullmatch(option.id) for option in options)

    # -- launch ---------------------------------------------------------------------------------------------------

    def clause(self, endpoint: Endpoint | None) -> str:
        """Return what the agent is to be told of how the operator is reached; of nobody, where there is no endpoint."""
        if endpoint is None:
            return (
                "No human operator can be reached in this session, and a question in your text is read by nobody "
                "while you work. Proceed alone: where something is left open, choose the most reasonable and least "
                "destructive way, go on, and say at the end what you assumed."
            )
        tool = ToolName(endpoint.server, endpoint.tool)
        return (
            f"A human operator can be reached while you work, through the tool {self.tool_words(tool)}: call it "
            "whenever you need a decision, a preference or a fact that only the operator has, and wait for its "
            "result. No other tool reaches the operator, and a question in your text is read by nobody while you "
            "work."
        )

    def tool_words(self, tool: ToolName) -> str:
        """Return what to call an MCP tool when speaking of it to the model."""
        spelling = self.spellings(tool)[0]
        if len(self.templates) == 1:
            return spelling
        return f"{tool.tool} of the MCP server {tool.server} (it may be listed as {spelling})"

    def pull(self, planning: Planning) -> None:
        """Pull the runtime's own levers on a launch, operator there or not. There are none in the protocol."""

    def session_meta(self, plan: LaunchPlan) -> Mapping[str, Any]:
        """Return the ``_meta`` with which a session is opened."""
        return {}

    def is_command(self, prompt: str) -> bool:
        """Tell whether a prompt is a command to the runtime and not to its model, which nothing may be put behind."""
        return prompt.lstrip().startswith("/")

    def missing(self, command: str, answer: str, server: str) -> AskToolMissing | None:
        """Read from the answer to a command why the ask tool is missing; None where it does not say so.

        Args:
            command: the prompt that was a command.
            answer: all that was said in its turn.
            server: the ask server's name.
        """
        return None

    def unfit(self, initialized: Message) -> str | None:
        """Tell from its answer to ``initialize`` why an agent is none that this profile is of; None where it may be."""
        return None

    def version(self, initialized: Message) -> str | None:
        """Return the runtime's version from what it answers to ``initialize``."""
        for name in ("agentInfo", "info"):
            info = initialized.get(name)
            version = info.get("version") if isinstance(info, Mapping) else None
            if isinstance(version, str) and version:
                return version
        return None
