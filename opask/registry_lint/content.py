"""Rules about what no recording may hold: this machine's paths and names, keys, a vendor's prompts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from opask.registry_lint.evidence import Evidence, RecordingFile, texts
from opask.registry_lint.rule import Problem, rule
from opask.wire import TOOL_NAME

__all__ = ["RULES"]

_MOST = 5  # findings a rule and a recording: the rest is the same again
_AGAIN = "replace it by a placeholder in the probe's scrubbing, and record anew"

# On every machine of a kind, or no file at all (a web service's address): nothing of this machine.
_EVERYWHERE = r"(?:dev/(?:null|std\w+|tty)|bin/\w+|usr/bin/(?:env|\w*sh)|v\d+/\w+)\b"
_ABSOLUTE = re.compile(
    # After a name, a placeholder or another slash it is a part of something else.
    rf"(?:(?<![\w./~$%#<>{{}}@-])|(?<=file://))/(?!{_EVERYWHERE})"
    # Two names or more; one where it is a folder that holds somebody's work.
    r"(?:[\w.@+-]+(?:/[\w.@+-]+)+|(?:home|mnt|private|root|srv|tmp|work|workspace|Users)(?![\w.-]))"
    r"|(?<![\w/])[A-Za-z]:\\[\w.-]+"
)
_KEYS = re.compile(
    r"\bsk-[\w-]{8,}"
    r"|\b(?:ghp|gho|ghs|ghu|github_pat|glpat|xox[abprs])[_-][\w-]{10,}"
    r"|\bA(?:KIA|SIA)[A-Z0-9]{12,}"
    r"|\bAIza[\w-]{20,}"
    r"|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*"
    r"|(?i:\bbearer\s+[\w.~+/-]{12,})"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
_ADDRESS = re.compile(r"\b[\w.+-]+@(?!example\.)[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}\b")
_PROMPT = re.compile(r"\s*you are [^\n]{0,200}\b(?:agent|assistant|cli|model|tool)\b", re.IGNORECASE)
_LONG = 300  # characters; a scripted test prompt is shorter, a vendor's is not


@rule()
def no_absolute_paths(file: RecordingFile, _: Evidence) -> Iterator[Problem]:
    """No recording holds an absolute path of the machine that it was made on."""
    yield from _matches(file, _ABSOLUTE, "holds the absolute path {}")


@rule()
def no_keys(file: RecordingFile, _: Evidence) -> Iterator[Problem]:
    """No recording holds a key or a token."""
    for problem in _matches(file, _KEYS, "holds what looks like a key, {}", shown=4):
        yield Problem(problem.message, f"revoke it if it is a real one; {_AGAIN}", line=problem.line)


@rule()
def no_user_names(file: RecordingFile, evidence: Evidence) -> Iterator[Problem]:
    """No recording holds a mail address, or a name of the machine or the user that lints it."""
    yield from _matches(file, _ADDRESS, "holds the address {}")
    if evidence.names:
        names = "|".join(re.escape(name) for name in sorted(evidence.names))
        yield from _matches(
            file, re.compile(rf"(?<![\w-])(?:{names})(?![\w-])", re.IGNORECASE), "holds the name {}"
        )


@rule()
def no_vendor_prompts(file: RecordingFile, _: Evidence) -> Iterator[Problem]:
    """No recording holds a request to a model, a system prompt, or a vendor's tool descriptions."""
    found = 0
    for number, value in _values(file):
        for what in _prompts(value):
            found += 1
            if found <= _MOST:
                yield Problem(
                    f"holds {what}",
                    "record stdio and the bridge only; drop the field and record anew",
                    number,
                )


def _matches(
    file: RecordingFile, pattern: re.Pattern[str], message: str, *, shown: int = 60
) -> Iterator[Problem]:
    """Give the first few places in a recording's texts that a pattern finds."""
    found = 0
    for number, value in _values(file):
        for text in texts(value):
            for match in pattern.finditer(text):
                found += 1
                if found <= _MOST:
                    what = match.group()
                    cut = what if len(what) <= shown else f"{what[:shown]}…"
                    yield Problem(message.format(repr(cut)), _AGAIN, line=number)
    if found > _MOST:
        yield Problem(f"the same {found - _MOST} more times", _AGAIN)


def _values(file: RecordingFile) -> Iterator[tuple[int, Any]]:
    """Give each line as the value that it is, or as its text where it is none."""
    for number, line in enumerate(file.lines, 1):
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError):
            if line.strip():
                yield number, line


def _prompts(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            if len(one) > _LONG and _PROMPT.match(one):
                yield f"a text that reads as a system prompt ({one.strip()[:30]!r}…)"
        elif isinstance(one, list):
            waiting.extend(one)
        elif isinstance(one, Mapping):
            what = _prompt_shape(one)
            if what is None:
                waiting.extend(one.values())
            else:
                yield what


def _prompt_shape(one: Mapping[str, Any]) -> str | None:
    keys = set(one)
    if "model" in keys and isinstance(one.get("messages"), list):
        return "a request to a model"
    if "contents" in keys and keys & {"systemInstruction", "system_instruction", "generationConfig"}:
        return "a request to a model"
    if {"model", "input", "instructions"} <= keys:
        return "a request to a model"
    for key in ("system", "system_prompt", "systemPrompt", "systemInstruction", "system_instruction"):
        if isinstance(one.get(key), str | list) and len(json.dumps(one[key])) > _LONG:
            return f"a system prompt, in {key}"
    schema = keys & {"input_schema", "inputSchema", "parameters"}
    if schema and isinstance(one.get("description"), str) and one.get("name") != TOOL_NAME:
        return f"the description of a tool that is not opask's, {str(one.get('name'))[:40]!r}"
    return None


RULES = (no_absolute_paths, no_keys, no_user_names, no_vendor_prompts)
