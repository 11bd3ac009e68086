"""A browser in which people log in through their company's provider: cookies, redirects, forms, no scripts."""

import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urljoin

import aiohttp
from yarl import URL

from tests.control.identity.sso.authority import Authority
from tests.control.identity.sso.forms import Form, first_form
from tests.e2e.keycloak import PASSWORD

_MAX_STEPS: Final = 20  # pages and redirects of a login


class Page(NamedTuple):
    """Where a browser is, and what it shows."""

    url: str
    status: int
    location: str
    text: str

    def json(self) -> Any:
        return json.loads(self.text)


class Browser:
    """Keeps cookies, follows redirects and sends forms. `public_url` is where it believes Sluice to be, `url` where
    Sluice listens, as if a proxy with TLS were between them.
    """

    def __init__(self, authority: Authority, public_url: str, url: str) -> None:
        self._authority = authority
        self._public_url = public_url
        self._url = url

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._authority.client_context()),
            cookie_jar=aiohttp.CookieJar(unsafe=True, treat_as_secure_origin=self._url),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def open(
        self, method: str, url: str, form: Mapping[str, str] | None = None, body: Any = None, token: str = ""
    ) -> Page:
        """One request."""
        where = self._url + url.removeprefix(self._public_url) if self._is_ours(url) else url
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with self._session.request(
            method, URL(where, encoded=True), data=form, json=body, headers=headers, allow_redirects=False
        ) as response:
            location = response.headers.get("Location", "")
            return Page(url, response.status, location and urljoin(url, location), await response.text())

    async def log_in(self, url: str, login: str = "", password: str = PASSWORD, *, ending: str = "") -> Page:
        """A login from its address on: the page of Sluice that it ends with, or that of the provider which leads no
        further. `login`: who fills in the form of the provider; empty: nobody does. `ending`: the format that Sluice is
        asked for.
        """
        page, filled = await self.open("GET", url), False
        for _ in range(_MAX_STEPS):
            form = _next_form(page)
            if form is None or ("password" in form.fields and (filled or not login)):
                return page
            if "password" in form.fields:
                form.fields |= {"username": login, "password": password}
                filled = True
            if self._is_ours(form.action):
                more = f"{'&' if '?' in form.action else '?'}format={ending}" if ending else ""
                return await self._send(Form(form.action + more, form.fields))
            page = await self._send(form)
        raise AssertionError(f"the login does not end: {page.url}")

    async def _send(self, form: Form) -> Page:
        return await self.open("POST", form.action, form.fields) if form.fields else await self.open("GET", form.action)

    def _is_ours(self, url: str) -> bool:
        return url.startswith(f"{self._public_url}/")


def _next_form(page: Page) -> Form | None:
    """The form of a page; a redirect is one without fields. None for a page that leads no further."""
    if page.status in (302, 303):
        return Form(page.location)
    form = first_form(page.text)
    return None if form is None else Form(urljoin(page.url, form.action), form.fields)
