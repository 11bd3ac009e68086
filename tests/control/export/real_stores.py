"""Object stores in processes of their own: MinIO, fake-gcs-server, Azurite, and Snowflake's SQL API over fakesnow.

`scripts/stores` makes them ready in `.venv/stores`, or where the environment variable STORES says. They listen on
127.0.0.1 alone.
"""

import base64
import hashlib
import hmac
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

import boto3  # type: ignore[import-untyped]
from lxml import etree

from control.export.destinations.object_stores import AZURE_VERSION
from control.export.model import BlobProvider, BlobstoreConfig
from tests.e2e.product import Answer, call, eventually
from tests.ports import free_port

HOME: Final = Path(os.environ.get("STORES") or Path(sys.prefix) / "stores")
BUCKET: Final = "lake"
SECRET: Final = base64.b64encode(b"a secret of tests only").decode()


@dataclass(frozen=True)
class RealStore:
    """A running store with an empty bucket, the config for it, and what is in the bucket."""

    config: BlobstoreConfig
    read_all: Callable[[], dict[str, bytes]]


@contextmanager
def running(command: list[str | Path], directory: Path, environment: dict[str, str] | None = None) -> Iterator[Any]:
    """A server that says what goes wrong in a log."""
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, cwd=directory, env={**os.environ, **(environment or {})}
        )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def answers(url: str) -> Callable[[], bool]:
    """Whether there is an answer, of whatever status."""

    def probe() -> bool:
        try:
            return call("GET", url).status > 0
        except OSError:
            return False

    return probe


@contextmanager
def minio(directory: Path) -> Iterator[RealStore]:
    """S3."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    environment = {"MINIO_ROOT_USER": "tests", "MINIO_ROOT_PASSWORD": SECRET, "MINIO_BROWSER": "off"}
    command: list[str | Path] = [HOME / "bin/minio", "server", "--address", f"127.0.0.1:{port}", directory / "data"]
    with running(command, directory, environment):
        eventually(answers(f"{url}/minio/health/live"), "MinIO")
        client = boto3.client(
            "s3",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id="tests",
            aws_secret_access_key=SECRET,
        )
        client.create_bucket(Bucket=BUCKET)

        def read_all() -> dict[str, bytes]:
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
            keys = [item["Key"] for page in pages for item in page.get("Contents", [])]
            return {key: client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}

        yield RealStore(
            BlobstoreConfig(
                endpoint=url,
                bucket=BUCKET,
                region="us-east-1",
                access_key_id="tests",
                secret_access_key=SECRET,
                path_style=True,
            ),
            read_all,
        )


class _XmlApi(BaseHTTPRequestHandler):
    """The PUT of the XML interface as the upload of the JSON interface, which is all that fake-gcs-server has. Source:
    cloud.google.com, "PUT Object", "Request preconditions".
    """

    protocol_version = "HTTP/1.1"
    server: "_XmlServer"

    def do_PUT(self) -> None:
        bucket, _, key = urlsplit(self.path).path.removeprefix("/").partition("/")
        kept = {name: value for name, value in self.headers.items() if name.lower().startswith("x-goog-meta-")}
        kept["Content-Type"] = str(self.headers["Content-Type"])
        generation = self.headers["x-goog-if-generation-match"]
        query = f"uploadType=media&name={quote(unquote(key), safe='')}&ifGenerationMatch={generation}"
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(call("POST", f"{self.server.url}/upload/storage/v1/b/{bucket}/o?{query}", body, kept))

    def do_HEAD(self) -> None:
        self._answer(call("HEAD", f"{self.server.url}{self.path}"))

    def _answer(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            if name.lower().startswith("x-goog-meta-"):
                self.send_header(name, value)
        size = answer.headers["Content-Length"] if self.command == "HEAD" and answer.status == 200 else "0"
        self.send_header("Content-Length", size)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


class _XmlServer(ThreadingHTTPServer):
    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), _XmlApi)
        self.url = url
        self.daemon_threads = True
        threading.Thread(target=self.serve_forever, daemon=True).start()


@contextmanager
def closing_server(server: _XmlServer) -> Iterator[_XmlServer]:
    """A server that ends afterwards."""
    yield server
    server.shutdown()
    server.server_close()


@contextmanager
def gcs(directory: Path) -> Iterator[RealStore]:
    """Google Cloud Storage; it looks at no signature."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command: list[str | Path] = [HOME / "bin/fake-gcs-server", "-scheme", "http", "-backend", "memory"]
    command += ["-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}"]
    with running(command, directory):
        eventually(answers(f"{url}/storage/v1/b"), "fake-gcs-server")
        of_buckets = f"{url}/storage/v1/b"
        made = call("POST", of_buckets, json.dumps({"name": BUCKET}).encode(), {"Content-Type": "application/json"})
        assert made.status == 200, made.body

        def read_all() -> dict[str, bytes]:
            found = call("GET", f"{of_buckets}/{BUCKET}/o").json().get("items", [])
            return {
                one["name"]: call("GET", f"{of_buckets}/{BUCKET}/o/{quote(one['name'], safe='')}?alt=media").body
                for one in found
            }

        with closing_server(_XmlServer(url)) as xml:
            config = BlobstoreConfig(
                provider=BlobProvider.GCS,
                endpoint=f"http://127.0.0.1:{xml.server_port}",
                bucket=BUCKET,
                access_key_id="tests",
                secret_access_key=SECRET,
            )
            yield RealStore(config, read_all)


@contextmanager
def azurite(directory: Path) -> Iterator[RealStore]:
    """Azure Blob Storage."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/tests"
    command: list[str | Path] = [HOME / "azurite/node_modules/.bin/azurite-blob", "--blobHost", "127.0.0.1"]
    command += ["--blobPort", str(port), "--skipApiVersionCheck", "--silent", "--location", directory]
    with running(command, directory, {"AZURITE_ACCOUNTS": f"tests:{SECRET}"}):
        eventually(answers(url), "Azurite")

        def signed(method: str, path: str = "", **query: str) -> Any:
            """Source: learn.microsoft.com, "Authorize with Shared Key"."""
            headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": AZURE_VERSION}
            content_type = "application/octet-stream" if method == "PUT" else ""
            own = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
            resource = f"/tests/tests/{BUCKET}{path}" + "".join(f"\n{name}:{query[name]}" for name in sorted(query))
            to_sign = f"{method}\n\n\n\n\n{content_type}" + "\n" * 7 + own + resource
            digest = hmac.digest(base64.b64decode(SECRET), to_sign.encode(), hashlib.sha256)
            headers["Authorization"] = f"SharedKey tests:{base64.b64encode(digest).decode()}"
            headers |= {"Content-Type": content_type} if content_type else {}
            asked = "&".join(f"{name}={value}" for name, value in query.items())
            return call(method, f"{url}/{BUCKET}{path}?{asked}", b"" if method == "PUT" else None, headers)

        made = signed("PUT", restype="container")
        assert made.status == 201, made.body

        def read_all() -> dict[str, bytes]:
            listed = etree.fromstring(signed("GET", comp="list", restype="container").body)
            keys = [str(element.text) for element in listed.iter("Name")]
            return {key: signed("GET", f"/{quote(key)}").body for key in keys}

        yield RealStore(
            BlobstoreConfig(
                provider=BlobProvider.AZURE,
                endpoint=url,
                account="tests",
                container=BUCKET,
                account_key=SECRET,
            ),
            read_all,
        )


@contextmanager
def fakesnow(directory: Path, stage: Path) -> Iterator[str]:
    """The URL of Snowflake's SQL API, whose stage LAKE is a directory."""
    script = Path(__file__).with_name("fakesnow_sql_api.py")
    with running([HOME / "fakesnow/bin/python", script, stage], directory) as process:
        port = process.stdout.readline().decode().strip()
        assert port, (directory / "log").read_text()
        yield f"http://127.0.0.1:{port}"
