"""omp's adapter under the suite that every adapter has to pass."""

from __future__ import annotations

from omp_samples import CASES
from opask.testing.conformance import AdapterConformance
from opask_omp import adapter


class TestOmp(AdapterConformance):
    adapter = adapter
    cases = CASES
