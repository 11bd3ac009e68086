"""The kernel on any bytes against the reference, which is the oracle: same refusals, same counts, same blocks."""

from proto.otlp import reference
from tests.fuzz.protobuf import mutate_batch as mutate
from tests.fuzz.targets.kernel import agree, cases, load, outcome

__all__ = ["check", "mutate"]

_kernel = load("plain")


def check(data: bytes) -> None:
    batch = list(cases(data))
    agree(outcome(_kernel, batch), outcome(reference, batch))
