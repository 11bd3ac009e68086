"""CPU time per span and per log record: the kernel against protobuf merely parsing the same bytes, and the other ways.

The ways take turns, round after round, so that a noisy neighbour on the machine meets all of them; what is printed is
the median round. A request has 512 items with 10 attributes each and a resource of 10 attributes.
"""

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from benchmarks.report import Table
from proto.otlp import codec, kernel, reference
from proto.otlp.json import ItemReader, to_protobuf
from proto.otlp.policy import Policy, Signal
from proto.otlp.reference.values import schema
from tests.proto.otlp.as_json import as_json
from tests.proto.otlp.realistic import NOW_NS, request

ITEMS = 512
BATCH = 40  # requests in one batch, about what an insert block of 20 000 rows takes
SLICE_S = 0.02  # each way gets about so long per round

Way = Callable[[], Any]


def ways(signal: Signal) -> dict[str, tuple[Way, int]]:
    """What is measured, by name, and how many items one call handles."""
    policy = Policy()
    message = request(signal, ITEMS)
    body, as_text = message.SerializeToString(), as_json(message)
    compact = json.dumps(json.loads(as_text), separators=(",", ":"), ensure_ascii=False).encode()
    classes = schema()
    parse = (TracesData if signal == "traces" else LogsData).FromString
    parse_bytes = (classes.traces if signal == "traces" else classes.logs).FromString
    odd = as_text.replace(b'"traceId": "', b'"traceId": null, "traceId": "', ITEMS // 64)
    decoded = [kernel.decode(signal, body, 1, policy, NOW_NS) for _ in range(BATCH)]
    slow = [reference.decode(signal, body, 1, policy, NOW_NS)]
    print(f"\n{signal}: {len(body) / ITEMS:.0f} bytes an item in protobuf, {len(as_text) / ITEMS:.0f} in JSON")
    return {
        "upb: parse": (lambda: parse(body), ITEMS),
        "upb: parse, strings as bytes": (lambda: parse_bytes(body), ITEMS),
        "kernel: decode": (lambda: kernel.decode(signal, body, 1, policy, NOW_NS), ITEMS),
        f"kernel: assemble {BATCH} requests": (lambda: kernel.build_blocks(decoded, 1), ITEMS * BATCH),
        "kernel: JSON to protobuf": (lambda: kernel.to_protobuf(signal, as_text, policy, ItemReader(signal), 0), ITEMS),
        "kernel: decode JSON": (
            lambda: codec.decode_json_within(codec.PythonReadLimit(0, 0), signal, as_text, 1, policy, NOW_NS),
            ITEMS,
        ),
        "kernel: decode JSON without spaces": (
            lambda: codec.decode_json_within(codec.PythonReadLimit(0, 0), signal, compact, 1, policy, NOW_NS),
            ITEMS,
        ),
        "kernel: decode JSON, an item in 64 left": (
            lambda: codec.decode_json(signal, odd, 1, policy, NOW_NS),
            ITEMS,
        ),
        "Python: JSON to protobuf": (lambda: to_protobuf(signal, as_text, policy), ITEMS),
        "Python: JSON to protobuf, decode": (
            lambda: kernel.decode(signal, to_protobuf(signal, as_text, policy).body, 1, policy, NOW_NS),
            ITEMS,
        ),
        "json.loads of the same JSON": (lambda: json.loads(as_text), ITEMS),
        "reference: decode": (lambda: reference.decode(signal, body, 1, policy, NOW_NS), ITEMS),
        "reference: assemble 1 request": (lambda: reference.build_blocks(slow, 1), ITEMS),
    }


def measure(signal: Signal, rounds: int) -> None:
    """Prints the median time per item of each way, and its ratio to upb's parse in the same round."""
    contenders = ways(signal)
    calls = {name: _calls(way) for name, (way, _) in contenders.items()}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, (way, items) in contenders.items():
            times[name].append(_time(way, calls[name]) / items * 1e6)
    baseline = times["upb: parse"]
    table = Table({"way": "", "us an item": ".3f", "of upb parse": ".2f", "best round": ".3f"})
    for name, taken in times.items():
        ratio = statistics.median(own / base for own, base in zip(taken, baseline, strict=True))
        table.row(name, statistics.median(taken), ratio, min(taken))


def _time(way: Way, calls: int) -> float:
    """CPU seconds a call, the freeing of its result included."""
    start = time.process_time()
    for _ in range(calls):
        way()
    return (time.process_time() - start) / calls


def _calls(way: Way) -> int:
    _time(way, 1)
    return max(1, round(SLICE_S / max(_time(way, 1), 1e-6)))
