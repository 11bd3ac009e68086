"""The decoder in Python, which is slow and simple. The kernel is tested against this reference (docs/codec.md).

`decode` checks with `prevalidate` that a request is well-formed and within limits, and finds items of another signal.
Then `decode` parses the request with the lenient protobuf classes of `schema`. `items.ItemDecoder` accepts, repairs and
counts items, and uses `values.ValueReader` for types and texts. `blocks.build_blocks` builds the insert blocks of
several decoded requests.
"""

from proto.otlp.policy import FieldFaults, Policy, RequestWarning, Signal
from proto.otlp.reference.blocks import DecodedRequest, NamedKeys, build_blocks
from proto.otlp.reference.items import ItemDecoder
from proto.otlp.reference.prevalidate import prevalidate
from proto.otlp.reference.values import schema

__all__ = ["DecodedRequest", "NamedKeys", "build_blocks", "decode"]

_ROW_BYTES = 4096  # cells of an item as Python objects, measured with 10 attributes; its texts count with the body


def decode(
    signal: Signal, body: bytes, project_id: int, policy: Policy, now_ns: int, faults: FieldFaults | None = None
) -> DecodedRequest:
    """Decode one export request in OTLP's protobuf encoding. Raises DecodeError if the request is refused. `faults`:
    items that were already rejected, and warnings.
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
