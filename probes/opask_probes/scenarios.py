"""The scenarios of a probe that go well: an agent asks, and gets its answer. Written once, for every runtime."""

from __future__ import annotations

import sys

import anyio

from opask.events import NativeAskRefused, ToolAnnounced
from opask.questions import Ask

from . import foreign
from .case import Case
from .playing import Operator, Take
from .scripts import DATABASE, NAME, PARTS, REPORT, SUB, asked, failed, given, says, two_given
from .verdicts import answered, correlated, heard, of_a_sub_agent, reached_host, sound, unasked

__all__ = [
    "bypass",
    "foreign_server",
    "free_text",
    "multi",
    "native",
    "own_question",
    "own_tool",
    "single",
    "sub_agent",
    "two",
]

_OWN_WORDS = "MariaDB, the one in Zürich"
_TOGETHER_S = 15.0  # much more than it takes, on a machine that is busy too


async def single(case: Case) -> list[str]:
    """Choose one of several options."""
    answer = {DATABASE: "SQLite"}
    take = await case.run(
        says("I ask.", case.ask(DATABASE), expect=case.offer),
        says("The operator said {{result}}", expect=given("SQLite", lacks=("PostgreSQL",))),
        operator=Operator(answer),
    )
    return [*sound(take), *answered(take, answer), *correlated(take), *heard(take, "SQLite")]


async def multi(case: Case) -> list[str]:
    """Choose two of three options."""
    answer = {PARTS: ["API", "Docs"]}
    take = await case.run(
        says("I ask.", case.ask(PARTS), expect=case.offer),
        says("The operator said {{result}}", expect=given("API", "Docs", lacks=("Web page",))),
        operator=Operator(answer),
    )
    return [*sound(take), *answered(take, answer), *correlated(take), *heard(take, "API", "Docs")]


async def free_text(case: Case) -> list[str]:
    """Answer with what is none of the options."""
    answer = {NAME: _OWN_WORDS}
    take = await case.run(
        says("I ask.", case.ask(NAME), expect=case.offer),
        says("The operator said {{result}}", expect=given(_OWN_WORDS, lacks=("Atlas", "Boreas"))),
        operator=Operator(answer),
    )
    return [*sound(take), *answered(take, answer), *correlated(take), *heard(take, _OWN_WORDS)]


async def native(case: Case) -> list[str]:
    """Call the runtime's own ask tool, though it is not offered; then the right one."""
    assert case.profile.native is not None
    answer = {NAME: "Boreas"}
    call = case.profile.native(DATABASE)
    operator = Operator({**answer, DATABASE: "SQLite"})
    take = await case.run(
        says("I ask.", call, expect=case.offer),
        says("I ask again.", case.ask(NAME), expect=failed(lacks=("PostgreSQL", "SQLite"))),
        says("The operator said {{result}}", expect=given("Boreas")),
        operator=operator,
    )
    problems = [*sound(take), *answered(take, answer), *correlated(take)]
    if not take.of(NativeAskRefused):
        problems.append(f"nothing tells that {call.tool} was refused")
    return problems


async def own_tool(case: Case) -> list[str]:
    """Call the runtime's own ask tool, where no host has taken it away."""
    assert case.profile.native is not None
    take = await own_question(case)
    return [*sound(take), *reached_host(take, case.profile.native(DATABASE).tool)]


async def own_question(case: Case) -> Take:
    """Run a runtime as a host without opask does, its agent asking by the runtime's own tool."""
    assert case.profile.native is not None
    return await case.run(
        says("I ask.", case.profile.native(DATABASE)),
        says("I was told {{result}}", expect=given(error=None)),
        operator=None,
    )


async def two(case: Case) -> list[str]:
    """Ask twice in one message."""
    answers = {PARTS: ["Docs"], NAME: "Boreas"}
    together, first = anyio.Event(), anyio.Event()

    async def wait_for_the_other(ask: Ask) -> None:
        if first.is_set():
            together.set()
        first.set()
        if case.row.parallel == "concurrent":
            with anyio.move_on_after(_TOGETHER_S):
                await together.wait()

    take = await case.run(
        says("I ask.", case.ask(PARTS), case.ask(NAME), expect=case.offer),
        says("The operator said {{result}}", expect=two_given("Docs", "Boreas")),
        operator=Operator(answers, before=wait_for_the_other),
    )
    problems = [*sound(take), *answered(take, *({text: word} for text, word in answers.items()))]
    problems += [*correlated(take), *heard(take, "Docs", "Boreas")]
    if case.row.parallel == "concurrent" and take.opened < 2:
        problems.append("the row says that two calls of one message run at once, and they did not")
    if case.row.parallel == "serial" and take.opened > 1:
        problems.append(
            "the row says that two calls of one message run one after the other, and they did not"
        )
    return problems


async def sub_agent(case: Case) -> list[str]:
    """Ask from a sub-agent."""
    assert case.profile.sub_agent is not None
    answer = {PARTS: ["Docs"]}
    take = await case.run(
        says("I delegate.", case.profile.sub_agent(SUB), expect=case.offer),
        says("It reports {{result}}", expect=given("Docs")),
        sub=(
            says("I ask.", case.ask(PARTS)),
            says(f"The operator said {{{{result}}}}. {REPORT}", expect=given("Docs", lacks=("API",))),
        ),
        operator=Operator(answer),
    )
    told = case.row.subagents_told is not False
    problems = [*sound(take), *answered(take, answer), *heard(take, "Docs")]
    return [*problems, *correlated(take, unknown=0 if told else 1), *of_a_sub_agent(take, told=told)]


async def bypass(case: Case) -> list[str]:
    """Ask with all permissions bypassed."""
    answer = {PARTS: ["Web page"]}
    take = await case.run(
        says("I ask.", case.ask(PARTS), expect=case.offer),
        says("The operator said {{result}}", expect=given("Web page", lacks=("API", "Docs"))),
        operator=Operator(answer),
        mode="bypass",
    )
    problems = [*sound(take), *answered(take, answer), *correlated(take), *heard(take, "Web page")]
    return [*problems, *unasked(take)]


async def foreign_server(case: Case) -> list[str]:
    """Call a tool of another MCP server, whose name is nearly the ask tool's; then the right one."""
    name, answer = case.profile.near_miss, {PARTS: ["Docs"]}
    tool = case.spelled(name)
    command = (sys.executable, "-I", "-S", str(foreign.__file__), "ask_user_question")
    results = {True: failed(lacks=(foreign.ANSWER,)), False: given(foreign.ANSWER), None: given(error=None)}
    take = await case.run(
        says("I call the other.", case.call(tool, asked(DATABASE)), expect=case.offer),
        says(
            "I ask.",
            case.ask(PARTS),
            expect=results[case.row.permission.asked],
        ),
        says("The operator said {{result}}", expect=given("Docs")),
        operator=Operator(answer),
        server=(name, command),
    )
    problems = [*sound(take), *answered(take, answer), *correlated(take), *heard(take, "Docs")]
    if any(call.ask is not None for call in take.of(ToolAnnounced) if call.tool == tool):
        problems.append(f"{tool} was taken for the ask tool")
    return problems
