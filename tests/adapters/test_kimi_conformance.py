"""Both of Kimi's adapters under the suite that every adapter has to pass."""

from __future__ import annotations

from kimi_samples import CASES, LEGACY_CASES
from opask.testing.conformance import AdapterConformance
from opask_kimi import adapter, legacy_adapter


class TestKimi(AdapterConformance):
    adapter = adapter
    cases = CASES


class TestLegacyKimi(AdapterConformance):
    adapter = legacy_adapter
    cases = LEGACY_CASES
