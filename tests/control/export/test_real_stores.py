"""Exports into stores that others have written: keys are put once, and every row is there once."""

import io
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import duckdb
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from msgspec import structs

from control.export.destinations.interfaces import DestinationError, ObjectStore, StoredObject
from control.export.destinations.snowflake import Snowflake
from control.export.model import BlobProvider, BlobstoreConfig, RunStatus, Sink, SnowflakeConfig
from control.export.sink_destination import Destination, open_store
from control.export.store import LEASE
from tests.control.export.real_stores import RealStore, azurite, fakesnow, gcs, minio
from tests.control.export.test_exactly_once import Killed, World, new_sink
from tests.control.export.test_exactly_once import world as world  # noqa: PLC0414 (a fixture)
from tests.control.outbound.going_out import opened
from tests.e2e.product import call

pytestmark = pytest.mark.long
STORES: dict[str, Callable[[Path], AbstractContextManager[RealStore]]] = {"s3": minio, "gcs": gcs, "azure": azurite}
KEY = "acme/snk_1/dt=2026-11-20/start__1 ü.parquet"
WRONG = "d3Jvbmc="


@pytest.fixture(params=STORES)
def real_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RealStore]:
    with STORES[request.param](tmp_path) as store:
        yield store


async def test_a_key_is_put_once(real_store: RealStore) -> None:
    async with opened() as egress:
        store = open_store(real_store.config, egress, "org")
        assert await store.put_new(KEY, b"first", "digest-1") is None
        assert await store.put_new(KEY, b"second", "digest-2") == StoredObject("digest-1", 5)
        assert await store.put_new("other", b"x", "digest-3") is None
    assert real_store.read_all() == {KEY: b"first", "other": b"x"}


async def test_a_store_is_read_back_where_it_takes_no_condition(tmp_path: Path) -> None:
    with minio(tmp_path) as real_store:
        async with opened() as egress:
            store = open_store(structs.replace(real_store.config, conditional_puts=False), egress, "org")
            assert await store.put_new(KEY, b"first", "digest-1") is None
            assert await store.put_new(KEY, b"second", "digest-2") == StoredObject("digest-1", 5)
            for change, words in (
                ({"bucket": "nowhere"}, "does not exist"),
                ({"secret_access_key": WRONG}, "The signature does not match"),
                ({"access_key_id": "nobody"}, "does not know the access key"),
                ({"region": "eu-west-9"}, "region"),
            ):
                wrong = structs.replace(real_store.config, conditional_puts=False, **change)
                with pytest.raises(DestinationError, match=words):
                    await open_store(wrong, egress, "org").put_new(KEY, b"x", "d")
        assert real_store.read_all() == {KEY: b"first"}


async def test_what_is_wrong_is_said(real_store: RealStore) -> None:
    config = real_store.config
    nowhere = {"container": "nowhere"} if config.provider is BlobProvider.AZURE else {"bucket": "nowhere"}
    async with opened() as egress:
        with pytest.raises(DestinationError, match=r"The bucket or container does not exist\."):
            await open_store(structs.replace(config, **nowhere), egress, "org").put_new(KEY, b"x", "d")
        if config.provider is BlobProvider.GCS:
            return  # the stand-in looks at no signature
        wrong = structs.replace(config, secret_access_key=WRONG, account_key=WRONG)
        with pytest.raises(DestinationError, match="The signature does not match"):
            await open_store(wrong, egress, "org").put_new(KEY, b"x", "d")
    assert real_store.read_all() == {}


async def test_every_row_is_there_once(real_store: RealStore, world: World, tmp_path: Path) -> None:
    """Of batches whose process is killed after the put, too."""
    sink = await new_sink(world)
    world.source.rows = dict.fromkeys(range(1, 41), "{}")

    class KilledAfter:
        def __init__(self, store: ObjectStore) -> None:
            self._store = store

        async def put_new(self, key: str, body: bytes, row_digest: str) -> StoredObject | None:
            await self._store.put_new(key, body, row_digest)
            raise Killed

    async with opened() as egress:
        store = open_store(real_store.config, egress, "org")
        for put in (KilledAfter(store), KilledAfter(store), store):
            try:
                _, (ended,) = await world.exporter(put=put).export(sink.org_id, sink.id, 100)
            except Killed:
                continue
            assert (ended.run.status, ended.run.rows) == (RunStatus.SUCCEEDED, 40)
    for number, body in enumerate(real_store.read_all().values()):
        (tmp_path / f"{number}.parquet").write_bytes(body)
    counted = duckdb.sql(f"SELECT count(*), count(DISTINCT row_id) FROM '{tmp_path}/*.parquet'").fetchall()
    assert counted == [(40, 40)]


async def test_snowflake_loads_every_file_once(world: World, tmp_path: Path) -> None:
    """The statements run; a file that is loaded again adds nothing, and a wrong one is said to be wrong."""
    stage = tmp_path / "stage"

    class Directory:
        async def put_new(self, key: str, body: bytes, row_digest: str) -> StoredObject | None:
            file = stage / key
            file.parent.mkdir(parents=True, exist_ok=True)
            if file.exists():
                return StoredObject(row_digest, file.stat().st_size)
            file.write_bytes(body)
            return None

    key = rsa.generate_private_key(65_537, 2_048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    stage.mkdir()
    sink = await new_sink(world)
    world.source.rows = dict.fromkeys(range(1, 11), "{}")
    with fakesnow(tmp_path, stage) as url:
        config = SnowflakeConfig(
            account="acme-lake",
            user="sluice",
            private_key=pem,
            warehouse="W",
            database="ANALYTICS",
            schema="SLUICE",
            stage="LAKE",
            store=BlobstoreConfig(),
            endpoint=url,
        )
        async with opened() as egress:

            def destination(sink: Sink) -> Destination:
                return Destination("", Directory(), Snowflake(config, egress, "org", ""))

            for kill_at in (*range(8, 40, 4), None):
                exporter = world.exporter(kill_at)
                exporter._open_destination = destination
                try:
                    _, (ended,) = await exporter.export(sink.org_id, sink.id, 100)
                    assert ended.run.status is RunStatus.SUCCEEDED, ended.run.error
                except Killed:
                    world.now += LEASE
            rows = json.loads(
                call("POST", f"{url}/rows", b'"SELECT row_id, items, outcome, time FROM SLUICE_INGEST_OUTCOMES"').body
            )
            expected = {
                row["row_id"]: row
                for file in stage.rglob("*.parquet")
                for row in pq.read_table(io.BytesIO(file.read_bytes())).to_pylist()
            }
            assert sorted(row[0] for row in rows) == sorted(expected)
            assert len(expected) == 10
            for row_id, items, outcome, time in rows:
                assert (int(items), outcome) == (expected[row_id]["items"], expected[row_id]["outcome"])
                assert time.startswith(str(expected[row_id]["time"])[:19])
            wrong = Snowflake(structs.replace(config, stage="NOWHERE"), egress, "org", "")
            world.source.rows[11] = "{}"
            exporter = world.exporter()
            exporter._open_destination = lambda _sink: Destination("", Directory(), wrong)
            _, (ended,) = await exporter.export(sink.org_id, sink.id, 100)
            assert ended.run.status is RunStatus.FAILED
            assert "Check the warehouse, the stage" in str(ended.run.error)
