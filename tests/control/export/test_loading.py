"""Warehouses by their APIs, as their vendors document them: a file is loaded once, whatever is lost on the way."""

import base64
import hashlib
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from joserfc import jwt
from joserfc.jwk import RSAKey
from msgspec import structs

from control.export.destinations import bigquery, snowflake
from control.export.destinations.bigquery import BigQuery
from control.export.destinations.interfaces import DestinationError, ExportedFile
from control.export.destinations.snowflake import Snowflake
from control.export.model import BigQueryConfig, BlobstoreConfig, SnowflakeConfig
from control.export.streams.schemas import INGEST_OUTCOMES, Column, ColumnType
from control.outbound.egress import Egress
from control.outbound.egress_policy import EgressPolicy
from tests.control.outbound.going_out import opened
from tests.selection import scaled

KEY = rsa.generate_private_key(65537, 2048)
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
PUBLIC = RSAKey.import_key(KEY.public_key())
TABLE = "SLUICE_INGEST_OUTCOMES"


def file(number: int) -> ExportedFile:
    return ExportedFile(f"snk_1_batch_{number}", INGEST_OUTCOMES, f"acme/it's/{number}.parquet", b"PAR1%d" % number)


class Faults:
    """What is lost: the answer of the n-th request, after the server has acted, or the whole request."""

    def __init__(self) -> None:
        self.statuses: list[int] = []  # of the next requests, instead of acting
        self.lost = 0  # answers to lose, after acting

    def before(self) -> web.Response | None:
        return web.Response(status=self.statuses.pop(0), text="an inner secret") if self.statuses else None

    def after(self, request: web.Request) -> None:
        if self.lost:
            self.lost -= 1
            assert request.transport is not None
            request.transport.abort()


class FakeSnowflake(Faults):
    """The SQL API: a request id is run once; COPY loads a file once."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.statements: list[str] = []
        self._ids: dict[str, str] = {}
        self.is_slow = False
        self.code: str | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        token = request.headers["Authorization"].removeprefix("Bearer ")
        claims = jwt.decode(token, PUBLIC, algorithms=["RS256"]).claims
        der = KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        fingerprint = base64.b64encode(hashlib.sha256(der).digest()).decode()
        assert claims["iss"] == f"ORG-ACCOUNT.LOADER.SHA256:{fingerprint}"
        assert (claims["sub"], claims["exp"] > claims["iat"]) == ("ORG-ACCOUNT.LOADER", True)
        assert request.headers["X-Snowflake-Authorization-Token-Type"] == "KEYPAIR_JWT"
        if (fault := self.before()) is not None:
            return fault
        if request.method == "GET":
            self.is_slow = False
            return web.json_response({"code": "090001"})
        if self.code is not None:
            return web.json_response({"code": self.code, "message": "an inner secret"}, status=422)
        body = await request.json()
        assert {body[name] for name in ("warehouse", "database", "schema", "role")} == {"WH", "DB", "PUBLIC", "R"}
        name = request.query["requestId"]
        assert request.query["retry"] == "true"
        assert self._ids.setdefault(name, body["statement"]) == body["statement"]
        if body["statement"] not in self.statements:
            self.statements.append(body["statement"])
            copied = re.search(r"FILES = \('((?:[^'\\]|\\.)+)'\)", body["statement"])
            if copied is not None and copied[1] not in self.loaded:
                self.loaded.append(copied[1])
        self.after(request)
        if self.is_slow:
            return web.json_response({"statementHandle": "h-1"}, status=202)
        return web.json_response({"code": "090001"})


@asynccontextmanager
async def served(fake: Any) -> AsyncIterator[tuple[str, Any]]:
    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{path:.*}", fake.handle)
    server = TestServer(app)
    await server.start_server()
    async with opened() as egress:
        yield str(server.make_url("")).rstrip("/"), egress
    await server.close()


def snowflake_config(url: str, key: str = PEM) -> SnowflakeConfig:
    return SnowflakeConfig(
        account="org-account",
        user="loader",
        private_key=key,
        warehouse="WH",
        database="DB",
        schema="PUBLIC",
        stage="STAGE",
        role="R",
        store=BlobstoreConfig(),
        endpoint=url,
    )


async def test_snowflake_copies_each_file_once() -> None:
    fake = FakeSnowflake()
    async with served(fake) as (url, egress):
        loader = Snowflake(snowflake_config(url), egress, "org", "acme/")
        assert await loader.load(file(1)) == TABLE
        fake.lost = 2  # the client repeats a request by itself only if it changes nothing
        with pytest.raises(DestinationError) as failure:
            await loader.load(file(2))
        assert not failure.value.permanent
        fake.lost = 0
        for number in (2, 2, 1):
            await loader.load(file(number))
        await Snowflake(snowflake_config(url), egress, "org", "acme/").load(file(2))
        fake.is_slow = True
        await loader.load(file(3))
    assert fake.loaded == [rf"it\'s/{number}.parquet" for number in (1, 2, 3)]
    create, copy, *_ = fake.statements
    assert create.startswith(f"CREATE TABLE IF NOT EXISTS {TABLE} (ROW_ID VARCHAR, ")
    assert "STORED_AT TIMESTAMP_TZ" in create
    assert copy.startswith(f"COPY INTO {TABLE} FROM @STAGE FILES = ('it\\'s/1.parquet') FILE_FORMAT = (TYPE = PARQUET")


async def test_columns_of_later_versions_are_added_to_tables_of_earlier_ones() -> None:
    fake = FakeSnowflake()
    new = (
        Column("host", ColumnType.STRING, "x", nullable=True, since=2),
        Column("n", ColumnType.INTEGER, "x", since=3),
    )
    schema = replace(INGEST_OUTCOMES, version=3, columns=(*INGEST_OUTCOMES.columns, *new))
    async with served(fake) as (url, egress):
        await Snowflake(snowflake_config(url), egress, "org", "acme/").load(replace(file(1), schema=schema))
    create, *added, _ = fake.statements
    assert create.endswith(", HOST VARCHAR, N NUMBER(19, 0))")
    assert added == [
        f"ALTER TABLE {TABLE} ADD COLUMN IF NOT EXISTS HOST VARCHAR",
        f"ALTER TABLE {TABLE} ADD COLUMN IF NOT EXISTS N NUMBER(19, 0)",
    ]


async def test_what_snowflake_refuses() -> None:
    fake = FakeSnowflake()
    async with served(fake) as (url, egress):
        for status, words, permanent in (
            (401, "refused the key", True),
            (503, "busy", False),
            (500, "internal error", False),
        ):
            fake.statuses = [status]
            await _fails(Snowflake(snowflake_config(url), egress, "org", ""), words, permanent)
        fake.code = "002003"
        await _fails(Snowflake(snowflake_config(url), egress, "org", ""), "code 002003", permanent=True)
        fake.code = "'; DROP"
        await _fails(
            Snowflake(snowflake_config(url), egress, "org", ""), "refused the statement. Check", permanent=True
        )
        with pytest.raises(DestinationError, match="privateKey"):
            Snowflake(snowflake_config(url, "no key"), egress, "org", "")


class FakeBigQuery(Faults):
    """Load jobs: an id is used once."""

    def __init__(self, below: str = "") -> None:
        super().__init__()
        self.below = below  # which path it is
        self.rows: list[bytes] = []
        self.jobs: dict[str, dict[str, Any]] = {}
        self.failing = 0  # jobs that load nothing
        self.tokens = 0
        self.requests = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/token":
            form = await request.post()
            claims = jwt.decode(str(form["assertion"]), PUBLIC, algorithms=["RS256"]).claims
            assert (claims["iss"], claims["scope"]) == ("sluice@example.com", bigquery.SCOPE)
            self.tokens += 1
            return web.json_response({"access_token": "an access token", "expires_in": 3_600})
        self.requests += 1
        assert request.headers["Authorization"] == "Bearer an access token"
        if (fault := self.before()) is not None:
            return fault
        if request.method == "GET":
            assert request.query["location"] == "EU"
            job = self.jobs.get(request.path.rpartition("/")[2])
            return web.json_response({} if job is None else job, status=404 if job is None else 200)
        path = f"{self.below}/upload/bigquery/v2/projects/p-1/jobs"
        assert (request.path, request.query["uploadType"]) == (path, "multipart")
        boundary = request.headers["Content-Type"].partition("boundary=")[2]
        _, head, data, _ = (await request.read()).split(f"--{boundary}".encode())
        job = json.loads(head.partition(b"\r\n\r\n")[2])
        load = job["configuration"]["load"]
        assert load["destinationTable"] == {"projectId": "p-1", "datasetId": "d", "tableId": TABLE.lower()}
        assert load["schema"]["fields"][0] == {"name": "row_id", "type": "STRING", "mode": "NULLABLE"}
        job_id = job["jobReference"]["jobId"]
        if job_id in self.jobs:
            return web.json_response({"error": {"message": "an inner secret"}}, status=409)
        status: dict[str, Any] = {"state": "DONE"}
        if self.failing:
            self.failing -= 1
            status["errorResult"] = {"reason": "invalid", "message": "an inner secret"}
        else:
            self.rows.append(data.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n"))
        self.jobs[job_id] = {"status": status}
        self.after(request)
        return web.json_response({"status": {"state": "RUNNING"}})


class _EveryJob(dict[str, Any]):
    """Each one exists, and has failed."""

    def __contains__(self, _: object) -> bool:
        return True

    def get(self, *_: object) -> Any:
        return {"status": {"state": "DONE", "errorResult": {"reason": "invalid"}}}


def bigquery_config(url: str, key: str = PEM) -> BigQueryConfig:
    credentials = {"client_email": "sluice@example.com", "private_key": key, "token_uri": f"{url}/token"}
    return BigQueryConfig(
        project_id="p-1", dataset="d", credentials_json=json.dumps(credentials), location="EU", endpoint=url
    )


async def test_bigquery_loads_each_file_once() -> None:
    fake = FakeBigQuery()
    async with served(fake) as (url, egress):
        loader = BigQuery(bigquery_config(url), egress, "org")
        assert await loader.load(file(1)) == "snk_1_batch_1"
        fake.lost = 1
        await _fails(loader, "not be reached", permanent=False, number=2)
        for number in (2, 2, 1):
            await loader.load(file(number))
        fake.failing = 2
        await _fails(loader, "(invalid)", permanent=True, number=3)
        await _fails(loader, "(invalid)", permanent=True, number=3)
        assert await loader.load(file(3)) == "snk_1_batch_3-3"
        assert await loader.load(file(3)) == "snk_1_batch_3-3"
    assert fake.rows == [b"PAR11", b"PAR12", b"PAR13"]
    assert fake.tokens == 1


@pytest.mark.sized
async def test_bigquery_loads_a_file_whose_jobs_have_failed_for_days() -> None:
    """A table that was wrong is mended at last; not every failure is asked for, or sent its file, again."""
    fake = FakeBigQuery()
    async with served(fake) as (url, egress):
        loader = BigQuery(bigquery_config(url), egress, "org")
        fake.failing = times = scaled(60, 300)
        for _ in range(times):
            await _fails(loader, "(invalid)", permanent=True)
        requests = fake.requests
        assert await loader.load(file(1)) == f"snk_1_batch_1-{times + 1}"
        assert fake.requests - requests < 30
        assert await loader.load(file(1)) == f"snk_1_batch_1-{times + 1}"
    assert fake.rows == [b"PAR11"]


async def test_what_bigquery_refuses() -> None:
    fake = FakeBigQuery()
    async with served(fake) as (url, egress):
        loader = BigQuery(bigquery_config(url), egress, "org")
        for status, words, permanent in ((403, "permission", True), (404, "dataset", True), (503, "busy", False)):
            fake.statuses = [status]
            await _fails(loader, words, permanent)
        fake.jobs = _EveryJob()
        await _fails(loader, "accepts no further load job", permanent=True)
        with pytest.raises(DestinationError, match="credentialsJson"):
            BigQuery(bigquery_config(url, "no key"), egress, "org")


async def test_an_endpoint_is_no_format() -> None:
    fake = FakeBigQuery("/{:>99}{0}")
    async with served(fake) as (url, egress):
        config = structs.replace(bigquery_config(url), endpoint=f"{url}/{{:>99}}{{0}}")
        assert await BigQuery(config, egress, "org").load(file(1)) == "snk_1_batch_1"


async def _fails(loader: Any, words: str, permanent: bool, number: int = 1) -> None:
    with pytest.raises(DestinationError) as failure:
        await loader.load(file(number))
    assert words in failure.value.detail
    assert failure.value.permanent is permanent
    assert "inner" not in failure.value.detail


def test_endpoints_are_urls_of_servers_and_nothing_else() -> None:
    """Nothing in one is a format: of a width it would take as much memory as it says."""
    for endpoint in ("nothing", "https://[::1", "https://h:99999", "https://u:p@h", "https://h/?a=b", "ftp://h"):
        with pytest.raises(DestinationError, match=r"config\.endpoint is not the URL of a server\."):
            Snowflake(snowflake_config(endpoint), Egress(EgressPolicy()), "org", "")
        with pytest.raises(DestinationError, match=r"config\.endpoint is not the URL of a server\."):
            BigQuery(bigquery_config(endpoint), Egress(EgressPolicy()), "org")


def test_no_representation_shows_a_secret() -> None:
    shown = repr(snowflake_config("https://x")) + repr(bigquery_config("https://x")) + str(bigquery_config("https://x"))
    assert "PRIVATE KEY" not in shown
    credentials, _ = bigquery._read_credentials(str(bigquery_config("https://x").credentials_json))
    assert "PRIVATE" not in repr(credentials)
    assert snowflake._private_key(PEM).key_size == 2_048
