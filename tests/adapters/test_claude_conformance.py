"""The claude adapter under the suite that every adapter has to pass."""

from __future__ import annotations

from claude_samples import CASES
from opask.testing.conformance import AdapterConformance
from opask_claude import adapter


class TestClaude(AdapterConformance):
    adapter = adapter
    cases = CASES
