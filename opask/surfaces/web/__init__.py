"""The web surface: a page with the inbox, its JSON API and its feed, as an ASGI application.

`application` makes it on a store: for `opask serve` with `TokenAuth`, or mounted in a host's own application with the
host's own auth. Needs the extra ``web``.
"""

from __future__ import annotations

from opask.surfaces.web.app import application
from opask.surfaces.web.auth import Auth, TokenAuth

__all__ = ["Auth", "TokenAuth", "application"]
