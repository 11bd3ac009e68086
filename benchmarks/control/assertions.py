"""The verification of a SAML response, from the form field to the assertion: CPU by size, and what it is beside one
parse and one canonicalization of the same document, which no verification does without.
"""

import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Final

from lxml import etree

from benchmarks.report import Table
from control.identity.sso.refusal import LoginRefused
from control.identity.sso.saml.document import decode
from control.identity.sso.saml.response import ExpectedResponse, verify_response
from tests.control.identity.sso.saml_idp import Idp, Signed, certificate, expected, post, rsa_key, sign

_SIZES: Final = (0, 58, 244)  # KiB of groups; with the rest at most 64 and 256
_GROUP_BYTES: Final = 103
_NAMESPACES: Final = " ".join(f'xmlns:n{number}="urn:n{number}"' for number in range(29))
# Documents that cost the most of what is legal: many elements, each with all namespaces in scope.
_COSTLY: Final = f"<a {_NAMESPACES}>{'<a/>' * 3_900}</a>"


def measure(_: Path, arguments: Namespace) -> None:
    """Print one row for each size and place of signatures; then what is refused, or costs the most."""
    seconds = arguments.seconds / 10
    one = expected(certificate())
    four = expected(*(certificate(rsa_key(number)) for number in (1, 2, 3)), certificate())
    places: tuple[Signed, ...] = ("assertion", "response", "both")
    cases = [(f"{place} signed", _post(size, place), one) for size in _SIZES for place in places]
    cases += [
        ("four certificates, the last one verifies", _post(58, "assertion"), four),
        ("29 namespaces in scope", post(sign(Idp(extra=_COSTLY).response(), "response")), one),
        ("signed by a stranger", post(sign(Idp().response(), "both", key=rsa_key(9))), four),
        ("no XML", "A" * 349_524, one),
    ]
    columns = {"SAML response": "", "KiB": ".0f", "CPU ms": ".2f", "to one parse and canonicalization": ".1f"}
    table = Table({**columns, "outcome": ""})
    for name, encoded, what_is_expected in cases:
        table.row(name, *_measured(encoded, what_is_expected, seconds))


def _post(size: int, place: Signed) -> str:
    groups = tuple(f"group-{number:06d}-abcdefghijklmnopqrstuvwxyz" for number in range(size * 1_024 // _GROUP_BYTES))
    return post(sign(Idp(attributes=(("groups", groups),)).response(), place))


def _measured(
    encoded: str, what_is_expected: ExpectedResponse, seconds: float
) -> tuple[float, float, float | None, str]:
    """KiB, ms of CPU, their ratio to one parse and canonicalization if the response is accepted, and the outcome."""

    def verify() -> str:
        try:
            verify_response(encoded, what_is_expected)
        except LoginRefused as refusal:
            return f"refused: {refusal.reason}"
        return "accepted"

    outcome, taken, xml = verify(), _best(verify, seconds), decode(encoded)
    ratio = taken / _best(lambda: _canonicalize(xml), seconds) if outcome == "accepted" else None
    return len(xml) / 1_024, taken * 1e3, ratio, outcome


def _canonicalize(xml: bytes) -> None:
    etree.tostring(etree.fromstring(xml), method="c14n", exclusive=True)


def _best(call: Callable[[], object], seconds: float) -> float:
    """CPU seconds of the fastest call."""
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.process_time()
        call()
        best = min(best, time.process_time() - began)
    return best
