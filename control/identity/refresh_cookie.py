"""The refresh token of a browser, in a cookie that no script can read and that only `/auth` receives.

A cookie is sent by the browser, whoever has caused the request. So routes that use it demand JSON, which no form sends,
and `Sec-Fetch-Site: same-origin`, which no page can forge (Fetch Metadata). All other routes never read cookies.
"""

from typing import Final

from aiohttp import hdrs, web

from chassis.errors import Forbidden
from chassis.http.route import JSON_TYPE
from chassis.http.web import json_response
from control.identity.session_issuer import SessionMaterial
from control.identity.session_repository import ABSOLUTE_TIMEOUT

NAME: Final = "__Secure-sluice"
_PATH: Final = "/auth"
_CROSS_SITE: Final = "A request with `cookie` must come from the page of this origin."


def require_same_origin(request: web.Request) -> None:
    """Raises Forbidden for a request that another page may have caused, and for one that is not of a browser."""
    if request.headers.get("Sec-Fetch-Site") != "same-origin" or request.content_type != JSON_TYPE:
        raise Forbidden(_CROSS_SITE)


def read(request: web.Request) -> str:
    """The refresh token; empty without one."""
    return request.cookies.get(NAME, "")


def session_response(material: SessionMaterial, *, in_cookie: bool, status: int = 200) -> web.Response:
    """A session, its refresh token in the body or in the cookie."""
    if not in_cookie:
        return json_response(material, status=status)
    response = json_response(material.without_refresh_token(), status=status)
    keep(response, material.tokens.refresh_token)
    return response


def keep(response: web.Response, token: str) -> None:
    """Put the refresh token into the cookie of the browser."""
    response.set_cookie(
        NAME,
        token,
        max_age=int(ABSOLUTE_TIMEOUT.total_seconds()),
        path=_PATH,
        secure=True,
        httponly=True,
        samesite="Strict",
    )


def clearing() -> dict[str, str]:
    """The headers of an error that remove the cookie from the browser."""
    return {hdrs.SET_COOKIE: f'{NAME}=""; Max-Age=0; Path={_PATH}; Secure; HttpOnly; SameSite=Strict'}


def clear(response: web.Response) -> None:
    """Remove the cookie from the browser."""
    response.del_cookie(NAME, path=_PATH, secure=True, httponly=True, samesite="Strict")
    response.headers[hdrs.CACHE_CONTROL] = "no-store"
