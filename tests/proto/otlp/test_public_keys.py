"""The key rule on public names: attributes of conventions, headers, cookies, environment variables and fields of logs.

The verdicts in public_keys.tsv were given by hand to names and groups of names, not computed from the rule: `kept`,
`scrubbed` (all but booleans) or `numbers` (numbers and texts that read as numbers are kept, too).
"""

import csv
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from proto.otlp.policy import Policy, is_exemptible
from proto.otlp.protobuf_writer import varint_field
from proto.otlp.sensitive_keys import KEPT_KEYS, SENSITIVE_WORDS
from tests.proto.otlp.conftest import Decoder
from tests.proto.otlp.sent import attributes, integer, pair, request, span, string


class PublicKey(NamedTuple):
    """A row of public_keys.tsv."""

    name: str
    kind: str
    verdict: str
    source: str


with (Path(__file__).parent / "public_keys.tsv").open(newline="") as file:
    PUBLIC_KEYS: Final = [PublicKey(*row) for row in csv.reader(file, delimiter="\t")][1:]
MANY: Final = Policy(max_attributes=10_000)


def stored(decoder: Decoder, names: list[str], value: bytes) -> dict[str, bytes]:
    decoded = decoder.decode("traces", request(span(attributes(9, *(pair(name, value) for name in names)))), MANY)
    (row,) = decoder.rows("spans", decoded)
    return {key.decode(): text for key, text in row["attributes"]}


def test_the_table_is_sound() -> None:
    assert len(PUBLIC_KEYS) > 2000
    assert len({key.name for key in PUBLIC_KEYS}) == len(PUBLIC_KEYS)
    assert {key.verdict for key in PUBLIC_KEYS} == {"kept", "scrubbed", "numbers"}
    assert all(key.kind and key.source for key in PUBLIC_KEYS)


@pytest.mark.parametrize(
    ("value", "text", "keeping"),
    [
        (string("v"), b"v", ["kept"]),
        (string("7"), b"7", ["kept", "numbers"]),
        (integer(7), b"7", ["kept", "numbers"]),
        (varint_field(2, 1), b"true", ["kept", "numbers", "scrubbed"]),
    ],
    ids=["text", "number as text", "number", "boolean"],
)
def test_public_keys(decoder: Decoder, value: bytes, text: bytes, keeping: list[str]) -> None:
    found = stored(decoder, [key.name for key in PUBLIC_KEYS], value)
    assert found == {key.name: text if key.verdict in keeping else b"[scrubbed]" for key in PUBLIC_KEYS}


def test_every_word_in_every_spelling(decoder: Decoder) -> None:
    spellings = []
    for word in SENSITIVE_WORDS:
        parts = word.split("_")
        capitals = [part.capitalize() for part in parts]
        spellings += [separator.join(parts) for separator in ("_", "-", ".", "=", "")]
        spellings += ["".join(capitals), "-".join(capitals), "_".join(parts).upper(), parts[0] + "".join(capitals[1:])]
    names = [name for spelling in dict.fromkeys(spellings) for name in (spelling, f"x.{spelling}_y", f"X-{spelling}2")]
    names += ["x" + spelling[0].upper() + spelling[1:] for spelling in spellings if spelling[0].islower()]
    assert {name for name, text in stored(decoder, names, string("v")).items() if text == b"v"} == {"session.id"}


def test_keys_of_conventions_are_kept_and_need_it(decoder: Decoder) -> None:
    keys = [key.replace("*", "x") for convention in KEPT_KEYS for key in convention.keys]
    assert len(set(keys)) == len(keys)
    assert set(stored(decoder, keys, string("v")).values()) == {b"v"}
    assert all(is_exemptible(key) and convention.source for convention in KEPT_KEYS for key in convention.keys)
