"""Which survivors the tests of another revision catch: what the suite has lost since.

The product is the same, with the same mutant in it, and the tests are the revision's, run by its own options. Where
they fail on it without a mutant (the product has changed with them), the mutant goes into the revision's own product,
if its line is there, under the name that its file had then.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from tests.mutants.drawing import find_again
from tests.mutants.session import Result, Session


def compare(
    survivors: Sequence[Result],
    session: Callable[[Path], Session],
    product: Path,
    own: Callable[[], Path],
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> list[Result]:
    """What becomes of each with the revision's tests: in `product`, or if need be in the revision's `own` tree, where
    the files of `renamed` have the names that it gives.
    """
    found = list(session(product).results([(survivor.mutant,) for survivor in survivors]))
    left = [result.mutant.identity for result in found if result.outcome is None]
    if not left:
        return found
    tree = own()
    then = {identity: identity._replace(path=renamed.get(identity.path, identity.path)) for identity in left}
    again = [mutant for identity in then.values() if (mutant := find_again(tree, identity)) is not None]
    second = {result.mutant.identity: result for result in session(tree).results([(mutant,) for mutant in again])}
    return [second.get(then.get(result.mutant.identity, result.mutant.identity), result) for result in found]
