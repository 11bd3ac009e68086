"""The decoder in Python: slow, plain, and the oracle that the kernel is held to (docs/codec.md).

`decode` walks a request through `survey` (is it sound, and small enough?), `schema` (protobuf, leniently), `items`
(accept, repair, count) and `values` (types and texts); `blocks.build_blocks` makes insert blocks of what several
requests left.
"""

from proto.otlp.policy import FieldFaults, Policy, Signal
from proto.otlp.reference.blocks import DecodedRequest, build_blocks
from proto.otlp.reference.items import ItemDecoder
from proto.otlp.reference.named import NamedKeys
from proto.otlp.reference.prevalidate import prevalidate
from proto.otlp.reference.schema import schema

__all__ = ["DecodedRequest", "NamedKeys", "build_blocks", "decode"]

_ROW_BYTES = 4096  # an item's cells as Python objects, measured with 10 attributes; its texts are counted by the body


def decode(
    signal: Signal, body: bytes, project_id: int, policy: Policy, now_ns: int, faults: FieldFaults | None = None
) -> DecodedRequest:
    """One export request in OTLP's protobuf encoding; raises DecodeError when it is refused as a whole. `faults`: items
    that are rejected already.
    """
    prevalidate(signal, body, policy)
    classes = schema()
    request = (classes.traces if signal == "traces" else classes.logs).FromString(body)
    reader = ItemDecoder(project_id, policy, now_ns)
    reader.read(signal, request)
    faults = faults or FieldFaults()
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
