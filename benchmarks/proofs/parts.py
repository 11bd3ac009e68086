"""The cost of a bundle without a service: envelope, signature, shape, repeated keys, contradictions."""

import json
import time
from collections.abc import Callable

import msgspec
from securesystemslib import dsse as oracle
from securesystemslib.signer._crypto_signer import CryptoSigner

from benchmarks.proofs.making import KEY, bundle
from proto.proofs import dsse
from proto.proofs.bundle import ProofBundle
from proto.proofs.semantics import check
from proto.proofs.unique_keys import require_unique_keys

_ROUNDS = 300


def measure() -> None:
    """Prints a row for each step."""
    raw = json.dumps(bundle("b-1")).encode()
    theirs = CryptoSigner(KEY).public_key
    envelope = dsse.encode(dsse.sign(raw, dsse.BUNDLE_TYPE, KEY, theirs.keyid))
    parsed = dsse.parse(envelope)
    value = msgspec.json.decode(raw, type=ProofBundle)
    keys = [("k", KEY.public_key())]
    print(f"A bundle of 200 claims: {len(raw) / 1e3:.0f} kB, in an envelope {len(envelope) / 1e3:.0f} kB")
    print("| step | CPU ms |\n|---|---|")
    ours = 0.0
    for name, step in (
        ("envelope", lambda: dsse.parse(envelope)),
        ("signature", lambda: list(dsse.find_signers(parsed, keys))),
        ("shape", lambda: msgspec.json.decode(raw, type=ProofBundle)),
        ("repeated keys", lambda: require_unique_keys(raw, value)),
        ("contradictions", lambda: check(value)),
    ):
        cost = _cost(step)
        ours += cost
        print(f"| {name} | {cost:.2f} |", flush=True)

    def by_others() -> object:
        oracle.Envelope.from_dict(json.loads(envelope)).verify([theirs], 1)
        return json.loads(raw)

    other = _cost(by_others)
    print(f"| **together** | **{ours:.2f}** |")
    print(f"| json and securesystemslib: signature and JSON, no shape, no checks | {other:.2f} |")
    print(f"Together {ours / other:.2f} times as long as that.", flush=True)


def _cost(step: Callable[[], object]) -> float:
    """The least of five, in ms."""
    best = float("inf")
    for _ in range(5):
        begun = time.process_time()
        for _ in range(_ROUNDS // 5):
            step()
        best = min(best, (time.process_time() - begun) / (_ROUNDS // 5))
    return best * 1e3
