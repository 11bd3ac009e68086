"""What makes a bundle invalid although it has the right shape."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from proto.proofs.bundle import ProofBundle, Statement
from proto.proofs.reading import bundle_of
from proto.proofs.semantics import repeated_claim_ids

MAX_ANNOTATION_DEPTH: Final = (
    32  # of lists and objects; deeper ones are read or not, as the reader has room on its stack
)


class Fault(NamedTuple):
    """`path` as in `.claims[0].claimId`, empty for the whole; `code`: a word for programs."""

    path: str
    message: str
    code: str


def find_faults(value: ProofBundle | Statement) -> Iterator[Fault]:
    """Ids that are there twice, and annotations that are nested too deeply."""
    place = ".predicate.ledger" if isinstance(value, Statement) else ""
    for at in repeated_claim_ids(bundle_of(value)):
        yield Fault(f"{place}.claims[{at}].claimId", "An earlier claim has this id.", "repeated")
    if isinstance(value, Statement):
        for at, descriptor in enumerate(value.subject):
            if descriptor.annotations is not UNSET and _is_deeper(descriptor.annotations, MAX_ANNOTATION_DEPTH):
                message = f"Must be nested at most {MAX_ANNOTATION_DEPTH} levels deep."
                yield Fault(f".subject[{at}].annotations", message, "too_deep")


def _is_deeper(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most):
        level = [inner for each in level for inner in _contents(each) if isinstance(inner, (dict, list))]
    return bool(level)


def _contents(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value
