from collections.abc import Sequence

from proto.otlp.json import ItemReader
from proto.otlp.policy import Block, DecodedPayload, FieldFaults, Policy, Signal

def decode(
    signal: Signal, body: bytes, project_id: int, policy: Policy, now_ns: int, faults: FieldFaults | None = None
) -> DecodedPayload: ...
def decode_json(
    signal: Signal,
    body: bytes,
    project_id: int,
    policy: Policy,
    now_ns: int,
    reader: ItemReader,
    most_left: int,
    most_item: int = ...,
) -> DecodedPayload | None: ...
def to_protobuf(signal: Signal, body: bytes, policy: Policy, reader: ItemReader, most_left: int) -> bytes | None: ...
def count_objects(body: bytes) -> int: ...
def build_blocks(decoded: Sequence[DecodedPayload], batch_id: int, named: NamedKeys | None = None) -> list[Block]: ...

class NamedKeys:
    def __init__(self, per_batch: int, per_day: int, most: int = ...) -> None: ...
