"""The decoder in Python: slow and plain, the reference that the kernel is tested against (docs/codec.md).

`decode` checks a request with `prevalidate` (well-formed, within limits, items of another signal), parses it with the
lenient protobuf classes of `schema`, and reads it with `items.ItemDecoder` (accepts, repairs, counts), which uses
`values.ValueReader` for types and texts. `blocks.build_blocks` builds the insert blocks of several decoded requests.
"""

from proto.otlp.policy import FieldFaults, Policy, RequestWarning, Signal
from proto.otlp.reference.blocks import DecodedRequest, NamedKeys, build_blocks
from proto.otlp.reference.items import ItemDecoder
from proto.otlp.reference.prevalidate import prevalidate
from proto.otlp.reference.values import schema

__all__ = ["DecodedRequest", "NamedKeys", "build_blocks", "decode"]

_ROW_BYTES = 4096  # cells of an item as Python objects, measured with 10 attributes; its texts are counted by the body


def decode(
    signal: Signal, body: bytes, project_id: int, policy: Policy, now_ns: int, faults: FieldFaults | None = None
) -> DecodedRequest:
    """Decode one export request in OTLP's protobuf encoding. Raises DecodeError if the request is refused. `faults`:
    items that are rejected already, and warnings.
    """
    found = prevalidate(signal, body, policy)
    classes = schema()
    request = (classes.traces if signal == "traces" else classes.logs).FromString(found.without_foreign_items(body))
    reader = ItemDecoder(project_id, policy, now_ns)
    reader.read(signal, request)
    faults = faults or FieldFaults()
    return DecodedRequest(
        signal=signal,
        project_id=project_id,
        rows=reader.rows,
        rejected=dict(reader.rejected + faults.rejected),
        first_fault=faults.first,
        warnings=[warning for warning in RequestWarning if warning in found.warnings | faults.warnings],
        modified=dict(reader.modified),
        exceptions=reader.exceptions,
        exceptions_over_limit=reader.exceptions_over_limit,
        nbytes=len(reader.rows) * _ROW_BYTES + 2 * len(body),
    )
