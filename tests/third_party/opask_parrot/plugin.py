"""Registers the adapter in the entry-point group ``opask``."""

from __future__ import annotations

from opask.adapters import Adapter
from opask.hooks import hookimpl
from opask_parrot import adapter

__all__ = ["opask_adapter"]


@hookimpl
def opask_adapter() -> Adapter:
    """Return the adapter for parrot."""
    return adapter
