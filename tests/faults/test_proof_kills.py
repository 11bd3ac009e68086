"""SIGKILL of `sluice control` while proof bundles are handed in: each is stored whole and once, or not at all; whoever
sends it again is answered as if nothing had happened.
"""

import hashlib
import random
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from control.approvals.proofs.tables import proof_bundles, proof_links, proof_usage
from control.audit.tables import audit_events
from proto.proofs import dsse
from tests.control.approvals.proofs.made import ISSUER, KEY, bundle, claim, signed
from tests.faults.office import Office
from tests.faults.zygote import Zygote
from tests.selection import scaled

BUNDLES = "/projects/web/proof-bundles"
TRACES = 20  # of a bundle


def submit(office: Office, body: bytes) -> tuple[int, Any]:
    return office.insisted(lambda: office.call("POST", BUNDLES, body, media_type=dsse.ENVELOPE_TYPE))


def made_bundles(count: int) -> list[bytes]:
    """Envelopes with links; every other one large enough for many pages."""
    recheck = {"mechanism": "API", "instruction": "x", "expectation": "x", "notes": None}
    recheck |= {"reproducibility": "DETERMINISTIC"}
    envelopes = []
    for number in range(count):
        traces = [{"traceId": f"{number * TRACES + at:032x}"} for at in range(TRACES)]
        claims = [
            claim("model_attribution", f"c-{at}", recheck={**recheck, "inputs": inputs})
            for at, inputs in enumerate(traces)
        ]
        if number % 2:
            claims = [one | {"disclosures": ["x" * 600] * 20} for one in claims]
        envelopes.append(signed(bundle(claims)))
    return envelopes


@pytest.mark.sized
def test_bundles_are_stored_whole_and_once_though_the_process_is_killed(database_url: str, tmp_path: Path) -> None:
    envelopes, chance = made_bundles(scaled(5, 100)), random.Random(21)
    with Zygote() as zygote:
        office = Office(tmp_path / "office", database_url, zygote)
        try:
            office.start()
            key = {"issuer": ISSUER, "name": "CI", "publicKey": dsse.public_pem(KEY.public_key())}
            key["validFrom"] = "2026-01-01T00:00:00Z"
            status, made = office.call("POST", "/proof-issuers", key, as_approver=True)
            assert status == 201, made
            office.kill()
            for envelope in envelopes:
                office.begin_to_die(chance, 8)
                status, stored = submit(office, envelope)
                assert status in (200, 201), stored
                assert submit(office, envelope) == (200, stored)
                assert submit(office, envelope + b" ")[0] == 409
                office.kill()
            office.start()
            check(office, envelopes)
            office.stop()
        finally:
            office.close()
    assert office.kills


def check(office: Office, envelopes: list[bytes]) -> None:
    """The rows of each table, against what was handed in."""
    rows = office.rows(sa.select(proof_bundles.c.digest, proof_bundles.c.body, proof_bundles.c.id))
    assert sorted(bytes(row.body) for row in rows) == sorted(envelopes)
    assert all(hashlib.sha256(bytes(row.body)).digest() == bytes(row.digest) for row in rows)
    assert len(office.rows(sa.select(proof_links.c.target))) == len(envelopes) * TRACES
    ((bundles, size),) = office.rows(sa.select(proof_usage.c.bundles, proof_usage.c.bytes))
    assert (bundles, size) == (len(envelopes), sum(map(len, envelopes)))
    noted = office.rows(sa.select(audit_events.c.object_id).where(audit_events.c.action == "proof.submit"))
    assert sorted(one.object_id for one in noted) == sorted(row.id for row in rows)
