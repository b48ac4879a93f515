"""Random tokens that a client shows to be let in, compared in constant time."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable

__all__ = ["bearer_of", "is_token", "new_token"]

_SCHEME = b"bearer "


def new_token() -> str:
    """Return a token of 256 random bits, safe in a URL, a cookie and a header."""
    return secrets.token_urlsafe(32)


def is_token(given: str | bytes, token: str) -> bool:
    """Tell whether what a client gave is the token, in a time that tells nothing of how much of it is right."""
    given = given.encode("utf-8", "surrogatepass") if isinstance(given, str) else given
    return hmac.compare_digest(given, token.encode())


def bearer_of(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the bearer token that a request carries, empty where it carries none (RFC 6750, section 2.1).

    Args:
        headers: the request's, names in lower case, as ASGI has them.
    """
    given = next((value for name, value in headers if name == b"authorization"), b"")
    return given[len(_SCHEME) :].strip() if given[: len(_SCHEME)].lower() == _SCHEME else b""
