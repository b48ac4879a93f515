"""Registers the adapter in the entry-point group ``opask``; a host that imports the adapter itself loads no pluggy."""

from __future__ import annotations

from opask.adapters import Adapter
from opask.hooks import hookimpl
from opask_omp import adapter

__all__ = ["opask_adapter"]


@hookimpl
def opask_adapter() -> Adapter:
    """Return the adapter for omp."""
    return adapter
