"""What is secret is nowhere in clear once the product has been used: not in its files, its log, answers or metrics.

A tenant's values that are scrubbed pass through the journal, within its hold period; nothing else of a request does.
"""

import hashlib
import hmac
import io
import json
import secrets
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.e2e.object_store import ObjectStore, object_store
from tests.e2e.product import Answer, Sluice, call, eventually, running
from tests.e2e.reading import SECOND, settled
from tests.e2e.test_issues import the_issue

KEYS = {"bootstrap.json", "cursor.key", "signing.key", "sealing.keys"}  # which are secrets, for their owner alone
CARD = "4111 1111 1111 1111"
CHAT_SECRET, PAYMENTS_SECRET = secrets.token_hex(16), "whsec_" + secrets.token_hex(16)


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sluice]:
    directory = tmp_path_factory.mktemp("secrets")
    settings = {
        "SLUICE_CONTROL_CHAT_A_SIGNING_SECRETS": CHAT_SECRET,
        "SLUICE_CONTROL_PAYMENTS_SECRETS": PAYMENTS_SECRET,
        "SLUICE_CONTROL_EGRESS_ALLOW": "127.0.0.0/8",
        "SLUICE_CONTROL_EGRESS_HTTP": "true",
        "SLUICE_CONTROL_WAREHOUSE_INTERVAL_S": "0",
    }
    sluice = running(directory / "data", directory / "log", SLUICE_LOG_LEVEL="debug", **settings)
    yield sluice
    sluice.kill()


class Use:
    """Uses the product; keeps what is secret, and what is said to anybody but whom the secret is for."""

    def __init__(self, sluice: Sluice) -> None:
        self.sluice = sluice
        self.secrets = {"project key": sluice.key, "access token": sluice.token}
        self.said: list[bytes] = []

    def control(self, method: str, path: str, body: object = None, token: str | None = None) -> Answer:
        """As the owner."""
        given = {"Authorization": f"Bearer {token or self.sluice.token}", "Content-Type": "application/json"}
        sent = None if body is None else json.dumps(body).encode()
        return call(method, f"{self.sluice.control_url}{path}", sent, given)

    def made(self, path: str, body: object, name: str) -> str:
        """The secret that is shown this once."""
        answer = self.control("POST", f"/orgs/{self.sluice.org}{path}", body)
        assert answer.status == 201, answer.body
        secret: str = answer.json()[name]
        return secret

    def keys(self) -> None:
        token = self.secrets["another token"] = self.made("/tokens", {"name": "x"}, "token")
        self.secrets["another key"] = self.made(f"/projects/{self.sluice.project}/keys", {"name": "x"}, "key")
        assert self.control("GET", f"/orgs/{self.sluice.org}/tokens", token=token).status == 200
        self.said.append(
            self.control("GET", f"/orgs/{self.sluice.org}/tokens?legacy_key={token}", token=token + "x").body
        )
        wrong = self.secrets["wrong key"] = secrets.token_hex(16)
        for signal in ("traces", "logs"):
            self.said.append(self.sluice.export(signal, b"", X_Legacy_Auth=f"Legacy legacy_key={wrong}").body)

    def people(self) -> None:
        password = self.secrets["password"] = "-".join(secrets.token_hex(4) for _ in range(4))
        body = {"email": "ada@example.org", "role": "MEMBER"}
        invite = self.secrets["invitation"] = self.made("/invitations", body, "inviteToken")
        answer = self.control(
            "POST", "/auth/invitations/accept", {"inviteToken": invite, "name": "A", "password": password}
        )
        assert answer.status == 201, answer.body
        tokens = answer.json()["tokens"]
        self.secrets |= {"session": tokens["accessToken"], "refresh token": tokens["refreshToken"]}
        self.said.append(self.control("GET", "/auth/user", token=tokens["accessToken"]).body)
        login = {"email": "ada@example.org", "password": password + "x"}
        self.said.append(self.control("POST", "/auth/login", login).body)

    def channels(self) -> None:
        secret = self.secrets["signing secret"] = "whsec_" + secrets.token_hex(16)
        path = self.secrets["path of an address"] = secrets.token_hex(12)
        config = {"url": f"https://hooks.example.invalid/{path}", "secret": secret}
        channels = f"/projects/{self.sluice.project}/notification-channels"
        made = self.made(channels, {"name": "x", "kind": "webhook", "config": config}, "id")
        where = f"/orgs/{self.sluice.org}{channels}"
        self.said += [self.control("POST", f"{where}/{made}/test").body, self.control("GET", where).body]

    def webhooks(self) -> None:
        """Secrets of integrations, old and new, the operator's, and what chats send that gives access."""
        self.secrets |= {"chat secret": CHAT_SECRET, "payments secret": PAYMENTS_SECRET}
        answer = self.control("POST", f"/orgs/{self.sluice.org}/integrations", {"kind": "gitea", "name": "x"}).json()
        self.secrets["old secret of a webhook"] = answer["secret"]
        where = f"/orgs/{self.sluice.org}/integrations/{answer['id']}"
        secret = self.secrets["secret of a webhook"] = self.control("POST", f"{where}/rotate", {}).json()["secret"]
        hidden = self.secrets["secret in a body"] = secrets.token_hex(16)
        for body in (json.dumps({"zen": hidden}).encode(), f"[{hidden}".encode()):
            for key in (secret, hidden):
                headers = {"X-Gitea-Event": "ping", "X-Gitea-Signature": hexadecimal(key, body)}
                url = f"{self.sluice.control_url}/webhooks/scm/gitea?hook={answer['id']}"
                self.said.append(call("POST", url, body, headers).body)
        self.said += [self.control("GET", path).body for path in (where, f"{where}/deliveries")]
        code = self.secrets["code of a chat user"] = secrets.token_hex(14)
        address = self.secrets["address of a reply"] = secrets.token_hex(16)
        fields = {"command": "/sluice", "text": f"link {code}", "team_id": "T1", "user_id": "U1", "trigger_id": "1.2"}
        form = urllib.parse.urlencode(fields | {"response_url": f"https://hooks.slack.com/{address}"}).encode()
        at = str(int(time.time()))
        for key in (CHAT_SECRET, hidden):
            signature = hexadecimal(key, f"v0:{at}:".encode() + form)
            headers = {"X-Slack-Signature": f"v0={signature}", "X-Slack-Request-Timestamp": at}
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            self.said.append(call("POST", f"{self.sluice.control_url}/webhooks/chat-a/commands", form, headers).body)
        event = json.dumps({"id": "evt_1", "type": "x", "created": int(at), "data": {"object": {"x": hidden}}}).encode()
        for key in (PAYMENTS_SECRET, hidden):
            headers = {"Stripe-Signature": f"t={at},v1={hexadecimal(key, f'{at}.'.encode() + event)}"}
            self.said.append(call("POST", f"{self.sluice.control_url}/webhooks/payments", event, headers).body)

    def sinks(self, store: ObjectStore) -> None:
        """Credentials of every kind of sink: of one that exports, and of others that fail."""
        own = {name: secrets.token_hex(16) for name in ("key", "account", "sas")}
        keys = {name: private_key() for name in ("snowflake", "google")}
        own |= {name: pem.splitlines()[9] for name, pem in keys.items()}
        google = {"client_email": "x@example.invalid", "token_uri": "https://token.example.invalid"}
        google["private_key"] = keys["google"]
        self.secrets |= {f"credentials of a sink ({name})": secret for name, secret in own.items()}
        azure = {"provider": "azure", "account": "a", "container": "c", "endpoint": "https://azure.example.invalid"}
        warehouse = {"account": "a", "user": "u", "warehouse": "w", "database": "d", "schema": "s", "stage": "t"}
        for kind, config in (
            ("BLOBSTORE", store.config(own["key"])),
            ("BLOBSTORE", azure | {"accountKey": own["account"]}),
            ("BLOBSTORE", azure | {"sasToken": f"sig={own['sas']}"}),
            ("SNOWFLAKE", warehouse | {"privateKey": keys["snowflake"], "store": store.config(own["key"])}),
            ("BIGQUERY", {"projectId": "p", "dataset": "d", "credentialsJson": json.dumps(google)}),
        ):
            made = self.made("/warehouse/sinks", {"name": "x", "kind": kind, "config": config}, "id")
            where = f"/orgs/{self.sluice.org}/warehouse/sinks/{made}"
            answer = self.control("POST", f"{where}/export", {"maxBatchesPerStream": 1})
            assert answer.status == 200, answer.body
            assert [run["status"] for run in answer.json()["runs"]].count("NOT_CONFIGURED") == 0
            self.said += [answer.body, self.control("GET", f"{where}/status").body]
        wrong = {"name": "x", "kind": "BLOBSTORE", "config": {"secretAccessKey": [own["key"]], "x": own["key"]}}
        self.said.append(self.control("POST", f"/orgs/{self.sluice.org}/warehouse/sinks", wrong).body)
        self.said.append(self.control("GET", f"/orgs/{self.sluice.org}/warehouse/sinks").body)

    def telemetry(self) -> None:
        """Values that are scrubbed, of a span and of a log record."""
        now = time.time_ns()
        scrubbed = self.secrets["scrubbed value"] = secrets.token_hex(16)
        self.secrets["scrubbed number"] = CARD
        attributes = [KeyValue(key="db.password", value=AnyValue(string_value=scrubbed))]
        attributes.append(KeyValue(key="said", value=AnyValue(string_value=f"my card is {CARD}, charge it")))
        span = Span(
            trace_id=b"t" * 16, span_id=b"s" * 8, name="x", start_time_unix_nano=now, end_time_unix_nano=now + SECOND
        )
        span.attributes.extend(attributes)
        spans, logs = ExportTraceServiceRequest(), ExportLogsServiceRequest()
        spans.resource_spans.add().scope_spans.add().spans.append(span)
        record = logs.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=now, attributes=attributes)
        record.body.string_value = f"pay with {CARD}"
        error = logs.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=now, severity_number=17)
        for key, value in (("exception.type", "CardError"), ("exception.message", f"no money on {CARD}")):
            error.attributes.append(KeyValue(key=key, value=AnyValue(string_value=value)))
        assert self.sluice.export("traces", spans.SerializeToString()).status == 200
        assert self.sluice.export("logs", logs.SerializeToString()).status == 200
        self.said.append(self.sluice.export("traces", spans.SerializeToString()[:-3]).body)
        settled(self.sluice)
        found = eventually(lambda: self.sluice.explore("/logs?hours=1")["data"], "a log record")
        self.said += [repr(found).encode(), repr(self.sluice.explore("/spans?hours=1")["data"]).encode()]


def private_key() -> str:
    """In PEM."""
    key = rsa.generate_private_key(65_537, 2_048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def hexadecimal(key: str, signed: bytes) -> str:
    return hmac.new(key.encode(), signed, hashlib.sha256).hexdigest()


def exported(store: ObjectStore) -> bytes:
    """All rows in the bucket, as text."""
    tables = [pq.read_table(io.BytesIO(store.read(key))) for key in store.list_keys()]
    return repr([table.to_pylist() for table in tables]).encode()


def test_secrets_are_nowhere_in_clear(product: Sluice) -> None:
    use = Use(product)
    use.keys()
    use.people()
    use.channels()
    use.webhooks()
    use.telemetry()
    with object_store() as store:
        eventually(lambda: the_issue(product, "CardError"), "the issue")
        use.sinks(store)
        objects = exported(store)
    assert b"CardError" in objects
    searched = {
        "objects": objects,
        "answers": b"\0".join(use.said),
        "metrics": call("GET", f"{product.control_url}/metrics").body,
        "audit": use.control("GET", f"/orgs/{product.org}/audit/export").body,
    }
    product.stop()
    searched |= {"log": product.writer.log.read_bytes(), "files": files(product.data)}
    for where, content in searched.items():
        assert content, where
        for what, secret in use.secrets.items():
            assert secret.encode() not in content, f"{what} is in the {where}"
    assert b"[scrubbed]" in searched["answers"]


def files(data: Path) -> bytes:
    """Of the database, of the telemetry store, and whatever else is left, but for the journal."""
    left = [path for path in data.rglob("*") if path.is_file() and path.name not in KEYS]
    return b"\0".join(path.read_bytes() for path in left if "journal" not in path.relative_to(data).parts)
