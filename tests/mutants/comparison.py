"""Which survivors the tests of another revision catch: what the suite has lost since.

The product is the same, with the same mutant in it, and the tests are the revision's, run by its own options. Where
they fail on it without a mutant (the product has changed with them), the mutant goes into the revision's own product,
if its line is there.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.mutants.drawing import find_again
from tests.mutants.session import Result, Session


def compare(
    survivors: Sequence[Result], session: Callable[[Path], Session], product: Path, own: Callable[[], Path]
) -> list[Result]:
    """What becomes of each with the revision's tests: in `product`, or if need be in the revision's `own` tree."""
    found = list(session(product).results([(survivor.mutant,) for survivor in survivors]))
    left = [result.mutant.identity for result in found if result.outcome is None]
    if not left:
        return found
    tree = own()
    again = [mutant for identity in left if (mutant := find_again(tree, identity)) is not None]
    second = {result.mutant.identity: result for result in session(tree).results([(mutant,) for mutant in again])}
    return [second.get(result.mutant.identity, result) for result in found]
