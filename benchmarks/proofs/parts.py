"""The cost of a bundle without a service: envelope, signature, shape, repeated keys, contradictions."""

import json
import time
from collections.abc import Callable
from typing import Final

import msgspec
from securesystemslib import dsse as oracle
from securesystemslib.signer._crypto_signer import CryptoSigner

from benchmarks.proofs.making import KEY, bundle
from benchmarks.report import Table
from proto.json_keys import require_unique_keys
from proto.proofs import dsse
from proto.proofs.bundle import ProofBundle
from proto.proofs.semantics import check

_ROUNDS: Final = 10  # the least of so many counts
_REPEATED: Final = 40


def measure() -> None:
    """Prints a row for each step, with its share, and what others take for less."""
    raw = json.dumps(bundle("b-1")).encode()
    theirs = CryptoSigner(KEY).public_key
    envelope = dsse.encode(dsse.sign(raw, dsse.BUNDLE_TYPE, KEY, theirs.keyid))
    parsed = dsse.parse(envelope)
    value = msgspec.json.decode(raw, type=ProofBundle)
    keys = [("k", KEY.public_key())]
    by_them = oracle.Envelope.from_dict(json.loads(envelope))

    def by_others() -> object:
        oracle.Envelope.from_dict(json.loads(envelope)).verify([theirs], 1)
        return json.loads(raw)

    ours: dict[str, Callable[[], object]] = {
        "envelope": lambda: dsse.parse(envelope),
        "signature": lambda: list(dsse.find_signers(parsed, keys)),
        "shape": lambda: msgspec.json.decode(raw, type=ProofBundle),
        "repeated keys": lambda: require_unique_keys(raw, value),
        "contradictions": lambda: check(value),
    }
    others: dict[str, Callable[[], object]] = {
        "json.loads of the payload": lambda: json.loads(raw),
        "msgspec of the payload, untyped": lambda: msgspec.json.decode(raw),
        "securesystemslib: signature": lambda: by_them.verify([theirs], 1),
        "json and securesystemslib: envelope, signature and JSON, no shape, no checks": by_others,
    }
    costs = _costs({**ours, **others})
    together = sum(costs[name] for name in ours)
    sizes = f"{len(raw) / 1e3:.0f} kB, in an envelope {len(envelope) / 1e3:.0f} kB"
    table = Table({f"step, a bundle of 200 claims ({sizes})": "", "CPU ms": ".2f", "share": ".0%"})
    for name in ours:
        table.row(name, costs[name], costs[name] / together)
    table.row("together", together, 1)
    table = Table({"by others": "", "CPU ms": ".2f", "together, times as long": ".2f"})
    for name in others:
        table.row(name, costs[name], together / costs[name])


def _costs(steps: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The least of each, in ms; in turns, so that other work of the machine reaches all of them."""
    best = dict.fromkeys(steps, float("inf"))
    for _ in range(_ROUNDS):
        for name, step in steps.items():
            begun = time.process_time()
            for _ in range(_REPEATED):
                step()
            best[name] = min(best[name], (time.process_time() - begun) / _REPEATED * 1e3)
    return best
