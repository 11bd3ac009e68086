"""Which survivors the tests of another revision catch: what the suite has lost since.

The product is the same, with the same mutant in it, and the tests are the revision's, run by its own options. Where
they fail on it without a mutant (the product has changed with them), the mutant goes into the revision's own product,
if its line is there.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.mutants import trees
from tests.mutants.drawing import find_again
from tests.mutants.session import Result, Session


def compare(
    source: Path,
    revision: str,
    survivors: Sequence[Result],
    session: Callable[[Path], Session],
    pristine: Path,
) -> list[Result]:
    """What becomes of each with the revision's tests. `session` makes one of a tree beside `pristine`."""
    product = trees.copy_with_tests(source, revision, pristine, pristine.with_name("before"))
    found = list(session(product).results([(survivor.mutant,) for survivor in survivors]))
    left = [result for result in found if result.outcome is None]
    if not left:
        return found
    own = trees.copy_revision(source, revision, pristine.with_name("revision"))
    again = [mutant for result in left if (mutant := find_again(own, result.mutant.identity)) is not None]
    second = {result.mutant.identity: result for result in session(own).results([(mutant,) for mutant in again])}
    return [second.get(result.mutant.identity, result) if result.outcome is None else result for result in found]
