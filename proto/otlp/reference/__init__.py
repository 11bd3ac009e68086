"""The decoder in Python: slow, plain, and the oracle that the kernel is held to (docs/codec.md).

`decode` walks a request through `survey` (is it sound, and small enough?), `schema` (protobuf, leniently), `items`
(accept, repair, count) and `values` (types and texts); `blocks.assemble` makes insert blocks of what several requests
left.
"""

from proto.otlp.policy import Faults, Policy, Signal
from proto.otlp.reference.blocks import DecodedRequest, assemble
from proto.otlp.reference.items import Reader
from proto.otlp.reference.named import NamedKeys
from proto.otlp.reference.schema import schema
from proto.otlp.reference.survey import survey

__all__ = ["DecodedRequest", "NamedKeys", "assemble", "decode"]

_ROW_BYTES = 4096  # an item's cells as Python objects, measured with 10 attributes; its texts are counted by the body


def decode(
    signal: Signal, body: bytes, project_id: int, policy: Policy, now_ns: int, faults: Faults | None = None
) -> DecodedRequest:
    """One export request in OTLP's protobuf encoding; raises DecodeError when it is refused as a whole. `faults`: items
    that are rejected already.
    """
    survey(signal, body, policy)
    classes = schema()
    request = (classes.traces if signal == "traces" else classes.logs).FromString(body)
    reader = Reader(project_id, policy, now_ns)
    reader.read(signal, request)
    faults = faults or Faults()
    return DecodedRequest(
        signal=signal,
        project_id=project_id,
        rows=reader.rows,
        rejected=dict(reader.rejected + faults.rejected),
        first_fault=faults.first,
        modified=dict(reader.modified),
        exceptions=reader.exceptions,
        exceptions_over_limit=reader.exceptions_over_limit,
        nbytes=len(reader.rows) * _ROW_BYTES + 2 * len(body),
    )
