"""An object store with the interface of S3 for tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3  # type: ignore[import-untyped]
from moto.server import ThreadedMotoServer

from tests.e2e.product import call

BUCKET = "warehouse"
REGION = "eu-central-1"


class ObjectStore:
    """A bucket on a server on this machine."""

    def __init__(self, url: str, bucket: str) -> None:
        self.url = url
        self.bucket = bucket
        self._client: Any = boto3.client(
            "s3",
            endpoint_url=url,
            region_name=REGION,
            aws_access_key_id="tests",
            aws_secret_access_key="tests",
        )
        self._client.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})

    def config(self, secret: str = "tests", prefix: str = "") -> dict[str, Any]:
        """The config of a sink that exports to the bucket."""
        return {
            "endpoint": self.url,
            "bucket": self.bucket,
            "region": REGION,
            "accessKeyId": "tests",
            "secretAccessKey": secret,
            "pathStyle": True,
            "prefix": prefix,
        }

    def list_keys(self) -> list[str]:
        """The keys of all objects, sorted."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
        return sorted(item["Key"] for page in pages for item in page.get("Contents", []))

    def read(self, key: str) -> bytes:
        """The bytes of an object."""
        return bytes(self._client.get_object(Bucket=self.bucket, Key=key)["Body"].read())

    def put(self, key: str, body: bytes) -> None:
        """An object that somebody else has put."""
        self._client.put_object(Bucket=self.bucket, Key=key, Body=body)


@contextmanager
def object_store(bucket: str = BUCKET) -> Iterator[ObjectStore]:
    """An empty bucket."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        url = f"http://{host}:{port}"
        assert call("POST", f"{url}/moto-api/reset").status == 200  # all servers of a process share what they keep
        yield ObjectStore(url, bucket)
    finally:
        server.stop()
