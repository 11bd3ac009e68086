"""OTLP/JSON of a protobuf message, the way the specification maps it; the oracle is protobuf's own JSON mapping."""

import base64
import json
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

_IDS = frozenset({"traceId", "spanId", "parentSpanId"})


def as_json(message: Message) -> bytes:
    """`message` with ids in hex and enums as numbers, where protobuf's mapping has base64 and names."""
    return json.dumps(_hex_ids(MessageToDict(message, use_integers_for_enums=True)), ensure_ascii=False).encode()


def _hex_ids(data: Any) -> Any:
    if isinstance(data, dict):
        return {
            key: base64.b64decode(value).hex() if key in _IDS and isinstance(value, str) else _hex_ids(value)
            for key, value in data.items()
        }
    return [_hex_ids(element) for element in data] if isinstance(data, list) else data
