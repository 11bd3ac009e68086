"""Prints the machine, a row for each kind of signature and of delivery, and what exporters notice of them."""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.codec.__main__ import machine
from benchmarks.control.service import Served, served
from benchmarks.webhooks import beside
from benchmarks.webhooks.sending import SECRET, Maker, Request, change, command, payment, push, read, send
from chassis.db.database import Database
from control.governance.billing import store
from control.identity.organizations import organization_store
from control.inbound.webhooks import signatures
from tests.e2e.product import call

SETTINGS: Final = {
    "SLUICE_WEBHOOK_RATE": "0",
    "SLUICE_CONTROL_PAYMENTS_SECRETS": SECRET,
    "SLUICE_CONTROL_CHAT_A_SIGNING_SECRETS": SECRET,
    "SLUICE_CONTROL_PLANS": "price_team=Team:1000,price_business=Business:50000",
}
_PACKAGES: Final = ("aiohttp", "SQLAlchemy", "cryptography")


def main() -> None:
    """Measure deliveries and refusals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each kind")
    arguments = parser.parse_args()
    print(f"{machine()}; {', '.join(f'{name} {version(name)}' for name in _PACKAGES)}", flush=True)
    _refusals()
    with tempfile.TemporaryDirectory(prefix="sluice-webhooks-") as directory:
        _deliveries(Path(directory), arguments.seconds)
        apart = Path(directory) / "apart"
        apart.mkdir()
        beside.measure(apart)


def _deliveries(directory: Path, seconds: float) -> None:
    url = f"sqlite:///{directory / 'sluice.db'}"
    with (
        served(directory / "control", url, more=SETTINGS) as control,
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as sender,
    ):
        asyncio.run(_link(url))
        token = str(control.tokens[0])
        print("| request | accepted/s | CPU us | CPU to that of a read |\n|---|---|---|---|")
        of_read = 0.0
        for name, maker in (
            ("authenticated read", partial(read, token)),
            ("payments", payment),
            ("chat-a command", command),
            ("github push", _integration(control, "github", push)),
            ("generic", _integration(control, "generic", change)),
        ):
            if maker is None or not _answers(control, maker):
                print(f"| {name} | not there | | |", flush=True)
                continue
            before = control.cpu_s()
            sent = sender.submit(send, control.port, maker, seconds).result()
            cost = (control.cpu_s() - before) / sum(sent.statuses.values())
            if set(sent.statuses) != {200}:
                raise SystemExit(f"{name}: answered {sent.statuses}")
            of_read = of_read or cost
            print(
                f"| {name} | {sent.statuses[200] / sent.seconds:.0f} | {cost * 1e6:.0f} | {cost / of_read:.1f} |",
                flush=True,
            )


async def _link(url: str) -> None:
    database = Database(url)
    await database.start()
    async with database.write() as connection:
        found = await organization_store.find_organization(connection, "acme")
        if found is None:
            raise RuntimeError("acme is missing")
        await store.link(connection, found.id, "cus_1")
    await database.close()


def _answers(control: Served, maker: Maker) -> bool:
    """Whether there is such an endpoint."""
    method, path, headers, body = maker(-1)
    return call(method, f"http://127.0.0.1:{control.port}{path}", body or None, headers).status == 200


def _integration(control: Served, kind: str, make: Callable[[str, str, int], Request]) -> Maker | None:
    """Deliveries to a new integration of the kind; None if there are no integrations."""
    headers = {"Authorization": f"Bearer {control.tokens[0]}", "Content-Type": "application/json"}
    body = json.dumps({"kind": kind, "name": kind}).encode()
    made = call("POST", f"http://127.0.0.1:{control.port}/orgs/acme/integrations", body, headers)
    if made.status != 201:
        return None
    return partial(make, str(made.json()["id"]), str(made.json()["secret"]))


def _refusals() -> None:
    body, wrong, at, rounds = b"x" * 10_000, "0" * 64, 1_790_000_000, 2_000
    key, secrets = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key(), (SECRET.encode(),)
    print("| refused signature of 10 kB | CPU us |\n|---|---|")
    cases: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("body alone", lambda: signatures.verify_body(secrets, body, "sha256=" + wrong, prefix="sha256=")),
        ("chat-a", lambda: signatures.verify_chat_a(secrets, body, str(at), "v0=" + wrong, at)),
        ("chat-b", lambda: signatures.verify_ed25519(key, body, str(at), wrong + wrong, at)),
        ("payments", lambda: signatures.verify_payments(secrets, body, f"t={at},v1={wrong}", at)),
        ("Standard Webhooks", lambda: signatures.verify_standard(secrets, body, "m", str(at), f"v1,{'A' * 43}=", at)),
    )
    for name, verify in cases:
        begun = time.process_time()
        if any(verify() for _ in range(rounds)):
            raise SystemExit(f"{name}: accepted")
        print(f"| {name} | {(time.process_time() - begun) / rounds * 1e6:.0f} |", flush=True)


if __name__ == "__main__":
    main()
