"""Who may use the web surface: whoever has the token, or whom a host's own auth lets in."""

from __future__ import annotations

from hashlib import sha256
from typing import Final, Protocol
from urllib.parse import urlencode

from starlette.requests import HTTPConnection
from starlette.responses import Response

from opask.surfaces.web.refusals import Refusal
from opask.tokens import bearer_of, is_token, new_token

__all__ = ["Auth", "TokenAuth"]

_YEAR_S: Final = 365 * 24 * 3600


class Auth(Protocol):
    """Tells who makes a request; an async function will do.

    It is asked at every request, before anything else of the request is looked at. To turn a request away in its own
    way it may raise `starlette.exceptions.HTTPException`, with a redirection to a sign-in page for instance.
    """

    async def __call__(self, request: HTTPConnection, /) -> str | None:
        """Return who it is: a short name that answers are recorded with, or ``""``; None for nobody who may."""
        ...


class TokenAuth:
    """Lets in whoever has a token: by a link once, which leaves a cookie, or as a bearer.

    The cookie is HttpOnly, SameSite=Strict and for the mount's path alone, and its name is the token's, so that two
    servers on one host name keep theirs apart.

    Args:
        token: the token; a new one by default.
    """

    def __init__(self, token: str | None = None) -> None:
        self.token = new_token() if token is None else token
        self.cookie = f"opask-{sha256(self.token.encode()).hexdigest()[:12]}"

    async def __call__(self, request: HTTPConnection, /) -> str | None:
        """See `Auth`."""
        given = bearer_of(request.scope["headers"]) or request.cookies.get(self.cookie, "")
        return "" if is_token(given, self.token) else None

    def link(self, url: str) -> str:
        """Return the link that signs a browser in, for the page at an address that ends with a slash."""
        return f"{url}?{urlencode({'token': self.token})}"

    def sign_in(self, request: HTTPConnection) -> Response:
        """Return the redirection of a browser that opened the link: with the cookie, and to an address without token.

        Raises:
            Refusal: the token is another.
        """
        if not is_token(request.query_params.get("token", ""), self.token):
            raise Refusal(
                401, "unauthorized", "The token in this link is not this server's; take the newest link."
            )
        response = Response(status_code=303, headers={"Location": "./"})
        response.set_cookie(
            self.cookie,
            self.token,
            max_age=_YEAR_S,
            path=request.scope.get("root_path", "") or "/",
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response
