"""The demo's adapter under the suite that every adapter has to pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opask.cli.demo_adapter import DemoAdapter
from opask.testing.conformance import AdapterCase, AdapterConformance

ADAPTER = DemoAdapter()


def announce(call_id: str, tool: str, arguments: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Give the messages that announce a call."""
    return [{"type": "tool_call", "id": call_id, "tool": tool}]


def finish(call_id: str, tool: str, failed: bool) -> Sequence[Mapping[str, Any]]:
    """Give the messages that end a call."""
    return [{"type": "tool_result", "id": call_id, "tool": tool, "is_error": failed}]


class TestDemo(AdapterConformance):
    adapter = ADAPTER
    cases = (
        AdapterCase(
            name="demo",
            argv=tuple(ADAPTER.default_argv("python", "work", ())),
            env={"PATH": "/bin"},
            supplied="ask_user_question",
            native=(),
            begin_turn=({"type": "ready", "tools": ["ask_user_question"]}, {"type": "turn_started"}),
            end_turn=({"type": "turn_ended", "reason": "done", "is_error": False},),
            announce=announce,
            finish=finish,
            meta=lambda call_id: {"opask-demo/call": call_id},
            native_denied=lambda plan: True,
        ),
    )
