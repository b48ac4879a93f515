"""What every request passes before anything else: Host, Origin, auth; and what every response carries."""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Collection
from typing import Final

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from opask.surfaces.web.auth import Auth, TokenAuth
from opask.surfaces.web.refusals import Refusal, refusal_of
from opask.tokens import bearer_of

__all__ = ["ANY_ADDRESS", "BODY_LIMIT", "LOOPBACK", "WHO", "Gate", "read_body", "route_path"]

_logger = logging.getLogger("opask.web")

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""The names by which a browser on this machine reaches it."""

ANY_ADDRESS: Final = "*"
"""In a list of host names: every IP address. A name that was made to point here (DNS rebinding) is never one."""

BODY_LIMIT: Final = 64 * 1024
_BODY_S: Final = 10.0
WHO: Final = "opask.who"
"""Where the scope of a request has who makes it."""

_SAFE: Final = frozenset({"GET", "HEAD"})
_HOST: Final = re.compile(r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[\w.-]+))(?::(?P<port>\d{1,5}))?", re.ASCII)
_PORTS: Final = {"http": "80", "https": "443"}
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",  # the page draws its icon with the count
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Gate:
    """Lets a request through to the application, or refuses it.

    Args:
        app: the application.
        auth: tells who makes a request.
        hosts: the host names that it is reached by, without port; None to leave that to whatever stands before it.
    """

    def __init__(self, app: ASGIApp, *, auth: Auth, hosts: Collection[str] | None) -> None:
        self._app = app
        self._auth = auth
        self._hosts = None if hosts is None else frozenset(name.lower().strip("[]") for name in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            else:
                await self._app(scope, receive, send)
            return
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            await self._let_in(scope, receive, sending)
        except ClientDisconnect:
            pass
        except Exception as error:
            if started:
                raise
            refusal = refusal_of(error)
            if refusal is None:
                _logger.exception("%s %s failed", scope["method"], _shown(route_path(scope)))
                refusal = Refusal(500, "failed", "Something went wrong here; the server's log says what.")
            await _refuse(scope, receive, sending, refusal)

    async def _let_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = HTTPConnection(scope)
        self._check_host(request.headers)
        path = route_path(scope)
        signs_in = path == "/" and "token" in request.query_params and isinstance(self._auth, TokenAuth)
        if signs_in and scope["method"] == "GET":
            assert isinstance(self._auth, TokenAuth)
            await self._auth.sign_in(request)(scope, receive, send)
            return
        if path.startswith("/api/"):
            _check_origin(request, is_safe=scope["method"] in _SAFE)
        who = await self._auth(request)
        if who is None:
            raise Refusal(
                401,
                "unauthorized",
                "Open this page by the link that the server printed; a script sends its token as a bearer.",
                headers={"WWW-Authenticate": "Bearer"},
            )
        await self._app({**scope, WHO: who}, receive, send)

    def _check_host(self, headers: Headers) -> None:
        if self._hosts is None:
            return
        given = headers.getlist("host")
        found = _split_host(given[0]) if len(given) == 1 else None
        name = "" if found is None else found[0]
        if not (name in self._hosts or (ANY_ADDRESS in self._hosts and _is_address(name))):
            raise Refusal(
                421,
                "wrong_host",
                "This server is not reached by this host name; use the link that it printed.",
            )


def _check_origin(request: HTTPConnection, *, is_safe: bool) -> None:
    """Hold a request to the page's own origin: a cookie comes along with those of any page on this host's ports.

    Raises:
        Refusal: it comes from elsewhere, or a write does not say where it comes from.
    """
    headers = request.headers
    origins = headers.getlist("origin")
    if headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"} or any(
        not _is_same(origin, headers.get("host", "")) for origin in origins
    ):
        raise Refusal(
            403, "wrong_origin", "This request comes from another page; only the server's own may ask."
        )
    if not is_safe and not origins and not bearer_of(request.scope["headers"]):
        raise Refusal(
            403,
            "no_origin",
            "A change needs an Origin header, which browsers send, or a bearer token instead.",
        )


def _is_same(origin: str, host: str) -> bool:
    """Tell whether an origin (RFC 6454) is that of a host header, whichever scheme a proxy in between speaks."""
    scheme, _, place = origin.lower().partition("://")
    default = _PORTS.get(scheme)
    found, own = _split_host(place), _split_host(host)
    if default is None or found is None or own is None:
        return False
    return (found[0], found[1] or default) == (own[0], own[1] or default)


def _split_host(host: str) -> tuple[str, str] | None:
    """Return the name in a Host header, in lower case and without brackets, and its port; None where it is no such."""
    match = _HOST.fullmatch(host.lower())
    return None if match is None else (match["six"] or match["name"], match["port"] or "")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def _refuse(scope: Scope, receive: Receive, send: Send, refusal: Refusal) -> None:
    wants_page = "text/html" in HTTPConnection(scope).headers.get("accept", "")
    if wants_page and not route_path(scope).startswith("/api/"):
        response: ASGIApp = PlainTextResponse(f"{refusal.message}\n", refusal.status, refusal.headers)
    else:
        response = refusal.response()
    await response(scope, receive, send)


def route_path(scope: Scope) -> str:
    """Return the path of a request below the mount point."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def _shown(path: str) -> str:
    return ascii(path[:200])


async def read_body(request: Request) -> bytes:
    """Read a request's JSON body, as far as it may go.

    Raises:
        Refusal: it is of another type, too long, or does not come.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(415, "wrong_type", "The body has to be JSON: Content-Type: application/json.")
    too_long = Refusal(413, "too_long", f"The body may have at most {BODY_LIMIT} bytes.")
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or int(length[:20]) > BODY_LIMIT:
        raise too_long
    body = bytearray()
    try:
        with anyio.fail_after(_BODY_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > BODY_LIMIT:
                    raise too_long
    except TimeoutError:
        raise Refusal(408, "timeout", f"The body did not come within {_BODY_S:g} seconds.") from None
    return bytes(body)
