"""`GET /sso/complete`: where a login with a redirect ends. A dashboard behind the same address may serve its own page
there; this one spends the code and says who is signed in.

The code is in the fragment, which reaches no server and no log. The page runs one script, its own, and talks to this
origin alone.
"""

import base64
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from aiohttp import web

from chassis.http.access import anonymous
from chassis.http.route import Operation, ResponseSpec
from chassis.http.web import Route
from control.identity.sso.browser import NO_STORE
from control.identity.sso.connections import TAG

PAGE: Final = Operation("showSsoCompletion", TAG, (ResponseSpec("The page.", {"text/html": None}),))
_INLINE: Final = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CompletionPage:
    """The handler of the page."""

    def routes(self) -> list[Route]:
        """The route of the page; it is anonymous."""
        return [Route("GET", "/sso/complete", self.show, anonymous(), operation=PAGE)]

    async def show(self, _request: web.Request) -> web.StreamResponse:
        """Show the page on which a login ends.

        It spends the one-time code that its address has in the fragment.
        """
        html, policy = _page()
        headers = {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Security-Policy": policy,
            "X-Content-Type-Options": "nosniff",
            **NO_STORE,
        }
        return web.Response(body=html.encode(), headers=headers)


@cache
def _page() -> tuple[str, str]:
    """The page, and the policy under which nothing but its own script and style works."""
    html = resources.files(__package__).joinpath("complete.html").read_text(encoding="utf-8")
    hashes = {kind: _hash(text) for kind, text in _INLINE.findall(html)}
    policy = (
        f"default-src 'none'; script-src {hashes['script']}; style-src {hashes['style']}; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return html, policy


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
