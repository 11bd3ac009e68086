"""How often the value rules take harmless texts for card or social security numbers, and whether they find real ones.

docs/codec.md section 4. The texts come from a seed, so the rates are always the same.
"""

from random import Random
from typing import Final

from benchmarks.command import command
from benchmarks.report import Table, print_machine
from benchmarks.scrubbing.former_rule import scrub as scrub_as_before
from benchmarks.scrubbing.texts import HARMLESS, secrets
from proto.otlp.reference.text import SCRUBBED, scrub

TEXTS: Final = 10_000
LONG_TEXTS: Final = 200  # of texts of more than LONG_BYTES
LONG_BYTES: Final = 500
SURROUNDINGS: Final = ("{}", "paid with {}, thanks", '{{"number":"{}"}}', "card={}&month=12", "({})", "id {} ok")


def measure_false_matches() -> None:
    """Prints per kind of text how many of a hundred are changed by the rules, now and before."""
    table = Table({"texts without such a number": "", "texts": "", "changed": ".3%", "before": ".3%"})
    for name, write in HARMLESS.items():
        random = Random(name)
        first = write(random).encode()
        texts = [
            first,
            *(write(random).encode() for _ in range((LONG_TEXTS if len(first) > LONG_BYTES else TEXTS) - 1)),
        ]
        now, before = (sum(rule(text) != text for text in texts) / len(texts) for rule in (scrub, scrub_as_before))
        table.row(name, len(texts), now, before)


def measure_recall() -> None:
    """Prints how many of a hundred real numbers are found completely."""
    table = Table({"numbers that have to be found": "", "texts": "", "found": ".3%", "before": ".3%"})
    for name, write in secrets():
        random = Random(name)
        found = [0, 0]
        for place in range(TEXTS):
            around = SURROUNDINGS[place % len(SURROUNDINGS)]
            text, wanted = around.format(write(random)).encode(), around.format(SCRUBBED.decode()).encode()
            for at, rule in enumerate((scrub, scrub_as_before)):
                found[at] += rule(text) == wanted
        table.row(name, TEXTS, *(number / TEXTS for number in found))


def main() -> None:
    """Prints the rates."""
    command(__package__, __doc__).parse_args()
    print_machine()
    measure_false_matches()
    measure_recall()


if __name__ == "__main__":
    main()
