"""Prints a row for each kind of signature and of delivery, and what exporters notice of them."""

import asyncio
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.command import command
from benchmarks.control.service import Served, served
from benchmarks.processes import spawned
from benchmarks.report import Table, print_machine
from benchmarks.stores import opened
from benchmarks.webhooks import beside
from benchmarks.webhooks.sending import (
    SECRET,
    Maker,
    Request,
    change,
    chat_command,
    new_integration,
    payment,
    push,
    read,
    send,
)
from control.governance.billing import store
from control.identity.organizations import organization_store
from control.inbound.webhooks import signatures

SETTINGS: Final = {
    "SLUICE_WEBHOOK_RATE": "0",
    "SLUICE_CONTROL_PAYMENTS_SECRETS": SECRET,
    "SLUICE_CONTROL_CHAT_A_SIGNING_SECRETS": SECRET,
    "SLUICE_CONTROL_PLANS": "price_team=Team:1000,price_business=Business:50000",
}
_PACKAGES: Final = ("aiohttp", "SQLAlchemy", "cryptography")


def main() -> None:
    """Measure deliveries and refusals."""
    arguments = command(__package__, __doc__, seconds=5.0).parse_args()
    print_machine(*_PACKAGES)
    _refusals()
    with tempfile.TemporaryDirectory(prefix="sluice-webhooks-") as directory:
        _deliveries(Path(directory), arguments.seconds)
        apart = Path(directory) / "apart"
        apart.mkdir()
        beside.measure(apart)


def _deliveries(directory: Path, seconds: float) -> None:
    url = f"sqlite:///{directory / 'sluice.db'}"
    with served(directory / "control", url, more=SETTINGS) as control, spawned() as sender:
        asyncio.run(_link(url))
        table = Table({"request": "", "accepted/s": ".0f", "CPU us": ".0f"}, compared="CPU us")
        for name, maker in (
            ("authenticated read", partial(read, str(control.tokens[0]))),
            ("payments", payment),
            ("chat-a command", chat_command),
            ("github push", _integration(control, "github", push)),
            ("generic", _integration(control, "generic", change)),
        ):
            before = control.cpu_s()
            sent = sender.submit(send, control.port, maker, seconds).result()
            if set(sent.statuses) != {200}:
                raise SystemExit(f"{name}: answered {sent.statuses}")
            accepted = sent.statuses[200]
            table.row(name, accepted / sent.seconds, (control.cpu_s() - before) / accepted * 1e6)


async def _link(url: str) -> None:
    async with opened(url) as database, database.write() as connection:
        found = await organization_store.find_organization(connection, "acme")
        if found is None:
            raise RuntimeError("acme is missing")
        await store.link(connection, found.id, "cus_1")


def _integration(control: Served, kind: str, make: Callable[[str, str, int], Request]) -> Maker:
    """Deliveries to a new integration of the kind."""
    url = f"http://127.0.0.1:{control.port}/orgs/acme/integrations"
    return partial(make, *new_integration(url, str(control.tokens[0]), kind))


def _refusals() -> None:
    body, wrong, at, rounds = b"x" * 10_000, "0" * 64, 1_790_000_000, 2_000
    key, secrets = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key(), (SECRET.encode(),)
    table = Table({"refused signature of 10 kB": "", "CPU us": ".0f"})
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
        table.row(name, (time.process_time() - begun) / rounds * 1e6)


if __name__ == "__main__":
    main()
