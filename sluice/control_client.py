"""A client of the control API for commands that run in builds. The access token is read from a file or from the
environment.
"""

import os
import re
import time
import urllib.error
import urllib.request
from http import HTTPStatus
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, Final, TypeVar

import msgspec

from chassis.errors import StartupError
from sluice import first_run

TOKEN_VARIABLE: Final = "RELEASE_TOKEN"  # noqa: S105  # a name; none with SLUICE_, which are settings
DEFAULT_SERVER: Final = "http://127.0.0.1:4318"
MAX_TRIES: Final = 5  # tries of a request while the server is busy
MAX_PAUSE_S: Final = 30.0
_RESPONSE_TIMEOUT_S: Final = 150.0
_MAX_RESPONSE_BYTES: Final = 2**20
_RETRIED: Final = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)

T = TypeVar("T")


class _Fault(msgspec.Struct):
    path: str
    message: str


class _Error(msgspec.Struct):
    message: str
    details: list[_Fault] = []


class _Refusal(msgspec.Struct):
    """The fields of an error response that are read."""

    error: _Error


class Refused(StartupError):
    """The server refuses a request."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, because another host must not get the token."""

    def redirect_request(
        self, _request: urllib.request.Request, _fp: IO[bytes], _code: int, _msg: str, _headers: HTTPMessage, _url: str
    ) -> None:
        return None


def read_token(token_file: str | None) -> str:
    """The access token from the file, or from the environment. Raises StartupError."""
    if token_file:
        try:
            text = Path(token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise StartupError(f"{token_file} cannot be read: {error}.") from error
        token = first_run.read(Path(token_file)).access_token if text.startswith("{") else text
    else:
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        raise StartupError(f"No access token: set {TOKEN_VARIABLE}, or pass a file in --token-file.", exit_code=2)
    if re.fullmatch(r"[\x21-\x7e]+", token) is None:
        raise StartupError("The access token has white space or non-ASCII characters: copy it again.", exit_code=2)
    return token


class ControlClient:
    """Sends JSON to the control API at a URL, by default the URL of `sluice up` on this machine."""

    def __init__(self, server: str | None, token: str) -> None:
        self._server = _server_url(server)
        self._token = token

    def post(self, path: str, data: bytes, answer: type[T]) -> tuple[int, T]:
        """Send JSON data, again while the server is busy; returns status and response. Raises Refused, and StartupError
        without a response.
        """
        url = f"{self._server}{path}"
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = urllib.request.Request(url, data, headers, method="POST")  # noqa: S310 - http(s) is checked
        try:
            status, body = _send(request)
            return status, msgspec.json.decode(body, type=answer)
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(_refusal(url, error), error.code) from error
        except (OSError, HTTPException) as error:
            raise StartupError(f"No response from {url} ({getattr(error, 'reason', error)}).") from error
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise StartupError(f"{url} did not return a Sluice API response. Check --server.") from error


def _send(request: urllib.request.Request) -> tuple[int, bytes]:
    """Status and body of the response. Raises the errors of urllib."""
    opener = urllib.request.build_opener(_NoRedirect)
    for remaining in reversed(range(MAX_TRIES)):
        try:
            with opener.open(request, timeout=_RESPONSE_TIMEOUT_S) as response:
                return int(response.status), response.read(_MAX_RESPONSE_BYTES)
        except urllib.error.HTTPError as error:
            if error.code not in _RETRIED or not remaining:
                raise
            with error:
                time.sleep(_pause_s(error.headers.get("Retry-After", "")))
    raise LookupError("the last try returns or raises")


def _pause_s(retry_after: str) -> float:
    return min(float(retry_after), MAX_PAUSE_S) if re.fullmatch(r"\d{1,6}", retry_after) else 1.0


def _server_url(server: str | None) -> str:
    url = (server or DEFAULT_SERVER).rstrip("/")
    if re.fullmatch(r"https?://[\x21-\x7e]+", url) is None or re.search("[@?#]", url):
        raise StartupError(f"{url} is not an http(s) URL without credentials.", exit_code=2)
    return url


def _refusal(url: str, error: urllib.error.HTTPError) -> str:
    """One sentence about a response that is not a success."""
    if error.code == HTTPStatus.UNAUTHORIZED:
        return f"{url} returned 401: the access token is not valid, or has expired."
    try:
        found = msgspec.json.decode(error.read(_MAX_RESPONSE_BYTES), type=_Refusal).error
        reason = " ".join([found.message, *(f"{one.path}: {one.message}" for one in found.details[:3])])[:500]
    except (msgspec.MsgspecError, ValueError, RecursionError, OSError, HTTPException):
        reason = f"{str(error.reason)[:100]}. The response is not from the Sluice API. Check --server."
    return f"{url} returned {error.code}: {reason}"
