"""The ACP adapter under the suite that every adapter has to pass."""

from __future__ import annotations

from acp_samples import CASES
from opask.testing.conformance import AdapterConformance
from opask_acp import adapter


class TestAcp(AdapterConformance):
    adapter = adapter
    cases = CASES
