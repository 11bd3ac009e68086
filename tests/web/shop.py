"""Spans that tests of the page send, and what they must then see of them, computed from the spans alone."""

import json
import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any, Final

SECOND: Final = 10**9
MILLI: Final = 10**6


@dataclass(frozen=True)
class Sent:
    """A span."""

    trace_id: str
    span_id: str
    parent: str
    service: str
    name: str
    start_ns: int
    duration_ns: int
    failed: bool = False
    attributes: dict[str, Any] = field(default_factory=dict)
    kind: int = 2  # SERVER

    def otlp(self) -> dict[str, Any]:
        return {
            "traceId": self.trace_id,
            "spanId": self.span_id,
            "parentSpanId": self.parent,
            "name": self.name,
            "kind": self.kind,
            "startTimeUnixNano": str(self.start_ns),
            "endTimeUnixNano": str(self.start_ns + self.duration_ns),
            "attributes": [{"key": key, "value": any_value(value)} for key, value in self.attributes.items()],
            "status": {"code": 2, "message": "it broke"} if self.failed else {},
        }


def any_value(value: Any) -> dict[str, Any]:
    match value:
        case str():
            return {"stringValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value if math.isfinite(value) else "NaN"}
    raise TypeError(value)


def export(spans: Sequence[Sent]) -> bytes:
    """As OTLP."""
    services = sorted({each.service for each in spans})
    resources = [
        {
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]},
            "scopeSpans": [{"spans": [each.otlp() for each in spans if each.service == service]}],
        }
        for service in services
    ]
    return json.dumps({"resourceSpans": resources}).encode()


def traffic(start_ns: int, length_ns: int, traces: int) -> list[Sent]:
    """Traces of four services over some time. In the third quarter of it one build is slow."""
    draw = random.Random(23)
    spans = []
    for number in range(traces):
        begun = start_ns + draw.randrange(length_ns - 10 * SECOND)
        build = draw.choice(("b40", "b41", "b42"))
        slow = build == "b42" and length_ns // 2 < begun - start_ns < length_ns * 3 // 4
        trace_id = f"{number + 1:032x}"
        for at, service in enumerate(("web", "cart", "payment", "db")):
            took = (
                draw.randrange(2, 4) * SECOND + draw.randrange(SECOND)
                if slow
                else int(MILLI * 2 ** draw.uniform(0, 10))
            )
            spans.append(
                Sent(
                    trace_id=trace_id,
                    span_id=f"{number * 4 + at + 1:016x}",
                    parent=f"{number * 4 + at:016x}" if at else "",
                    service=service,
                    name=draw.choice(("GET /", "GET /cart", "POST /pay")),
                    start_ns=begun + at * MILLI,
                    duration_ns=took,
                    failed=draw.random() < (0.25 if service == "payment" else 0.02),
                    attributes={"build": build, "region": draw.choice(("eu", "us"))},
                )
            )
    return spans


def percentile(spans: Iterable[Sent], thousandths: int) -> int:
    """Nearest rank, in nanoseconds."""
    values = sorted(each.duration_ns for each in spans)
    return values[math.ceil(Fraction(thousandths, 1000) * len(values)) - 1]


def edge(row: int) -> int:
    """The lower bound of a row of the heatmap in nanoseconds: 2^(row / 4) ms, rounded up to six digits."""
    exact = Context(prec=40).power(Decimal(2), Decimal(row) / 4)
    millis = Context(prec=6, rounding=ROUND_CEILING).plus(exact)
    return int((millis * MILLI).to_integral_value(ROUND_CEILING))


def row_of(duration_ns: int) -> int:
    row = math.floor(4 * math.log2(duration_ns / MILLI)) - 2
    while edge(row + 1) <= duration_ns:
        row += 1
    return row


def shown_duration(nanos: int) -> str:
    """Three digits and a unit."""
    for unit, size in (("ns", 1), ("us", 10**3), ("ms", MILLI), ("s", SECOND), ("min", 60 * SECOND)):
        value = Decimal(nanos) / size
        rounded = Context(prec=3).plus(value)
        if rounded < (60 if unit in ("s", "min") else 1_000):
            places = max(0, 2 - rounded.adjusted())
            return f"{value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)} {unit}"
    raise ValueError(nanos)


def shown_share(part: int, whole: int) -> str:
    """Neither none nor all, if it is neither; halves are rounded up."""
    value = part / whole
    if value in (0, 1):
        return f"{value * 100:.0f} %"
    if value < 0.001:
        return "< 0.1 %"
    if value > 0.999:
        return "> 99.9 %"
    places = Decimal("0.1") if value < 0.1 or value > 0.9 else Decimal(1)
    return f"{Decimal(value * 100).quantize(places, ROUND_HALF_UP)} %"


def count(spans: Iterable[Sent], of: Callable[[Sent], bool]) -> int:
    return sum(map(of, spans))


def wide_trace(trace_id: str, start_ns: int, size: int, errors: int) -> list[Sent]:
    """Many spans below one, below some of these others; errors among them; children that overlap."""
    draw = random.Random(size)
    failed = set(draw.sample(range(1, size), errors))
    spans = [Sent(trace_id, f"{1:016x}", "", "web", "GET /", start_ns, size * MILLI)]
    for number in range(1, size):
        above = spans[draw.randrange(max(0, number - 300), number)] if number % 3 else spans[0]
        begun = above.start_ns + draw.randrange(max(1, above.duration_ns))
        spans.append(
            Sent(
                trace_id,
                f"{number + 1:016x}",
                above.span_id,
                f"service-{number % 12}",
                f"step {number % 40}",
                begun,
                draw.randrange(1, 3 * MILLI * (1 + number % 50)),
                number in failed,
                {"number": str(number)},
            )
        )
    return spans


def deep_trace(trace_id: str, start_ns: int, size: int) -> list[Sent]:
    """A chain."""
    return [
        Sent(
            trace_id,
            f"{number + 1:016x}",
            f"{number:016x}" if number else "",
            f"service-{number % 3}",
            f"level {number}",
            start_ns + number,
            3 * size - 2 * number,
            number == size - 1,
        )
        for number in range(size)
    ]
