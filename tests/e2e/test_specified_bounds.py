"""Every bound of a path or query parameter that the interface specifies: a value at the bound is taken, a value beyond
it is a 400 that names the parameter.
"""

from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import pytest

from tests.e2e.product import Answer, Sluice, call

ORG: Final = "/orgs/{org}"
EXPLORE: Final = "/orgs/{org}/projects/{project}/explore"
CHANNELS: Final = "/orgs/{org}/projects/{project}/notification-channels"
CALLBACK: Final = "/sso/oidc/{org}/callback"
LENGTHS: Final = {"too_short", "too_long", "length", "format"}
HEX: Final = "0123456789abcdef"


class Bound(NamedTuple):
    """The least and the greatest value of a number, or the lengths of a text. `name`: as in `details`."""

    method: str
    path: str
    name: str
    lo: int
    hi: int
    is_number: bool = False


BOUNDS: Final = (
    Bound("GET", f"{ORG}/approval-requests", "query.limit", 1, 100, True),
    *(Bound("GET", f"{EXPLORE}/{kind}", "query.hours", 1, 720, True) for kind in ("attributes", "spans")),
    Bound("GET", f"{EXPLORE}/spans", "query.limit", 1, 200, True),
    Bound("GET", f"{EXPLORE}/spans", "query.traceId", 1, 64),
    Bound("GET", f"{EXPLORE}/spans", "query.filters", 0, 4_000),
    Bound("GET", f"{EXPLORE}/spans", "query.cursor", 1, 500),
    Bound("GET", f"{EXPLORE}/traces/{{value}}/waterfall", "path.traceId", 1, 64),
    *(
        Bound("POST", f"/v1/{signal}", name, 0, hi)
        for signal in ("traces", "logs")
        for name, hi in (("query.legacy_key", 128), ("query.project_id", 64))
    ),
    Bound("GET", CHANNELS, "query.limit", 1, 100, True),
    Bound("GET", CHANNELS, "query.cursor", 0, 500),
    Bound("POST", "/webhooks/integrations/{value}", "path.integrationId", 1, 64),
    Bound("POST", "/webhooks/scm/{value}", "path.provider", 1, 32),
    Bound("GET", "/orgs/{value}/sso/connections", "path.orgSlug", 1, 64),
    *(Bound(method, "/orgs/{value}/sso/connections/SAML", "path.orgSlug", 1, 64) for method in ("PUT", "DELETE")),
    Bound("GET", "/sso/oidc/{value}/callback", "path.orgSlug", 1, 64),
    Bound("POST", "/sso/saml/{value}/acs", "path.orgSlug", 1, 64),
    Bound("GET", CALLBACK, "query.code", 1, 4_096),
    Bound("GET", CALLBACK, "query.state", 1, 512),
    Bound("GET", CALLBACK, "query.error", 0, 256),
    Bound("GET", CALLBACK, "query.error_description", 0, 1_024),
)
CHOICES: Final = (
    ("GET", f"{ORG}/approval-requests", "query.status"),
    ("PUT", f"{ORG}/sso/connections/{{value}}", "path.protocol"),
    ("DELETE", f"{ORG}/sso/connections/{{value}}", "path.protocol"),
    ("GET", CALLBACK, "query.format"),
    ("POST", "/sso/saml/{org}/acs", "query.format"),
)


def ask(sluice: Sluice, method: str, path: str, name: str, value: str) -> Answer:
    where = path.format(org=sluice.org, project=sluice.project, value=value)
    place, _, parameter = name.partition(".")
    query = {parameter: value} if place == "query" else {}
    headers = {"Content-Type": "application/json"}
    if where.startswith("/orgs/"):
        headers["Authorization"] = f"Bearer {sluice.token}"
    elif where.startswith("/v1/") and parameter != "legacy_key":
        headers["X-Legacy-Auth"] = f"Legacy legacy_key={sluice.key}"
    url = f"{sluice.url_of(where)}{where}?{urlencode(query)}"
    return call(method, url, b"{}" if method != "GET" else None, headers)


def faults(answer: Answer, name: str) -> set[str]:
    """The codes of the issues about `name`; `not 400` if the request is not refused for its content."""
    if answer.status != 400:
        return {"not 400"}
    details: list[dict[str, Any]] = answer.json()["error"].get("details", [])
    return {issue["code"] for issue in details if issue["path"] == name}


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda one: f"{one.method} {one.path} {one.name}")
def test_a_value_at_the_bound_is_taken_and_one_beyond_it_is_refused(sluice: Sluice, bound: Bound) -> None:
    def answered(size: int) -> set[str]:
        value = str(size) if bound.is_number else (HEX * 400)[:size]
        return faults(ask(sluice, bound.method, bound.path, bound.name, value), bound.name)

    beyond = [bound.hi + 1] + ([bound.lo - 1] if bound.lo and not bound.name.startswith("path.") else [])
    for size in beyond:
        assert answered(size) & {"too_large", "too_small", "too_long", "too_short"}, size
    for size in {bound.lo, bound.hi} - {0}:
        assert not answered(size) & {"too_large", "too_small", "too_long", "too_short"}, size


@pytest.mark.parametrize(("method", "path", "name"), CHOICES)
def test_a_value_that_is_none_of_the_choices_is_refused(sluice: Sluice, method: str, path: str, name: str) -> None:
    for value in ("nonsense", "approved", "saml"):
        assert faults(ask(sluice, method, path, name, value), name) == {"not_allowed"}, value


def test_the_hours_of_an_analysis_have_the_bounds_of_a_list(sluice: Sluice) -> None:
    path = f"/orgs/{sluice.org}/projects/{sluice.project}/explore/spans/aggregate"
    headers = {"Authorization": f"Bearer {sluice.token}", "Content-Type": "application/json"}
    for hours, found in ((0, {"too_small"}), (721, {"too_large"}), (1, {"not 400"}), (720, {"not 400"})):
        body = b'{"fn":"count","hours":%d}' % hours
        assert faults(call("POST", sluice.url_of(path) + path, body, headers), "body.hours") == found, hours
