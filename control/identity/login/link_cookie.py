"""The secret of a browser that has asked for a link for its login: no other browser can use the link."""

import re
import secrets
from typing import Final

from aiohttp import web

from control.identity.login.challenge import LINK_LIFETIME

NAME: Final = "__Secure-sluice-login-link"
_PATH: Final = "/auth/login"
_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{43}")  # 256 bits in base64url


def read(request: web.Request) -> str:
    """The secret; empty without one."""
    value = request.cookies.get(NAME, "")
    return value if _SECRET.fullmatch(value) else ""


def read_or_create(request: web.Request) -> str:
    """The secret that the browser has, so that an earlier link stays good, or else another one."""
    return read(request) or secrets.token_urlsafe(32)


def keep(response: web.StreamResponse, secret: str) -> None:
    """Put the secret into the cookie, for as long as a link is good."""
    response.set_cookie(
        NAME,
        secret,
        max_age=int(LINK_LIFETIME.total_seconds()),
        path=_PATH,
        secure=True,
        httponly=True,
        samesite="Strict",
    )
