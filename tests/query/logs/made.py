"""Generated log records, and what filters find of them, in plain Python."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from query.values import format_timestamp
from tests.query import model
from tests.query.conftest import HOUR, NOW, Loader, record
from tests.query.model import as_shown, is_number, text_of

KEYS: Final = ("a", "b", "h", "resource.h", "resource.a", "body", "x y")
VALUES: Final = ("", "x", "7", 7, 7.0, -1, 0.5, 2**53 + 1, float("nan"), float("-inf"), True, b"\1", [1, "x"], {"k": 1})
BODIES: Final = (None, "", "broken", "null", "7", 7, 2.5, float("nan"), False, ["x"], {"k": None})


@dataclass
class Made:
    """A generated record. `resource`: the attributes of its resource."""

    at: int
    severity: int
    severity_text: str
    body: Any
    trace: int
    event: str
    attributes: dict[str, Any]
    resource: dict[str, Any] = field(default_factory=dict)

    def value(self, key: str) -> Any:
        """As filters find it; None: absent. Own fields as they are shown, besides the body."""
        if key in OWN:
            return OWN[key](self)
        try:
            return model.value_of(as_shown(self.attributes, self.resource, {}), key)
        except KeyError:
            return None

    def text(self, key: str) -> str | None:
        value = self.value(key)
        return None if value is None else text_of(value)


OWN: Final[Mapping[str, Callable[[Made], Any]]] = {
    "severityNumber": lambda made: made.severity or None,
    "severityText": lambda made: made.severity_text or None,
    "body": lambda made: '{"k":null}' if isinstance(made.body, dict) else made.body,
    "eventName": lambda made: made.event or None,
    "serviceName": lambda made: made.resource.get("service.name"),
    "environment": lambda _: "unknown",
    "release": lambda made: made.resource.get("service.version"),
    "time": lambda made: format_timestamp(made.at),
    "traceId": lambda made: f"{made.trace:032x}" if made.trace else None,
    "spanId": lambda _: None,
}


def numeric(key: str, made: Sequence[Made]) -> bool:
    """Whether the value of `key` is a finite number in each of the records that have it."""
    values = [value for value in (each.value(key) for each in made) if value is not None]
    return all(map(is_number, values))


def named(made: Sequence[Made]) -> set[str]:
    """The attributes of the records, as filters write them."""
    keys = {key for each in made for key in each.attributes}
    keys |= {f"resource.{key}" for each in made for key in each.resource}
    return {f"attr:{key}" if key in OWN else key for key in keys}


def batch(rng: random.Random, size: int = 30) -> list[Made]:
    """Records of one resource within two hours."""
    resource: dict[str, Any] = {key: rng.choice(VALUES) for key in ("a", "h") if rng.random() < 0.5}
    if rng.random() < 0.5:
        resource["service.name"] = rng.choice(["cart", "shop"])
    return [
        Made(
            at=NOW - 1 - rng.choice([0, 1, rng.randrange(2 * HOUR), rng.randrange(2 * HOUR)]),
            severity=rng.choice([0, 1, 9, 9, 10, 13, 17, 24]),
            severity_text=rng.choice(["", "notice", "Alert"]),
            body=rng.choice(BODIES),
            trace=rng.randrange(3),
            event=rng.choice(["", "e"]),
            attributes={key: rng.choice(VALUES) for key in KEYS if rng.random() < 0.3},
            resource=resource,
        )
        for _ in range(size)
    ]


async def load(loader: Loader, batches: Sequence[Sequence[Made]]) -> list[Made]:
    for made in batches:
        await loader.logs(
            *(
                record(
                    severity_text=text, event_name=event, at=at, body=body, trace=trace, severity=level, attributes=own
                )
                for at, level, text, body, trace, event, own, _ in (vars(each).values() for each in made)
            ),
            resource=made[0].resource,
        )
    return [each for made in batches for each in made]
