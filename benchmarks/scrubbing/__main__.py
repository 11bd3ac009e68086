"""How often the value rules take harmless texts for card or social security numbers, and whether they find real ones.

`python -m benchmarks.scrubbing`; docs/codec.md section 4. The texts come from a seed, so the rates are always the same.
"""

import time
from random import Random
from typing import Final

from benchmarks.codec.__main__ import machine
from benchmarks.scrubbing.former_rule import scrub as scrub_as_before
from benchmarks.scrubbing.texts import HARMLESS, secrets
from proto.otlp.reference.text import SCRUBBED, scrub

TEXTS: Final = 10_000
LONG_TEXTS: Final = 200  # of texts of more than LONG_BYTES
LONG_BYTES: Final = 500
SURROUNDINGS: Final = ("{}", "paid with {}, thanks", '{{"number":"{}"}}', "card={}&month=12", "({})", "id {} ok")


def measure_false_matches() -> None:
    """Prints per kind of text how many of a hundred are changed by the rules, now and before."""
    print(f"\n{'texts without such a number':36} {'texts':>7} {'changed':>9} {'before':>9}")
    for name, write in HARMLESS.items():
        random = Random(name)
        first = write(random).encode()
        texts = [
            first,
            *(write(random).encode() for _ in range((LONG_TEXTS if len(first) > LONG_BYTES else TEXTS) - 1)),
        ]
        now, before = (sum(rule(text) != text for text in texts) / len(texts) for rule in (scrub, scrub_as_before))
        print(f"{name:36} {len(texts):7} {now:9.3%} {before:9.3%}")


def measure_recall() -> None:
    """Prints how many of a hundred real numbers are found completely."""
    print(f"\n{'numbers that have to be found':36} {'texts':>7} {'found':>9} {'before':>9}")
    for name, write in secrets():
        random = Random(name)
        found = [0, 0]
        for place in range(TEXTS):
            around = SURROUNDINGS[place % len(SURROUNDINGS)]
            text, wanted = around.format(write(random)).encode(), around.format(SCRUBBED.decode()).encode()
            for at, rule in enumerate((scrub, scrub_as_before)):
                found[at] += rule(text) == wanted
        print(f"{name:36} {TEXTS:7} {found[0] / TEXTS:9.3%} {found[1] / TEXTS:9.3%}")


def main() -> None:
    """Prints the rates."""
    started = time.monotonic()
    print(machine())
    measure_false_matches()
    measure_recall()
    print(f"\n{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
