"""Requests made from `/openapi.json`, good and bad, to a running Sluice: nothing breaks, whatever is asked, and every
answer is one that the document announces, to the last field.

The requests are the same in every run: schemathesis draws them from a fixed seed.
"""

import hashlib
import hmac
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import schemathesis
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema

from proto.proofs import dsse
from tests.control.approvals.proofs.made import bundle
from tests.control.identity.sso import saml_idp
from tests.e2e.product import Sluice, call, eventually, running
from tests.e2e.reading import SECOND, settled
from tests.e2e.test_every_field import every_kind_of_value
from tests.selection import LONG, scaled

pytestmark = pytest.mark.sized

EXAMPLES = scaled(3, 10)  # of each operation, beside those at the bounds of every parameter
SEVERAL = range(8)  # of each kind of thing: what is removed early is not there later
PASSWORD = "correct horse battery"
KNOWN = 0.7  # how often a value that occurs is taken where any text would do
SELF_DESTRUCTIVE = ["revokeToken", "revokeTokenOfPrincipal"]  # the token that asks is among those that lists show
CODES = {"confirmTotp", "verifyTotp", "disableTotp", "exchangeLoginCode"}  # which no draw makes
PROOFS = {"verifySsoDomain", "completeSamlLogin", "completeOidcLogin", "handOffLogin", "startOidcLogin"}  # by others
UNDRAWN = (
    CODES
    | PROOFS
    | {
        "redeliver",  # which takes what was tried for hours
        *("createChatLinkCode", "deleteChatLink", "showSubscription"),  # for chats and customers that an operator names
    }
)
TRACES = [f"{number:032x}" for number in (1, 2)]
SPANS = [f"{number:016x}" for number in (1, 2, 3)]
FILTERS = ["serviceName:shop", "environment:unknown -release:2", '[{"key": "text", "op": "starts_with", "value": "g"}]']
KEYS = ["serviceName", "durationMs", "text", "whole", "attr:largest", "list"]


def text(**values: str) -> list[KeyValue]:
    return [KeyValue(key=key.replace("_", "."), value=AnyValue(string_value=value)) for key, value in values.items()]


def store(sluice: Sluice) -> None:
    """Two traces with everything in them, log records and an error."""
    now = time.time_ns()
    spans, logs = ExportTraceServiceRequest(), ExportLogsServiceRequest()
    resource = Resource(attributes=text(service_name="shop", service_version="1.2", host_name="one"))
    group = spans.resource_spans.add(resource=resource).scope_spans.add()
    records = logs.resource_logs.add(resource=resource).scope_logs.add()
    for trace in TRACES:
        for number, span in enumerate(SPANS):
            raised = text(exception_type="KeyError", exception_message=f"no {number}", exception_stacktrace="at main")
            group.spans.add(
                trace_id=bytes.fromhex(trace),
                span_id=bytes.fromhex(span),
                parent_span_id=bytes.fromhex(SPANS[0]) if number else b"",
                name=f"step {number}",
                kind=2,
                start_time_unix_nano=now - 60 * SECOND + number,
                end_time_unix_nano=now - 60 * SECOND + number * 5_000_001,
                attributes=every_kind_of_value(),
                events=[Span.Event(name="exception", time_unix_nano=now - 59 * SECOND, attributes=raised)],
                links=[Span.Link(trace_id=bytes.fromhex(TRACES[0]), span_id=bytes.fromhex(span))],
            )
        for body in every_kind_of_value():
            records.log_records.add(
                time_unix_nano=now - 58 * SECOND,
                trace_id=bytes.fromhex(trace),
                span_id=bytes.fromhex(SPANS[1]),
                body=body.value,
            )
    assert sluice.export("traces", spans.SerializeToString()).status == 200
    assert sluice.export("logs", logs.SerializeToString()).status == 200
    settled(sluice)


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sluice]:
    """A Sluice with telemetry in it, and without a limit on how often it may be asked."""
    directory: Path = tmp_path_factory.mktemp("described")
    limits = "API ANALYSIS FAILED_BEARER FAILED_KEY FAILED_LOGIN OTLP APPROVAL CHANNEL_TEST VISITOR REFRESH FAILED_SSO"
    unlimited = {f"SLUICE_{name}_RATE": "0" for name in limits.split()}
    sluice = running(directory / "data", directory / "log", **unlimited)
    store(sluice)
    yield sluice
    sluice.stop()


class Run(NamedTuple):
    """What came of all requests: answers by operation and status, what was wrong with any, and the document."""

    answers: Counter[tuple[str, int]]
    faults: list[str]
    document: Any


@pytest.fixture(scope="module")
def run(product: Sluice) -> Run:
    """All requests, made and checked: with a token, those that remove things last, and with a session."""
    ada = Person(product, "ada@example.org")
    known = stored(product) | governed(product, ada)
    document = exemplified(product.get("/openapi.json").json(), known)
    seen = Run(Counter(), [], document)
    below = {"path_regex": "^/orgs/"}
    ask(seen, product, known, product.token, lambda schema: schema.include(**below).exclude(method="DELETE"))
    ask(seen, product, known, product.token, lambda schema: schema.include(**below, method="DELETE"))
    ask(seen, product, known, ada.login(), lambda schema: schema.include(operation_id="refreshSession"))
    fresh = {"body.refreshToken": [ada.session()["refreshToken"] for _ in SEVERAL], "body.orgSlug": [product.org]}
    ask(seen, product, known | fresh, ada.login(), lambda schema: schema.include(operation_id="switchOrganization"))
    connect(product)  # whatever has become of the connections above
    ask(seen, product, known, product.token, lambda schema: schema.include(path_regex="^/sso/"))
    others = {"path_regex": "^/auth/"}  # some of which end sessions
    ask(
        seen,
        product,
        known,
        ada.login(),
        lambda schema: schema.include(**others).exclude(operation_id=["refreshSession", "switchOrganization"]),
    )
    return seen


def ask(seen: Run, product: Sluice, known: dict[str, list[str]], token: str, which: Callable[[Any], Any]) -> None:
    """Make the requests of some operations."""
    schema = schemathesis.openapi.from_dict(seen.document, config=configured(product, known, token))
    schema.config.update(base_url=product.base_url)
    for event in from_schema(which(schema).exclude(operation_id=SELF_DESTRUCTIVE)).execute():
        if isinstance(event, events.ScenarioFinished):
            seen.answers.update(answered(event))
            seen.faults.extend(wrong(event))
        elif isinstance(event, events.NonFatalError | events.FatalError):
            seen.faults.append(str(event))


@dataclass
class Person:
    """A member with a password."""

    sluice: Sluice
    email: str

    def __post_init__(self) -> None:
        invited = made(self.sluice, "/invitations", {"email": self.email, "role": "MEMBER"})["inviteToken"]
        self.id: str = posted(
            self.sluice, "/auth/invitations/accept", {"inviteToken": invited, "name": "A", "password": PASSWORD}
        )["user"]["id"]

    def session(self) -> dict[str, str]:
        """Tokens of a new one."""
        found: dict[str, str] = posted(self.sluice, "/auth/login", {"email": self.email, "password": PASSWORD})[
            "tokens"
        ]
        return found

    def login(self) -> str:
        """The access token of a new session."""
        return self.session()["accessToken"]


def posted(sluice: Sluice, path: str, body: object, token: str | None = None) -> Any:
    """What a request was answered that must work."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token or sluice.token}"}
    answer = call("POST", f"{sluice.control_url}{path}", json.dumps(body).encode(), headers)
    assert answer.status in (200, 201), (path, answer)
    return answer.json()


def made(sluice: Sluice, path: str, body: object, token: str | None = None) -> Any:
    """Likewise, below the organization."""
    return posted(sluice, f"/orgs/{sluice.org}{path}", body, token)


def governed(product: Sluice, ada: Person) -> dict[str, list[str]]:
    """Some of everything that control holds, so that there are things to change and to remove."""
    web, access = f"/projects/{product.project}", ada.login()
    hook = {"kind": "webhook", "config": {"url": "https://hooks.example.invalid/x", "secret": "whsec_" + "QUJD" * 8}}
    policy = {"actionPattern": "deploy.*", "effect": "ASK", "riskClass": "HIGH"}
    question = {"action": "deploy.production", "targetType": "service"}
    agents = [made(product, "/principals", {"kind": "agent", "name": f"a{n}"})["principalId"] for n in SEVERAL]
    channels = [made(product, f"{web}/notification-channels", hook | {"name": f"c{n}"})["id"] for n in SEVERAL]
    for channel in channels:
        made(product, f"{web}/notification-channels/{channel}/test", {})
    invitations = [made(product, "/invitations", {"email": f"i{n}@example.org", "role": "VIEWER"}) for n in SEVERAL]
    asked = [made(product, "/approval-requests", question | {"targetId": f"t{n}"}, access) for n in SEVERAL]
    return {
        "path.principalId": [*agents, *(Person(product, f"p{n}@example.org").id for n in SEVERAL[:2])],
        "path.keyId": [made(product, f"{web}/keys", {"name": f"k{n}"})["id"] for n in SEVERAL],
        "path.channelId": channels,
        "path.policyId": [made(product, "/approval-policies", policy | {"name": f"p{n}"})["id"] for n in SEVERAL],
        "path.invitationId": [one["id"] for one in invitations[:4]],
        "path.requestId": [one["request"]["id"] for one in asked],
        "path.viewId": [made(product, f"{web}/views", {"name": f"v{n}", "path": "/ui/"})["id"] for n in SEVERAL],
        **tracked(product),
        **integrated(product),
        **proven(product),
        "path.deliveryId": [one["id"] for one in product.get(f"/orgs/{product.org}/deliveries").json()["data"]],
        "body.inviteToken": [one["inviteToken"] for one in invitations[4:]],
        "body.refreshToken": [ada.session()["refreshToken"] for _ in SEVERAL[:4]],
        "body.email": [ada.email],
        "body.password": [PASSWORD],
        "body.current": [PASSWORD],
    }


def tracked(product: Sluice) -> dict[str, list[str]]:
    """The issue of the error, with links; releases and changes."""
    web = f"/projects/{product.project}"
    (issue,) = eventually(lambda: product.get(f"/orgs/{product.org}{web}/issues").json()["data"], "the issue")
    release, change = {"projects": [product.project]}, {"kind": "flag"}
    return {
        "path.issueId": [issue["id"]],
        "path.linkId": [
            made(product, f"{web}/issues/{issue['id']}/links", {"url": f"https://tracker.example.com/{n}"})["id"]
            for n in SEVERAL
        ],
        "path.releaseId": [made(product, "/releases", release | {"version": f"1.{n}.0"})["id"] for n in SEVERAL],
        "path.changeId": [made(product, "/changes", change | {"title": f"t{n}"})["id"] for n in SEVERAL],
    }


def integrated(product: Sluice) -> dict[str, list[str]]:
    """Integrations, of which the first has delivered something."""
    every = [made(product, "/integrations", {"kind": "gitea", "name": f"i{n}"}) for n in SEVERAL]
    first, body = every[0], b'{"zen": "x"}'
    signature = hmac.new(first["secret"].encode(), body, hashlib.sha256).hexdigest()
    headers = {"X-Gitea-Event": "ping", "X-Gitea-Signature": signature, "Content-Type": "application/json"}
    url = f"{product.control_url}/webhooks/scm/gitea?hook={first['id']}"
    assert call("POST", url, body, headers).status == 200
    path = f"/orgs/{product.org}/integrations/{first['id']}/deliveries"
    (delivery,) = product.get(path).json()["data"]
    return {"path.integrationId": [one["id"] for one in every], "path.inboundDeliveryId": [delivery["id"]]}


def proven(product: Sluice) -> dict[str, list[str]]:
    """Keys of issuers, and bundles."""
    keys = [Ed25519PrivateKey.generate().public_key() for _ in SEVERAL]
    issuer, subject = {"issuer": "x", "name": "x"}, {"orgSlug": product.org, "projectSlug": product.project}
    issuers = [made(product, "/proof-issuers", issuer | {"publicKey": dsse.public_pem(key)}) for key in keys]
    path = f"/projects/{product.project}/proof-bundles"
    bundles = [made(product, path, bundle(subject=subject))["bundleId"] for _ in SEVERAL]
    return {"path.issuerKeyId": [one["id"] for one in issuers], "path.bundleId": bundles}


def connect(product: Sluice) -> None:
    """A provider of SAML, to which nobody goes."""
    body = {
        "idpEntityId": saml_idp.IDP,
        "idpSsoUrl": "https://idp.example.com/sso",
        "idpCertificate": saml_idp.certificate_pem(saml_idp.rsa_key()),
        "enabled": True,
    }
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {product.token}"}
    url = f"{product.control_url}/orgs/{product.org}/sso/connections/SAML"
    assert call("PUT", url, json.dumps(body).encode(), headers).status == 200


def stored(product: Sluice) -> dict[str, list[str]]:
    """What to ask for, so that something is found."""
    (error,) = eventually(lambda: product.explore("/errors")["data"], "an error")
    (occurrence, *_) = product.explore(f"/errors/{error['fingerprint']}/occurrences")["data"]
    return {
        "path.traceId": TRACES,
        "path.spanId": SPANS,
        "path.fingerprint": [error["fingerprint"]],
        "path.occurrenceId": [occurrence["id"]],
        "query.traceId": TRACES,
        "query.filters": FILTERS,
        "query.from": ["now-1h", "-30m", "2026-01-01"],
        "query.to": ["now", "now+1h"],
        "body.field": KEYS,
        "body.groupBy": KEYS,
    }


def exemplified(document: Any, known: dict[str, list[str]]) -> Any:
    """The document with known values as examples: what requests at the bounds of one parameter have for the others.

    Cursors are left to one list: where any text but one is refused, every other fault would hide behind it.
    """
    for item in document["paths"].values():
        for operation in item.values():
            parameters = operation["parameters"]
            for each in parameters:
                values = known.get(f"{each['in']}.{each['name']}")
                if values:
                    each["example"] = values[0]
            if operation["operationId"] != "listLogs":
                parameters[:] = [each for each in parameters if each["name"] != "cursor"]
    return document


def configured(product: Sluice, known: dict[str, list[str]], token: str) -> SchemathesisConfig:
    """How much to ask, and what to ask for."""
    return SchemathesisConfig.from_dict(
        {
            "seed": 1,
            "continue-on-failure": True,
            "headers": {"Authorization": f"Bearer {token}"},
            "generation": {"deterministic": True, "no-shrink": True, "max-examples": EXAMPLES},
            "phases": {"coverage": {"enabled": LONG, "unexpected-methods": ["DELETE"]}, "stateful": {"enabled": False}},
            # What a schema allows may still be refused: a time after its end, a cursor that nobody gave out.
            "checks": {"positive_data_acceptance": {"enabled": False}},
            "dictionaries": {name: {"values": values} for name, values in known.items()},
            "parameters": {
                "path.orgSlug": product.org,
                "path.projectSlug": product.project,
                **{name: {"dictionary": name, "probability": KNOWN} for name in known},
            },
        }
    )


def answered(event: events.ScenarioFinished) -> Iterator[tuple[str, int]]:
    for interaction in event.recorder.interactions.values():
        if interaction.response is not None:
            yield event.recorder.label, interaction.response.status_code


def wrong(event: events.ScenarioFinished) -> Iterator[str]:
    for case, checks in event.recorder.checks.items():
        for check in checks:
            if check.failure_info is not None:
                request = event.recorder.interactions[case].request
                asked = f"{request.method} {request.uri} {(request.body or b'')!r}"
                yield f"{check.name}: {asked}\n{check.failure_info.failure}"


def test_every_answer_is_announced(run: Run) -> None:
    assert not run.faults, "\n\n".join(run.faults)


def test_every_operation_was_asked(run: Run) -> None:
    """Otherwise the test above would say little."""
    assert {name for name, _ in operations(run.document)} == {operation for operation, _ in run.answers}
    succeeded = {operation for operation, status in run.answers if status < 400}
    drawn = {name for name, operation in operations(run.document) if operation["operationId"] not in UNDRAWN}
    assert len(drawn - succeeded) <= len(drawn) // 8, drawn - succeeded  # three draws each; the long run has them all


@pytest.mark.long
def test_every_operation_was_asked_well_and_badly(run: Run) -> None:
    statuses: dict[str, set[int]] = {}
    for operation, status in run.answers:
        statuses.setdefault(operation, set()).add(status)
    lacking = {
        name: (wanted, sorted(statuses.get(name, ())))
        for name, operation in operations(run.document)
        if (wanted := missing(operation, statuses.get(name, set())))
    }
    assert lacking == {}


def operations(document: Any) -> Iterator[tuple[str, Any]]:
    """Those that were to be asked, by method and path."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if path.startswith(("/orgs/", "/auth/", "/sso/")) and operation["operationId"] not in SELF_DESTRUCTIVE:
                yield f"{method.upper()} {path}", operation


def missing(operation: Any, seen: set[int]) -> list[str]:
    """What an operation was not answered."""
    lacks = []
    if operation["operationId"] not in UNDRAWN and not any(status < 400 for status in seen):
        lacks.append("success")
    bounded = any(each["in"] == "query" for each in operation["parameters"])
    if (bounded or "requestBody" in operation) and 400 not in seen:
        lacks.append("400")
    if operation["security"] and 401 not in seen:
        lacks.append("401")
    return lacks
