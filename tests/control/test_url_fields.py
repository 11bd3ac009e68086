"""Every URL in a request is a URI (RFC 3986): ASCII, with whole escapes and a valid host. Anything else is a 400 that
names the field.
"""

from typing import Any, Final, NamedTuple

from tests.control.conftest import Control
from tests.control.issues.releases.stored import new_issue
from tests.control.test_time_fields import COMMIT, PROPOSAL, RELEASE

BAD: Final = (
    "https://exämple.com/",
    "https://shop.example/ü",
    "https://shop.example/?q=ü",
    "https://shop.example/%zz",
    "https://shop.example/a%",
    "https://shop.example/%4",
    "https://shop.example/?q=%u00fc",
    "https://shop.example:99999/",
    "https://shop_.example%2f@evil.example/",
    "https://%73hop.example/",
    "https://-/..%",
)
GOOD: Final = ("https://xn--exmple-cua.com/", "https://shop.example/%C3%BC/a", "https://[2606:4700::1111]/x")


class Field(NamedTuple):
    """A field of a request. `body` gives the body with this URL; `can_be_good`: whether any host may be in it."""

    method: str
    path: str
    body: Any
    name: str
    can_be_good: bool = True


PROJECT: Final = "/orgs/acme/projects/web"
SLACK, DISCORD, TEAMS = "https://hooks.slack.com", "https://discord.com", "https://x.logic.azure.com"
S3: Final = {"provider": "s3", "bucket": "b", "accessKeyId": "x", "secretAccessKey": "y"}


def channel(kind: str, name: str, **config: Any) -> Field:
    return Field(
        "POST",
        f"{PROJECT}/notification-channels",
        lambda url: {"name": "x", "kind": kind, "config": {name: url, **config}},
        f"body.config.{name}",
        kind == "webhook",
    )


def sink(kind: str, name: str, config: Any) -> Field:
    body: dict[str, Any] = {"name": "x", "kind": kind}
    return Field(
        "POST", "/orgs/acme/warehouse/sinks", lambda url: body | {"config": config(url)}, f"body.config.{name}"
    )


FIELDS: Final = (
    channel("webhook", "url", secret="whsec_" + "A" * 43 + "="),
    channel("chat-a", "webhookUrl"),
    channel("chat-b", "webhookUrl"),
    channel("teams", "workflowUrl"),
    Field("PUT", "/orgs/acme/sso/connections/SAML", lambda url: {"idpSsoUrl": url}, "body.idpSsoUrl"),
    Field("PUT", "/orgs/acme/sso/connections/OIDC", lambda url: {"oidcIssuer": url}, "body.oidcIssuer"),
    sink("BLOBSTORE", "endpoint", lambda url: S3 | {"endpoint": url}),
    sink("SNOWFLAKE", "store.endpoint", lambda url: {"store": S3 | {"endpoint": url}}),
    sink("BIGQUERY", "endpoint", lambda url: {"endpoint": url}),
    Field("POST", "/orgs/acme/changes", lambda url: {"kind": "generic", "title": "x", "url": url}, "body.url"),
    Field("POST", "/orgs/acme/releases", lambda url: RELEASE | {"url": url}, "body.url"),
    Field(
        "POST",
        "/orgs/acme/releases",
        lambda url: RELEASE | {"version": "2", "commits": [COMMIT | {"url": url}]},
        "body.commits[0].url",
    ),
    Field("PUT", "/orgs/acme/proposals", lambda url: PROPOSAL | {"url": url}, "body.url"),
    Field("POST", f"{PROJECT}/issues/{{issue}}/links", lambda url: {"url": url}, "body.url"),
)


async def test_a_url_that_is_no_uri_is_refused_by_name(control: Control) -> None:
    issue = await new_issue(control, 1)
    for field in FIELDS:
        path = field.path.format(issue=issue)
        for url in BAD:
            status, answer, _ = await control.call(field.method, path, field.body(url))
            named = [(one["path"], one["code"]) for one in answer.get("error", {}).get("details", ())]
            assert (status, named) == (400, [(field.name, "format")]), (field, url)
        for url in GOOD if field.can_be_good else ():
            status, answer, _ = await control.call(field.method, path, field.body(url))
            assert status in (200, 201), (field, url, answer)
