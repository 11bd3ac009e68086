"""Snowflake: COPY from an external stage, by the SQL API.

The stage points to the bucket and the prefix of the sink's object store, so the name of a file is its key without the
prefix. COPY remembers for 64 days which files it has loaded. The request id of a statement is derived from its file, so
a repeated statement is run only once.

Source: docs.snowflake.com, "Snowflake SQL API reference", "Authenticating to the server: key-pair authentication",
"COPY INTO <table>".
"""

import asyncio
import base64
import hashlib
import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, NoReturn

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from joserfc import jwt
from joserfc.jwk import RSAKey
from msgspec import UnsetType
from yarl import URL

from control.export.destinations.interfaces import DestinationError, ExportedFile, endpoint_url, given
from control.export.model import SnowflakeConfig
from control.export.streams.schemas import ColumnType, StreamSchema
from control.outbound.egress import Egress, EgressError, HttpReply

TOKEN_TIME: Final = timedelta(minutes=10)
STATEMENT_S: Final = 300  # per statement
_POLL_S: Final = 1.0
_NAMESPACE: Final = uuid.UUID("6d1a2f52-6f0e-5a55-8f0a-9c1f4d2b7e10")
_CODE: Final = re.compile(r"[0-9A-Z]{1,12}")
_HANDLE: Final = re.compile(r"[0-9A-Za-z-]{1,64}")
_TYPES: Final = MappingProxyType(
    {
        ColumnType.STRING: "VARCHAR",
        ColumnType.INTEGER: "NUMBER(19, 0)",
        ColumnType.NUMBER: "DOUBLE",
        ColumnType.BOOLEAN: "BOOLEAN",
        ColumnType.TIMESTAMP: "TIMESTAMP_TZ",
    }
)


class _Answer(msgspec.Struct, rename="camel"):
    statement_handle: str = ""
    code: str = ""


class Snowflake:
    """One account. `prefix`: the prefix of the keys in the object store."""

    def __init__(
        self,
        config: SnowflakeConfig,
        egress: Egress,
        account: str,
        prefix: str,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._config = config
        self._egress = egress
        self._account = account
        self._prefix = prefix
        self._now = now
        self._made: set[str] = set()
        name = given(config.account)
        of_account = f"https://{name}.snowflakecomputing.com"
        self._base_url = (
            of_account if isinstance(config.endpoint, UnsetType) else str(endpoint_url(config.endpoint)).rstrip("/")
        )
        self._key = _private_key(given(config.private_key))

    async def load(self, file: ExportedFile) -> str:
        """Load a file, as `Loader` describes."""
        table = file.schema.table.upper()
        if table not in self._made:
            for number, statement in enumerate(_definitions(table, file.schema)):
                await self._execute(f"{file.id}/{file.schema.version}/{number}", statement)
            self._made.add(table)
        if file.key is None:
            raise DestinationError("The file is not in the object store.", permanent=True)
        name = file.key.removeprefix(self._prefix).replace("\\", "\\\\").replace("'", "\\'")
        copy = (
            f"COPY INTO {table} FROM @{given(self._config.stage)} FILES = ('{name}')"
            " FILE_FORMAT = (TYPE = PARQUET USE_LOGICAL_TYPE = TRUE)"
            " MATCH_BY_COLUMN_NAME = CASE_INSENSITIVE ON_ERROR = ABORT_STATEMENT"
        )
        await self._execute(f"{file.id}/copy", copy)
        return table

    async def _execute(self, name: str, statement: str) -> None:
        """Run a statement to its end. A statement that is sent again under the same name is run once. Raises
        DestinationError.
        """
        config = self._config
        body: dict[str, Any] = {
            "statement": statement,
            "timeout": STATEMENT_S,
            "warehouse": given(config.warehouse),
            "database": given(config.database),
            "schema": given(config.schema),
        }
        if not isinstance(config.role, UnsetType):
            body["role"] = config.role
        query = {"requestId": str(uuid.uuid5(_NAMESPACE, name)), "retry": "true"}
        url = str(URL(f"{self._base_url}/api/v2/statements").with_query(query))
        reply = await self._call(url, msgspec.json.encode(body))
        deadline = asyncio.get_running_loop().time() + STATEMENT_S
        while reply.status == 202:
            handle = _decode(reply).statement_handle
            if _HANDLE.fullmatch(handle) is None or asyncio.get_running_loop().time() > deadline:
                raise DestinationError("Snowflake did not finish the statement in time.")
            await asyncio.sleep(_POLL_S)
            reply = await self._call(f"{self._base_url}/api/v2/statements/{handle}", None)
        if reply.status != 200:
            _refuse(reply)

    async def _call(self, url: str, body: bytes | None) -> HttpReply:
        headers = {
            "Authorization": f"Bearer {self._token()}",
            "X-Snowflake-Authorization-Token-Type": "KEYPAIR_JWT",
            "Accept": "application/json",
            "Content-Type": "application/json",
        }
        try:
            if body is None:
                return await self._egress.get(url, headers, account=self._account)
            return await self._egress.post(url, body, headers, account=self._account)
        except EgressError as error:
            raise DestinationError(
                f"Snowflake could not be reached. {error.detail}", permanent=error.permanent
            ) from error

    def _token(self) -> str:
        """A JWT for the public key that is registered with the user."""
        public = self._key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        fingerprint = "SHA256:" + base64.b64encode(hashlib.sha256(public).digest()).decode()
        account = given(self._config.account).split(".")[0].upper()
        user = f"{account}.{given(self._config.user).upper()}"
        now = self._now()
        claims = {"iss": f"{user}.{fingerprint}", "sub": user, "iat": now, "exp": now + TOKEN_TIME}
        return jwt.encode({"alg": "RS256"}, claims, RSAKey.import_key(self._key))


def _definitions(table: str, schema: StreamSchema) -> list[str]:
    """The statements that create the table, or add the columns that a table of an earlier schema version lacks. There
    is one statement per column, because IF NOT EXISTS applies to one column.
    """
    columns = [(one.since, f"{one.name.upper()} {_TYPES[one.type]}") for one in schema.columns]
    create = f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(column for _, column in columns)})"
    added = [f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {column}" for since, column in columns if since > 1]
    return [create, *added]


def _refuse(reply: HttpReply) -> NoReturn:
    code = _decode(reply).code
    shown = f" (code {code})" if _CODE.fullmatch(code) else ""
    match reply.status:
        case 401 | 403:
            raise DestinationError(f"Snowflake refused the key of the user{shown}.", permanent=True)
        case 408 | 429 | 503 | 504:
            raise DestinationError("Snowflake is busy.")
        case 422:
            raise DestinationError(
                f"Snowflake refused the statement{shown}. Check the warehouse, the stage, and the privileges of the "
                "role.",
                permanent=True,
            )
        case status if status >= 500:
            raise DestinationError(f"Snowflake had an internal error{shown}.")
        case status:
            raise DestinationError(f"Snowflake answered with status {status}{shown}.", permanent=True)


def _decode(reply: HttpReply) -> _Answer:
    try:
        return msgspec.json.decode(reply.body, type=_Answer)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Answer()


def _private_key(text: str) -> RSAPrivateKey:
    try:
        key = load_pem_private_key(text.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, RSAPrivateKey):
        raise DestinationError(
            "config.privateKey is not an RSA key in PEM (PKCS #8) without a password.", permanent=True
        )
    return key
