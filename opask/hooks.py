"""The plug-in hooks: how an adapter's package registers itself.

An adapter's package names its module in the entry-point group ``opask``, under its runtime's name, and
implements `opask_adapter` with `hookimpl`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

from opask.errors import AdapterError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from opask.adapters import Adapter

__all__ = ["hookimpl", "load_adapter"]

_PROJECT = "opask"
hookspec = pluggy.HookspecMarker(_PROJECT)
hookimpl = pluggy.HookimplMarker(_PROJECT)


class _Hooks:
    @hookspec(firstresult=True)
    def opask_adapter(self) -> Adapter | None:
        """Return the package's adapter."""


def load_adapter(entry: EntryPoint) -> Adapter:
    """Load one adapter through its entry point.

    Raises:
        AdapterError: its import or its hook fails, it implements a hook that does not exist (a misspelling, as a
            rule), or none at all.
    """
    try:
        module = entry.load()
    except Exception as error:
        raise AdapterError(
            f"the adapter for {entry.name!r} ({entry.value}) cannot be imported: {type(error).__name__}: {error}"
        ) from error
    manager = pluggy.PluginManager(_PROJECT)
    manager.add_hookspecs(_Hooks)
    try:
        manager.register(module, name=entry.name)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise AdapterError(
            f"the adapter for {entry.name!r} ({entry.value}) registers wrongly: {error}"
        ) from error
    try:
        found: Adapter | None = manager.hook.opask_adapter()
    except Exception as error:
        raise AdapterError(
            f"the adapter for {entry.name!r} ({entry.value}) fails in opask_adapter: {type(error).__name__}: {error}"
        ) from error
    if found is None:
        raise AdapterError(
            f"the adapter for {entry.name!r} ({entry.value}) implements no hook opask_adapter; "
            "decorate it with opask.hooks.hookimpl"
        )
    return found
