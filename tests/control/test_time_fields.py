"""Every time in a request is one of RFC 3339 and of the calendar. Anything else is a 400 that names the field."""

from typing import Any, Final, NamedTuple

from proto.proofs import dsse
from tests.control.approvals.proofs.made import KEY, register
from tests.control.conftest import Control
from tests.control.issues.releases.stored import new_issue

BAD: Final = (
    "2026-02-30T00:00:00Z",
    "2026-02-29T00:00:00Z",
    "2026-13-01T00:00:00Z",
    "2026-00-10T00:00:00Z",
    "2026-12-00T00:00:00Z",
    "2026-12-31T24:00:00Z",
    "2026-12-31T25:00:00Z",
    "2026-12-31T23:60:00Z",
    "2026-12-31T23:59:60Z",
    "2026-12-31T12:00:00+25:00",
    "2026-12-31T12:00:00+24:00",
    "2026-12-31T12:00:00-12:60",
    "2026-12-31T12:00:00",
    "2026-12-31",
    "20261231T120000Z",
    "2026-W49-1T12:00:00Z",
    "2026-12-31T12Z",
    "2026-12-31T12:00:00+0000",
    "٢026-12-31T12:00:00Z",
)


class Field(NamedTuple):
    """A time in a body (`body` gives it with this text), or in the query."""

    method: str
    path: str
    name: str
    body: Any = None


ORG: Final = "/orgs/acme"
RELEASE: Final = {"version": "1", "projects": ["web"]}
COMMIT: Final = {"repository": "shop/web", "sha": "a" * 40, "message": "x"}
PROPOSAL: Final = {"repository": "shop/web", "number": "1", "title": "x", "state": "open"}
ISSUER: Final = {"issuer": "x", "name": "x", "publicKey": dsse.public_pem(KEY.public_key())}
FIELDS: Final = (
    *(Field("GET", f"{ORG}/audit", f"query.{name}") for name in ("from", "to")),
    Field("GET", f"{ORG}/audit/export", "query.from"),
    *(Field("GET", f"{ORG}/changes", f"query.{name}") for name in ("from", "to")),
    Field("POST", f"{ORG}/changes", "body.at", lambda at: {"kind": "generic", "title": "x", "at": at}),
    Field("POST", f"{ORG}/releases", "body.releasedAt", lambda at: RELEASE | {"releasedAt": at}),
    Field(
        "POST",
        f"{ORG}/releases",
        "body.commits[0].authoredAt",
        lambda at: RELEASE | {"commits": [COMMIT | {"authoredAt": at}]},
    ),
    Field("PUT", f"{ORG}/proposals", "body.changedAt", lambda at: PROPOSAL | {"changedAt": at}),
    Field("POST", f"{ORG}/projects/web/erasures", "body.from", lambda at: {"from": at}),
    Field("POST", f"{ORG}/projects/web/erasures", "body.to", lambda at: {"to": at}),
    Field(
        "PATCH",
        f"{ORG}/projects/web/issues/{{issue}}",
        "body.ignoredUntil",
        lambda at: {"status": "ignored", "ignoredUntil": at},
    ),
    Field("POST", f"{ORG}/proof-issuers", "body.validFrom", lambda at: ISSUER | {"validFrom": at}),
    Field("POST", f"{ORG}/proof-issuers", "body.validUntil", lambda at: ISSUER | {"validUntil": at}),
    Field("PATCH", f"{ORG}/proof-issuers/{{key}}", "body.validUntil", lambda at: {"validUntil": at}),
)


async def test_a_time_that_the_calendar_does_not_have_is_refused_by_name(control: Control) -> None:
    there = {"issue": await new_issue(control, 1), "key": (await register(control))["id"]}
    for field in FIELDS:
        path, name = field.path.format_map(there), field.name.removeprefix("query.")
        for text in BAD:
            asked = {"params": {name: text}} if field.body is None else {"body": field.body(text)}
            status, answer, _ = await control.call(field.method, path, **asked)
            named = [(one["path"], one["code"]) for one in answer.get("error", {}).get("details", ())]
            assert (status, named) == (400, [(field.name, "format")]), (field, text)
