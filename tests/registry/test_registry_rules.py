"""Each rule of the registry's linter, with what makes it fire and what nearly does."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
import tomlkit
from attrs import define, field

from opask.adapters import Adapter
from opask.errors import UnknownRuntimeError
from opask.events import (
    AskToolMissing,
    Event,
    NativeAskRefused,
    QuestionAsked,
    QuestionCorrelated,
    SessionReady,
    ToolAnnounced,
    ToolFinished,
)
from opask.launch import Endpoint, LaunchPlan, LaunchRequest
from opask.names import ToolName
from opask.outcomes import Outcome
from opask.permissions import Allow, PermissionRequested, Verdict
from opask.questions import Ask
from opask.registry_lint import RULES, Finding, Rule, lint, machine_names
from opask.registry_lint.evidence import Evidence
from opask.registry_lint.rule import Problem, RuntimeSubject

TODAY = date(2026, 11, 30)
ASK = "acme.opask.ask_user_question"
ROUTE = "acme/mcp-stdio"
SEEN = "acme/mcp-stdio@1.2.3"
RECORDING = "probes/recordings/acme/1.2.3/mcp-stdio.jsonl"


class AcmeConversation:
    """A conversation of a made-up runtime, in messages of one key each."""

    def __init__(self) -> None:
        self.calls: dict[str, str] = {}

    def receive(self, message: Any, /) -> Sequence[Event]:
        if "boom" in message:
            raise ZeroDivisionError
        if "ready" in message:
            return [SessionReady(questions=True, version=message["ready"])]
        if "missing" in message:
            return [AskToolMissing(reason="failed")]
        if "call" in message:
            tool, call = message["tool"], message["call"]
            self.calls[call] = tool
            ask: Literal["supplied", "native"] | None = (
                "supplied" if "ask_user" in tool else "native" if "Ask" in tool else None
            )
            return [ToolAnnounced(tool=tool, tool_call_id=call, ask=ask)]
        if "done" in message:
            return [
                ToolFinished(
                    tool=self.calls[message["done"]], tool_call_id=message["done"], is_error=message["failed"]
                )
            ]
        if "permit" in message:
            tool = self.calls[message["permit"]]
            return [PermissionRequested(request_id="r1", tool=tool, ask="native" if "Ask" in tool else None)]
        if "form" in message:
            return [NativeAskRefused(tool=self.calls[message["form"]], channel="elicitation")]
        if "late" in message:
            return [QuestionCorrelated(question_id="q1", tool_call_id=message["late"])]
        return []

    def ask_arrived(self, ask: Ask, /) -> Sequence[Event]:
        call = ask.meta.get("call")
        return [
            QuestionAsked(
                question_id=ask.id, tool_call_id=call, questions=ask.questions, asked_at=ask.asked_at
            )
        ]

    def ask_settled(self, ask: Ask, outcome: Outcome, /) -> Sequence[Event]:
        return []

    def decide(self, request: PermissionRequested, /) -> Verdict:
        return Allow("made up")

    def reply(self, request: PermissionRequested, verdict: Verdict, /) -> Any:
        return {}

    def prompt(self, text: str, /) -> Sequence[Any]:
        return []

    def interrupt(self) -> Sequence[Any]:
        return []

    def end_turn(self, reason: str, /) -> Sequence[Event]:
        return []


@define
class AcmeAdapter:
    """The made-up runtime's adapter, with its own mangling and its own levers."""

    runtime: str = "acme"
    changes: tuple[str, ...] = ("ask-native-denied", "call-timeout")

    def plan_launch(self, request: LaunchRequest, endpoint: Endpoint | None, /) -> LaunchPlan:
        return LaunchPlan(argv=request.argv, env=request.env)

    def conversation(self, plan: LaunchPlan, /) -> AcmeConversation:
        return AcmeConversation()

    def spellings(self, name: ToolName, /) -> dict[str, str]:
        spelled = name.spelled("acme.{server}.{tool}")
        return {"model": spelled, "events": spelled}


def entry(source: str, message: Any, t: float = 0.5) -> dict[str, Any]:
    """Give one entry of a recording."""
    return {"t": t, "from": source, "message": message}


@define
class Bench:
    """A registry of one verified route with all its evidence, on which every rule holds until it is changed."""

    folder: Path
    adapter: AcmeAdapter | None = field(factory=AcmeAdapter)
    installed: dict[str, str] = field(factory=dict)
    names: tuple[str, ...] = ("grethe",)
    digest: str | None = None
    text: str | None = None
    document: dict[str, Any] = field(init=False)
    lines: list[Any] = field(init=False)
    others: dict[str, list[Any]] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        observation = {
            "version": "1.2.3",
            "date": TODAY,
            "platform": "linux-x86_64",
            "probe": "probes/acme.py",
            "recording": RECORDING,
            "status": "verified",
        }
        route = {
            "id": "mcp-stdio",
            "status": "verified",
            "spellings": {"model": ASK, "events": ASK},
            "arguments": "call: arguments",
            "correlation": "exact-id",
            "native_ask": {"names": ["AskAcme"], "denied_by": "ask-native-denied"},
            "permission": {"asked": False},
            "wait": {"default_s": 60},
            "observations": [observation],
        }
        runtime = {
            "title": "Acme",
            "adapter": "acme",
            "package": {"ecosystem": "npm", "name": "acme", "version": "1.2.3"},
            "routes": [route],
        }
        self.document = {"schema_version": 1, "data_version": 1, "runtimes": {"acme": runtime}}
        self.lines = [
            {
                "runtime": "acme",
                "version": "1.2.3",
                "route": "mcp-stdio",
                "date": TODAY.isoformat(),
                "command": ["acme", "--config", "{session}/config.json"],
            },
            entry("runtime", {"ready": "1.2.3"}),
            entry("bridge", {"served": {"method": "tools/list", "client": None}}),
            entry("runtime", {"call": "c1", "tool": ASK}),
            entry("bridge", {"ask": {"question_id": "q1", "questions": [QUESTION], "meta": {"call": "c1"}}}),
            entry(
                "bridge",
                {"outcome": {"question_id": "q1", "outcome": "answered", "answers": {"Which?": "B"}}},
            ),
            entry("runtime", {"done": "c1", "failed": False, "result": '{"answers": {"Which?": "B"}}'}),
            entry("host", {"bye": True}),
        ]

    @property
    def runtime(self) -> dict[str, Any]:
        found: dict[str, Any] = self.document["runtimes"]["acme"]
        return found

    @property
    def route(self) -> dict[str, Any]:
        found: dict[str, Any] = self.runtime["routes"][0]
        return found

    @property
    def seen(self) -> dict[str, Any]:
        found: dict[str, Any] = self.route["observations"][0]
        return found

    def rename(self, id_: str) -> None:
        """Add a runtime without any evidence."""
        self.document["runtimes"][id_] = {"title": id_, "routes": [{"id": "mcp-stdio", "status": "untested"}]}

    def except_from(self, rule: str, where: str) -> None:
        """Accept what a rule finds."""
        self.document["exceptions"] = [{"rule": rule, "where": where, "reason": "made up"}]

    def lint(self, rules: Sequence[Rule[Any]] = RULES) -> list[Finding]:
        """Write everything down and lint it."""
        (self.folder / "probes").mkdir(exist_ok=True)
        (self.folder / "probes/acme.py").touch()
        for path, lines in {RECORDING: self.lines, **self.others}.items():
            data = "".join(
                f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines
            ).encode()
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_bytes(data)
            if path == RECORDING:
                self.seen["sha256"] = self.digest or hashlib.sha256(data).hexdigest()
                for seen in self.route["observations"][1:]:
                    seen["sha256"] = self.seen["sha256"]
        registry = self.folder / "registry.toml"
        registry.write_text(self.text if self.text is not None else tomlkit.dumps(self.document))
        return lint(
            registry,
            today=TODAY,
            names=self.names,
            installed=self.installed,
            find_adapter=self.find_adapter,
            rules=rules,
        )

    def find_adapter(self, name: str) -> Adapter:
        """Give the made-up adapter."""
        if self.adapter is None or name != "acme":
            raise UnknownRuntimeError(name, ())
        return self.adapter


QUESTION = {"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}
Change = Callable[[Bench], object]


def older(bench: Bench, version: str = "1.0.0", **values: Any) -> dict[str, Any]:
    """Add a second observation, after the first one."""
    seen = {**bench.seen, "version": version, **values}
    bench.route["observations"].append(seen)
    return seen


def together(*changes: Change) -> Change:
    """Make one change of several."""

    def change(bench: Bench) -> None:
        for one in changes:
            one(bench)

    return change


def say(bench: Bench, text: str) -> None:
    """Have the runtime say something harmless for the adapter."""
    bench.lines.append(entry("runtime", {"text": text}))


def refute(bench: Bench) -> None:
    """Call the route refuted, and its recording one of an ask that was not answered."""
    bench.route["status"] = bench.seen["status"] = "refuted"
    bench.lines[5]["message"]["outcome"] |= {"outcome": "timed_out", "answers": None}


def refute_native(bench: Bench) -> None:
    """Have the route be the native ask tool, refuted: its call comes to its end, and the host is asked nothing."""
    bench.route.update(id="native", status="refuted", spellings={"model": "AskAcme"})
    bench.seen["status"] = "refuted"
    bench.lines[0].update(route="native", questions=False)
    bench.lines[1:] = [
        entry("runtime", {"call": "c1", "tool": "AskAcme"}),
        entry("runtime", {"done": "c1", "failed": False, "result": "You were answered: ."}),
    ]


def untest(bench: Bench) -> None:
    """Call the route and its observation untested."""
    bench.route["status"] = bench.seen["status"] = "untested"


def also_asks_natively(bench: Bench, tool: str) -> None:
    """Have the agent call a native ask tool first."""
    bench.lines.insert(2, entry("runtime", {"call": "c0", "tool": tool}))


# rule -> what makes it fire, by name
FIRES: dict[str, dict[str, Change]] = {
    "schema": {
        "a field that is none": lambda bench: bench.route.update(colour="red"),
        "no TOML": lambda bench: setattr(bench, "text", "[["),
        "a newer schema": lambda bench: bench.document.update(schema_version=2),
        "a lever that is a variable": lambda bench: bench.route["wait"].update(lever="ACME_TIMEOUT=1"),
    },
    "sorted-rows": {"an id that comes before": lambda bench: bench.rename("aardvark")},
    "sorted-observations": {"the newer after the older": lambda bench: older(bench, "1.10.0")},
    "status-has-evidence": {
        "verified without an observation": lambda bench: bench.seen.update(status="untested"),
        "refuted without one": lambda bench: bench.route.update(status="refuted"),
    },
    "status-keeps-up": {"untested, and judged": lambda bench: bench.route.update(status="untested")},
    "verified-is-complete": {
        "no spelling": lambda bench: bench.route["spellings"].pop("model"),
        "no word of the native tool": lambda bench: bench.route.pop("native_ask"),
    },
    "adapter-is-installed": {
        "not installed": lambda bench: setattr(bench, "adapter", None),
        "not named": lambda bench: bench.runtime.pop("adapter"),
    },
    "spellings-are-real": {
        "another separator": lambda bench: bench.route["spellings"].update(model=ASK.replace(".", "-")),
        "of an untested route too": together(
            untest, lambda bench: bench.route["spellings"].update(model="ask")
        ),
    },
    "levers-are-real": {
        "one that the adapter lacks": lambda bench: bench.route["wait"].update(lever="pull-hard")
    },
    "not-stale": {"a day too old": lambda bench: backdate(bench, 181)},
    "no-drift": {
        "the pin went on": lambda bench: bench.runtime["package"].update(version="1.3.0"),
        "another is installed": lambda bench: bench.installed.update(acme="1.2.2"),
    },
    "date-not-in-future": {"tomorrow": lambda bench: backdate(bench, -1)},
    "probe-exists": {"no such file": lambda bench: bench.seen.update(probe="probes/gone.py")},
    "recording-exists": {
        "no such file": lambda bench: bench.seen.update(recording="probes/recordings/gone.jsonl")
    },
    "digest-matches": {"another byte": lambda bench: setattr(bench, "digest", "0" * 64)},
    "recording-is-readable": {
        "no JSON": lambda bench: bench.lines.append("{"),
        "no header": lambda bench: bench.lines.pop(0),
        "empty": lambda bench: bench.lines.clear(),
        "another source": lambda bench: bench.lines.append(entry("elsewhere", {})),
    },
    "recording-is-of-this": {
        "another version": lambda bench: bench.lines[0].update(version="1.2.4"),
        "another route": lambda bench: bench.lines[0].update(route="mcp-http"),
        "another runtime": lambda bench: bench.lines[0].update(runtime="acmeplus"),
        "another day": lambda bench: bench.lines[0].update(date="2026-11-29"),
    },
    "recording-bears-status": {
        "no ask": lambda bench: drop(bench, 4, 5),
        "no answer": lambda bench: bench.lines[5]["message"]["outcome"].update(outcome="timed_out"),
        "an ask of no announced call": lambda bench: bench.lines[4]["message"]["ask"]["meta"].update(
            call="c9"
        ),
        "an ask of no call": lambda bench: bench.lines[4]["message"]["ask"].update(meta={}),
        "an answer that the agent never got": lambda bench: drop(bench, 6),
        "an answer that reached it as an error": lambda bench: bench.lines[6]["message"].update(failed=True),
        "the call's end before its answer": lambda bench: bench.lines.insert(5, bench.lines.pop(6)),
        "another answer than the agent got": lambda bench: bench.lines[5]["message"]["outcome"].update(
            answers={"Which?": "A"}
        ),
        "the tool missing": lambda bench: bench.lines.insert(1, entry("runtime", {"missing": True})),
        "an outcome of no ask": lambda bench: bench.lines[5]["message"]["outcome"].update(question_id="q2"),
        "an outcome that is none": lambda bench: bench.lines[5]["message"]["outcome"].update(outcome="fine"),
        "an empty answer": lambda bench: bench.lines[5]["message"]["outcome"].update(answers={}),
        "refuted, and it works": together(
            lambda bench: bench.route.update(status="refuted"),
            lambda bench: bench.seen.update(status="refuted"),
        ),
        "the native tool refuted, and never called": together(refute_native, lambda bench: drop(bench, 1, 2)),
        "refuted, and another tool called": together(
            refute_native, lambda bench: bench.lines[1]["message"].update(tool="Bash")
        ),
        "refuted, and its host asked for permission": together(
            refute_native, lambda bench: bench.lines.insert(2, entry("runtime", {"permit": "c1"}))
        ),
        "refuted, and its host given a form": together(
            refute_native, lambda bench: bench.lines.insert(2, entry("runtime", {"form": "c1"}))
        ),
        "the native tool verified": together(
            refute_native,
            lambda bench: bench.route.update(status="verified"),
            lambda bench: bench.seen.update(status="verified"),
        ),
    },
    "recording-shows-version": {
        "the runtime says another": lambda bench: bench.lines[1].update(message={"ready": "9.9.9"})
    },
    "recording-shows-spellings": {
        "another spelling in its events": lambda bench: bench.lines[3]["message"].update(
            tool="ask_user_question"
        ),
        "a native tool that the row lacks": lambda bench: also_asks_natively(bench, "AskOther"),
    },
    "recording-is-claimed": {
        "named by no row": lambda bench: bench.others.update({"probes/recordings/stray.jsonl": bench.lines})
    },
    "no-absolute-paths": {
        "of a home": lambda bench: say(bench, "wrote /home/grete/notes.txt"),
        "in a header": lambda bench: bench.lines[0]["command"].append("--config=/opt/acme/config.json"),
        "in a key": lambda bench: bench.lines.append(entry("runtime", {"/srv/data/a": 1})),
        "as a URL": lambda bench: say(bench, "file:///etc/acme/rules"),
        "of Windows": lambda bench: say(bench, r"C:\Users\grete"),
        "a folder alone": lambda bench: say(bench, "cwd is /root"),
        "in a line that is no JSON": lambda bench: bench.lines.append("at /var/lib/acme/x"),
        "in a recording that no row names": lambda bench: bench.others.update(
            {"probes/recordings/stray.jsonl": [entry("host", "/tmp/x")]}
        ),
    },
    "no-keys": {
        "of a model's service": lambda bench: say(bench, "ANTHROPIC_API_KEY=sk-ant-REDACTED"),
        "of a forge": lambda bench: say(bench, "ghp_0123456789abcdefghij"),
        "a bearer token": lambda bench: say(bench, "Authorization: Bearer abcdefghijklmnop"),
        "a signed token": lambda bench: say(bench, "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc"),
    },
    "no-user-names": {
        "an address": lambda bench: say(bench, "signed in as grete@mail.acme.dev"),
        "this user's": lambda bench: say(bench, "Hello Grethe!"),
    },
    "no-vendor-prompts": {
        "a request to a model": lambda bench: say_value(bench, {"model": "m", "messages": []}),
        "one of another dialect": lambda bench: say_value(bench, {"contents": [], "systemInstruction": {}}),
        "and of a third": lambda bench: say_value(bench, {"model": "m", "input": [], "instructions": "x"}),
        "a system prompt by its key": lambda bench: say_value(bench, {"systemPrompt": "Do. " * 100}),
        "a system prompt by its words": lambda bench: say(bench, "You are Acme, an agent that helps. " * 10),
        "a vendor's tools": lambda bench: say_value(
            bench, {"tools": [{"name": "Bash", "description": "Runs.", "input_schema": {}}]}
        ),
    },
    "exception-is-needed": {
        "nothing to except": lambda bench: bench.except_from("not-stale", ROUTE),
        "a rule that is none": lambda bench: bench.except_from("no-fun", ROUTE),
    },
}

# rule -> what comes near, and does not make it fire
QUIET: dict[str, dict[str, Change]] = {
    "schema": {"a claim less": lambda bench: bench.route.pop("wait")},
    "sorted-rows": {"an id that comes after": lambda bench: bench.rename("acme-plus")},
    "sorted-observations": {
        "an older one after": lambda bench: older(bench, "1.2.1"),
        "the same version elsewhere": lambda bench: older(bench, "1.2.3", platform="macos-arm64"),
    },
    "status-has-evidence": {"untested": untest, "refuted": refute},
    "status-keeps-up": {"recorded, and not judged": untest},
    "verified-is-complete": {
        "untested, and little known": together(untest, lambda bench: bench.route.pop("arguments"))
    },
    "adapter-is-installed": {"untested": together(untest, lambda bench: setattr(bench, "adapter", None))},
    "spellings-are-real": {
        "one that the adapter does not compute": lambda bench: bench.route["spellings"].update(
            permission="any"
        ),
        "a route that is not opask's tool": together(
            untest, lambda bench: bench.route.update(id="native", spellings={"model": "AskAcme"})
        ),
    },
    "levers-are-real": {"one that it has": lambda bench: bench.route["wait"].update(lever=["call-timeout"])},
    "not-stale": {
        "180 days": lambda bench: backdate(bench, 180),
        "an older one beside": lambda bench: older(bench, date=TODAY - timedelta(days=900)),
        "untested": together(untest, lambda bench: backdate(bench, 900)),
    },
    "no-drift": {
        "the same is installed": lambda bench: bench.installed.update(acme="1.2.3"),
        "nothing is pinned": lambda bench: bench.runtime.pop("package"),
    },
    "date-not-in-future": {"today": lambda bench: backdate(bench, 0)},
    "probe-exists": {"it is there": lambda bench: None},
    "recording-exists": {"it is there": lambda bench: None},
    "digest-matches": {"another content, its digest taken": lambda bench: say(bench, "more")},
    "recording-is-readable": {
        "a blank line": lambda bench: bench.lines.append(""),
        "a line of output that is no message": lambda bench: bench.lines.append(
            entry("runtime", "plain words")
        ),
    },
    "recording-is-of-this": {"more in its header": lambda bench: bench.lines[0].update(platform="linux")},
    "recording-bears-status": {
        "correlated later": lambda bench: correlate_later(bench),
        "a second ask that nobody answered": lambda bench: ask_again(bench),
        "an answer with a quotation mark": lambda bench: answer(bench, 'the "new" one'),
        "refuted, and it does not work": refute,
        "the native tool refuted, which answered itself": refute_native,
        "the native tool refuted, its host asked about another": together(
            refute_native,
            lambda bench: bench.lines.insert(1, entry("runtime", {"call": "c0", "tool": "Bash"})),
            lambda bench: bench.lines.insert(2, entry("runtime", {"permit": "c0"})),
        ),
        "the native tool untested, its host asked": together(
            refute_native,
            untest,
            lambda bench: bench.lines.insert(2, entry("runtime", {"permit": "c1"})),
        ),
        "untested, whatever it shows": together(untest, lambda bench: drop(bench, 4, 5)),
        "no adapter to read it with": lambda bench: setattr(bench, "adapter", None),
    },
    "recording-shows-version": {"the runtime does not say": lambda bench: bench.lines.pop(1)},
    "recording-shows-spellings": {
        "the native tool of the row": lambda bench: also_asks_natively(bench, "AskAcme"),
        "other tools": lambda bench: also_asks_natively(bench, "Bash"),
        "no spelling stated": lambda bench: bench.route["spellings"].pop("events"),
    },
    "recording-is-claimed": {"a file that is no recording": lambda bench: note(bench)},
    "no-absolute-paths": {
        "placeholders": lambda bench: say(bench, "{home}/notes.txt <session>/sock $HOME/a/b ~/a/b"),
        "addresses": lambda bench: say(bench, "http://127.0.0.1:8080/v1/messages xd://mcp__opask/a"),
        "fractions and types": lambda bench: say(bench, "and/or/else 1/2/3 application/json #/properties/a"),
        "commands": lambda bench: say(
            bench, "/compact, /mcp, POST /v1/messages, /dev/null, #!/usr/bin/env sh"
        ),
    },
    "no-keys": {
        "words with hyphens": lambda bench: say(bench, "a risk-assessment of task-management, sk-test"),
        "a placeholder": lambda bench: say(bench, "Authorization: Bearer {token}"),
    },
    "no-user-names": {
        "a package": lambda bench: say(bench, "@acme/code@1.2.3 acme@2.0.0"),
        "an example": lambda bench: say(bench, "somebody@example.com"),
        "a longer word": lambda bench: say(bench, "Margrethe grethel"),
    },
    "no-vendor-prompts": {
        "the ask tool itself": lambda bench: say_value(
            bench, {"name": "ask_user_question", "description": "Ask.", "inputSchema": {}}
        ),
        "a model's name": lambda bench: say_value(bench, {"model": "m", "message": {"content": []}}),
        "a short word of the system": lambda bench: say_value(bench, {"type": "system", "system": "ready"}),
        "an agent's speech": lambda bench: say(bench, "You are right, the tool works."),
    },
    "exception-is-needed": {
        "a stale route that is accepted": together(
            lambda bench: backdate(bench, 400), lambda bench: bench.except_from("not-stale", ROUTE)
        )
    },
}


def backdate(bench: Bench, days: int) -> None:
    """Move the observation into the past."""
    bench.seen["date"] = TODAY - timedelta(days=days)
    bench.lines[0]["date"] = bench.seen["date"].isoformat()


def drop(bench: Bench, *places: int) -> None:
    """Take lines out of the recording."""
    for place in sorted(places, reverse=True):
        del bench.lines[place]


def correlate_later(bench: Bench) -> None:
    """Have the ask come without its call, which is known only later."""
    bench.lines[4]["message"]["ask"]["meta"] = {}
    bench.lines.insert(5, entry("runtime", {"late": "c1"}))


def answer(bench: Bench, text: str) -> None:
    """Have the operator answer in their own words."""
    bench.lines[5]["message"]["outcome"]["answers"] = {"Which?": text}
    bench.lines[6]["message"]["result"] = json.dumps({"answers": {"Which?": text}})


def ask_again(bench: Bench) -> None:
    """Have the agent ask a second time, and nobody answer."""
    bench.lines += [
        entry("runtime", {"call": "c2", "tool": ASK}),
        entry("bridge", {"ask": {"question_id": "q2", "questions": [QUESTION], "meta": {"call": "c2"}}}),
        entry("bridge", {"outcome": {"question_id": "q2", "outcome": "skipped", "by": "terminal"}}),
        entry("runtime", {"done": "c2", "failed": False}),
    ]


def say_value(bench: Bench, value: Any) -> None:
    """Have the runtime send a value that is harmless for the adapter."""
    bench.lines.append(entry("runtime", {"value": value}))


def note(bench: Bench) -> None:
    """Put a file beside the recordings that is none."""
    path = bench.folder / "probes/recordings/README.md"
    path.parent.mkdir(parents=True)
    path.write_text("Recordings.")


def cases(table: dict[str, dict[str, Change]]) -> list[Any]:
    """Give a table's cells as parameters."""
    return [
        pytest.param(rule, change, id=f"{rule}: {name}")
        for rule, row in table.items()
        for name, change in row.items()
    ]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Give a registry on which every rule holds."""
    return Bench(tmp_path)


def test_a_sound_registry_has_no_findings(bench: Bench) -> None:
    """On a verified route with all its evidence, no rule finds anything."""
    assert bench.lint() == []


@pytest.mark.parametrize(("rule", "change"), cases(FIRES))
def test_a_rule_fires(bench: Bench, rule: str, change: Change) -> None:
    """What breaks a rule is found, with the rule's name, a place, and a remedy."""
    change(bench)
    found = [finding for finding in bench.lint() if finding.rule == rule]
    assert found
    assert all(finding.message and finding.remedy and finding.where for finding in found)


@pytest.mark.parametrize(("rule", "change"), cases(QUIET))
def test_a_rule_stays_quiet(bench: Bench, rule: str, change: Change) -> None:
    """What comes near a rule without breaking it is not found by it."""
    change(bench)
    assert [finding for finding in bench.lint() if finding.rule == rule] == []


def test_every_rule_is_tested_both_ways() -> None:
    """Each rule has a case that makes it fire and one that does not, and there is no case of a rule that is none."""
    rules = {rule.name for rule in RULES} | {"schema", "exception-is-needed"}
    assert set(FIRES) == rules
    assert set(QUIET) == rules


def test_only_age_drift_and_strays_are_warnings() -> None:
    """A contradiction is an error; what time does to a row, and a recording too many, are warnings."""
    assert {rule.name for rule in RULES if rule.severity == "warning"} == {
        "not-stale",
        "no-drift",
        "recording-is-claimed",
    }


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_says_what_has_to_hold(rule: Rule[Any]) -> None:
    """Each rule states in one sentence what has to hold."""
    assert rule.message.endswith(".")
    assert "\n" not in rule.message


def test_findings_name_row_and_line(bench: Bench) -> None:
    """A finding about a row names the row, one about a recording its path and line."""
    say(bench, "see /home/grete/x")
    bench.seen["probe"] = "probes/gone.py"
    found = {finding.rule: finding for finding in bench.lint()}
    assert found["probe-exists"].where == SEEN
    assert (found["no-absolute-paths"].where, found["no-absolute-paths"].line) == (RECORDING, 9)


def test_a_key_is_not_repeated(bench: Bench) -> None:
    """A finding of a key shows where it is, and not the key."""
    say(bench, "sk-ant-secret-of-somebody")
    (finding,) = bench.lint()
    assert "somebody" not in json.dumps(finding.to_json())
    assert finding.line == 9


def test_many_of_the_same_are_cut_short(bench: Bench) -> None:
    """A recording full of paths gives a few findings, and how many more there are."""
    for number in range(40):
        say(bench, f"/home/grete/{number}")
    found = bench.lint()
    assert len(found) == 6
    assert "35 more" in found[-1].message


def test_errors_stand_before_warnings(bench: Bench) -> None:
    """Findings that make the check fail come first."""
    backdate(bench, 400)
    bench.seen["probe"] = "probes/gone.py"
    assert [finding.severity for finding in bench.lint()] == ["error", "warning"]


def test_an_exception_silences_one_finding_alone(bench: Bench) -> None:
    """An exception takes out its rule's findings in its place, and no others."""
    backdate(bench, 400)
    bench.runtime["package"]["version"] = "1.3.0"
    bench.except_from("not-stale", ROUTE)
    assert [finding.rule for finding in bench.lint()] == ["no-drift"]


def test_a_rule_that_fails_is_reported(bench: Bench) -> None:
    """A rule that raises becomes a finding of its own, and the others go on."""

    def broken(runtime: RuntimeSubject, evidence: Evidence) -> list[Problem]:
        raise ZeroDivisionError("by nothing")

    (finding,) = bench.lint([*RULES, Rule("broken", "runtime", "error", "It fails.", broken)])
    assert (finding.rule, finding.where) == ("broken", "acme")
    assert "by nothing" in finding.message


def test_an_adapter_that_fails_is_reported(bench: Bench) -> None:
    """An adapter that raises on a recording makes a finding, whatever it raises."""
    bench.lines.append(entry("runtime", {"boom": True}))
    (finding,) = bench.lint()
    assert (finding.rule, finding.where) == ("recording-bears-status", SEEN)
    assert "ZeroDivisionError" in finding.message


def test_a_registry_that_is_not_there_is_reported(tmp_path: Path) -> None:
    """A missing file is a finding that names it, once."""
    (finding,) = lint(tmp_path / "gone.toml")
    assert (finding.rule, finding.where) == ("schema", "gone.toml")
    assert finding.message.startswith("cannot be read (")


def test_every_fault_of_the_schema_is_a_finding(bench: Bench) -> None:
    """A file with several faults gets a finding for each, in its row."""
    bench.route["colour"] = "red"
    bench.seen["status"] = "perhaps"
    assert [finding.where for finding in bench.lint()] == [SEEN, ROUTE]


def test_common_words_are_nobodys_name() -> None:
    """The names that no recording may hold leave out accounts and machines that are everywhere."""
    assert machine_names() & {"root", "localhost", "runner"} == set()
