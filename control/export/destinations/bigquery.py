"""BigQuery: load jobs with names that Sluice gives, by the REST API.

The name of a job is derived from its file. The same file is therefore loaded by one job, however often the job is sent.
A failed job has loaded nothing, and the next job for the file has another number in its name.

Source: cloud.google.com/bigquery/docs/reference/rest/v2/jobs, "Upload data"; developers.google.com/identity/protocols,
"Using OAuth 2.0 for server to server applications".
"""

import asyncio
import re
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from joserfc import jwt
from joserfc.jwk import RSAKey
from msgspec import UnsetType
from yarl import URL

from control.export.destinations.interfaces import DestinationError, ExportedFile, endpoint_url, given
from control.export.model import BigQueryConfig
from control.export.streams.schemas import ColumnType, StreamSchema
from control.outbound.egress import Egress, EgressError, HttpReply

SCOPE: Final = "https://www.googleapis.com/auth/bigquery"
GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
JOB_S: Final = 300.0  # per job
MAX_JOBS: Final = 2**20  # per file
_TRIES: Final = 5  # jobs to try per load: the first job, the last one, and jobs that another exporter creates meanwhile
_POLL_S: Final = 1.0
_TOKEN_TIME: Final = timedelta(minutes=60)
_RENEWED_S: Final = 300.0  # before a token expires
_REASON: Final = re.compile(r"[A-Za-z]{1,40}")
_TYPES: Final = MappingProxyType(
    {
        ColumnType.STRING: "STRING",
        ColumnType.INTEGER: "INT64",
        ColumnType.NUMBER: "FLOAT64",
        ColumnType.BOOLEAN: "BOOL",
        ColumnType.TIMESTAMP: "TIMESTAMP",
    }
)


class _Credentials(msgspec.Struct, frozen=True):
    client_email: str
    private_key: str
    private_key_id: str = ""
    token_uri: str = "https://oauth2.googleapis.com/token"  # noqa: S105 (an address)

    def __repr__(self) -> str:
        return "_Credentials(...)"


class _Token(msgspec.Struct):
    access_token: str
    expires_in: float = 3_600


class _Error(msgspec.Struct):
    reason: str = ""


class _Status(msgspec.Struct, rename="camel"):
    state: str = ""
    error_result: _Error | None = None


class _Job(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


class BigQuery:
    """One dataset."""

    def __init__(
        self,
        config: BigQueryConfig,
        egress: Egress,
        account: str,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._config = config
        self._egress = egress
        self._account = account
        self._now = now
        self._credentials, self._key = _read_credentials(given(config.credentials_json))
        self._token: tuple[float, str] | None = None
        self._base_url = str(endpoint_url(config.endpoint)).rstrip("/")
        self._jobs_path = f"bigquery/v2/projects/{given(config.project_id)}/jobs"

    async def load(self, file: ExportedFile) -> str:
        """Load a file, as `Loader` describes. Returns the id of the job."""
        number = 1
        for _ in range(_TRIES):
            job_id = _job_id(file, number)
            failure = await self._load(job_id, file)
            if failure is None:
                return job_id
            if not failure.is_earlier:
                raise DestinationError(
                    f"BigQuery could not load the file ({failure.reason}). Check the table and the permissions of the "
                    "service account.",
                    permanent=True,
                )
            number = max(number + 1, await self._find_last(file) if number == 1 else 0)
        raise DestinationError(
            "BigQuery could not load the file, and accepts no further load job for it.", permanent=True
        )

    async def _find_last(self, file: ExportedFile) -> int:
        """Find the number of the last job of a file whose first job exists. Jobs are numbered without gaps, so the last
        one is found in a few requests, however many have failed.
        """
        known, missing = 1, 2
        while missing < MAX_JOBS and await self._exists(_job_id(file, missing)):
            known, missing = missing, missing * 2
        while missing - known > 1:
            middle = (known + missing) // 2
            if await self._exists(_job_id(file, middle)):
                known = middle
            else:
                missing = middle
        return known

    async def _exists(self, job_id: str) -> bool:
        reply = await self._job(job_id)
        if reply.status not in (200, 404):
            raise _refused(reply)
        return reply.status == 200

    async def _job(self, job_id: str) -> HttpReply:
        location = {} if isinstance(self._config.location, UnsetType) else {"location": self._config.location}
        return await self._call(str(URL(f"{self._base_url}/{self._jobs_path}/{job_id}").with_query(location)), None, "")

    async def _load(self, job_id: str, file: ExportedFile) -> "_Failure | None":
        boundary = secrets.token_hex(16)
        job = msgspec.json.encode(self._definition(job_id, file.schema))
        head = f"--{boundary}\r\nContent-Type: application/json\r\n\r\n".encode()
        middle = f"\r\n--{boundary}\r\nContent-Type: application/vnd.apache.parquet\r\n\r\n".encode()
        body = b"".join((head, job, middle, file.body, f"\r\n--{boundary}--\r\n".encode()))
        url = f"{self._base_url}/upload/{self._jobs_path}?uploadType=multipart"
        reply = await self._call(url, body, f"multipart/related; boundary={boundary}")
        is_earlier = reply.status == 409
        if not is_earlier and reply.status != 200:
            raise _refused(reply)
        status = _decode(reply).status if reply.status == 200 else _Status()
        deadline = time.monotonic() + JOB_S
        while status.state != "DONE":
            if time.monotonic() > deadline:
                raise DestinationError("BigQuery did not finish the load job in time.")
            found = await self._job(job_id)
            if found.status != 200:
                raise _refused(found)
            status = _decode(found).status
            if status.state != "DONE":
                await asyncio.sleep(_POLL_S)
        if status.error_result is None:
            return None
        reason = status.error_result.reason
        return _Failure(reason if _REASON.fullmatch(reason) else "unknown", is_earlier)

    def _definition(self, job_id: str, schema: StreamSchema) -> dict[str, Any]:
        project, reference = given(self._config.project_id), {"jobId": job_id}
        if not isinstance(self._config.location, UnsetType):
            reference["location"] = self._config.location
        table = {"projectId": project, "datasetId": given(self._config.dataset), "tableId": schema.table}
        fields = [{"name": one.name, "type": _TYPES[one.type], "mode": "NULLABLE"} for one in schema.columns]
        load = {
            "destinationTable": table,
            "schema": {"fields": fields},
            "sourceFormat": "PARQUET",
            "createDisposition": "CREATE_IF_NEEDED",
            "writeDisposition": "WRITE_APPEND",
            "schemaUpdateOptions": ["ALLOW_FIELD_ADDITION", "ALLOW_FIELD_RELAXATION"],
        }
        return {"jobReference": {"projectId": project, **reference}, "configuration": {"load": load}}

    async def _call(self, url: str, body: bytes | None, content_type: str) -> HttpReply:
        headers = {"Authorization": f"Bearer {await self._access_token()}", "Accept": "application/json"}
        try:
            if body is None:
                return await self._egress.get(url, headers, account=self._account)
            headers["Content-Type"] = content_type
            return await self._egress.post(url, body, headers, account=self._account)
        except EgressError as error:
            raise DestinationError(
                f"BigQuery could not be reached. {error.detail}", permanent=error.permanent
            ) from error

    async def _access_token(self) -> str:
        if self._token is not None and time.monotonic() < self._token[0]:
            return self._token[1]
        now = self._now()
        uri = self._credentials.token_uri
        claims = {
            "iss": self._credentials.client_email,
            "scope": SCOPE,
            "aud": uri,
            "iat": now,
            "exp": now + _TOKEN_TIME,
        }
        header = {"alg": "RS256", "kid": self._credentials.private_key_id}
        form = {"grant_type": GRANT, "assertion": jwt.encode(header, claims, RSAKey.import_key(self._key))}
        try:
            reply = await self._egress.post_form(uri, form, {"Accept": "application/json"}, account=self._account)
        except EgressError as error:
            raise DestinationError(f"Google could not be reached. {error.detail}", permanent=error.permanent) from error
        if reply.status != 200:
            is_refused = 400 <= reply.status < 500 and reply.status not in (408, 429)
            raise DestinationError("Google issued no access token for the service account.", permanent=is_refused)
        try:
            token = msgspec.json.decode(reply.body, type=_Token)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise DestinationError("Google issued no access token for the service account.") from None
        self._token = time.monotonic() + token.expires_in - _RENEWED_S, token.access_token
        return token.access_token


class _Failure(msgspec.Struct, frozen=True):
    """A job that has loaded nothing. `is_earlier`: an earlier attempt created the job."""

    reason: str
    is_earlier: bool


def _job_id(file: ExportedFile, number: int) -> str:
    return file.id if number == 1 else f"{file.id}-{number}"


def _refused(reply: HttpReply) -> DestinationError:
    match reply.status:
        case 401 | 403:
            return DestinationError(
                "BigQuery refused the service account, or the service account lacks a permission.", permanent=True
            )
        case 404:
            return DestinationError("The project or the dataset does not exist.", permanent=True)
        case 408 | 429 | 503:
            return DestinationError("BigQuery is busy.")
        case status if status >= 500:
            return DestinationError("BigQuery had an internal error.")
        case status:
            return DestinationError(f"BigQuery refused the load job with status {status}.", permanent=True)


def _decode(reply: HttpReply) -> _Job:
    try:
        return msgspec.json.decode(reply.body, type=_Job)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Job()


def _read_credentials(text: str) -> tuple[_Credentials, RSAPrivateKey]:
    try:
        credentials = msgspec.json.decode(text, type=_Credentials)
        key = load_pem_private_key(credentials.private_key.encode(), None)
        if isinstance(key, RSAPrivateKey):
            return credentials, key
    except (msgspec.MsgspecError, ValueError, TypeError, UnsupportedAlgorithm):
        pass
    raise DestinationError("config.credentialsJson is not the key file of a service account.", permanent=True)
