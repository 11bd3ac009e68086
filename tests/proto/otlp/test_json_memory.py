"""What is paid for reading JSON covers what reading it takes, for the bodies that take most."""

from collections.abc import Callable
from typing import Final

import pytest

from benchmarks.codec.memory import FAULTY_CASES, JSON_CASES, Body, grown
from tests.proto.otlp.test_json import span, traces
from tests.selection import scaled

MIB: Final = 2**20
SIZED: Final = pytest.mark.sized
QUICK: Final = ("text that is not UTF-8", "halves of surrogate pairs", "all items odd")
CASES: Final[dict[str, tuple[Callable[[], bytes], str]]] = {
    "text that is not UTF-8": (lambda: traces({"name": "X"}).replace(b"X", b"\xff" * scaled(8, 63) * MIB), "kernel"),
    "links": (JSON_CASES["2 M links"], "kernel"),
    "resources": (JSON_CASES["50 000 resources"], "kernel"),
    "halves of surrogate pairs": (
        lambda: traces({"name": "X"}).replace(b"X", rb"\ud800" * scaled(MIB // 4, 2 * MIB)),
        "python",
    ),
    "all items odd": (lambda: traces(*[span(flags=1.0, name="x" * 1_900)] * scaled(4_000, 30_000)), "items"),
    "the largest odd items": (FAULTY_CASES["1 MB odd, empty events"], "items"),
    "keys of an entity": (
        lambda: traces(resource={"entityRefs": [{"idKeys": ["X"]}]}).replace(b'"X"', b'"",' * 4 * MIB + b'""'),
        "python",
    ),
}


@pytest.mark.parametrize(
    ("make", "way"),
    [pytest.param(*case, id=name, marks=SIZED if name in QUICK else pytest.mark.long) for name, case in CASES.items()],
)
def test_what_is_paid_for_reading_json_covers_what_it_takes(make: Callable[[], bytes], way: str) -> None:
    taken = grown(Body(make(), is_json=True), way)
    assert taken.outcome.endswith("accepted")
    assert taken.peak < taken.paid, taken
