"""A mutator that knows OTLP's messages: it changes one field somewhere in the tree and mends the lengths above it.

Bytes that are changed blindly fail at the first length; what is deep in a request is reached by changes that leave the
rest sound. New fields are those of the generator that the decoders' tests use.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple

from proto.otlp.protobuf_writer import bytes_field, varint
from tests.proto.otlp.generate import INTEGERS, KEYS, POLICIES, WORDS, Writer

Mutate = Callable[[bytes, int], bytes]

MOST_REPEATS: Final = 300  # enough for an index of two bytes
HEAD: Final = 3  # choice and length, before each request of a batch


class Message(NamedTuple):
    """A message type: which of its fields are messages, and what writes a new one of its fields."""

    children: Mapping[int, str]
    fields: Callable[[Writer], bytes]


MESSAGES: Final[Mapping[str, Message]] = {
    "traces": Message({1: "resource_spans"}, lambda w: w.request("traces")),
    "logs": Message({1: "resource_logs"}, lambda w: w.request("logs")),
    "resource_spans": Message({1: "resource", 2: "scope_spans"}, lambda w: bytes_field(1, w.resource())),
    "resource_logs": Message({1: "resource", 2: "scope_logs"}, lambda w: bytes_field(1, w.resource())),
    "scope_spans": Message({1: "scope", 2: "span"}, lambda w: bytes_field(2, w.span()) + bytes_field(1, w.scope())),
    "scope_logs": Message({1: "scope", 2: "log"}, lambda w: bytes_field(2, w.log()) + bytes_field(1, w.scope())),
    "resource": Message({1: "attribute", 3: "entity_ref"}, Writer.resource),
    "scope": Message({3: "attribute"}, Writer.scope),
    "span": Message({9: "attribute", 11: "event", 13: "link", 15: "status"}, Writer.span),
    "log": Message({5: "value", 6: "attribute"}, Writer.log),
    "event": Message({3: "attribute"}, Writer.event),
    "link": Message({4: "attribute"}, Writer.link),
    "status": Message({}, Writer.status),
    "entity_ref": Message({}, Writer.entity_ref),
    "attribute": Message({2: "value"}, Writer.attribute),
    "value": Message({5: "array", 6: "map"}, Writer.value),
    "array": Message({1: "value"}, lambda w: bytes_field(1, w.value())),
    "map": Message({1: "attribute"}, lambda w: bytes_field(1, w.attribute())),
}


class Field(NamedTuple):
    """A field as it was written: number, wire type, and its payload without the length."""

    number: int
    wire: int
    payload: bytes

    def encode(self) -> bytes:
        tag = varint(self.number << 3 | self.wire)
        return tag + varint(len(self.payload)) + self.payload if self.wire == 2 else tag + self.payload


def fields(data: bytes) -> tuple[list[Field], bytes]:
    """The fields of a message, and what is left where it breaks."""
    found, at = [], 0
    while at < len(data):
        tag, start = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        size, start = _varint(data, start) if wire == 2 else (_SIZES.get(wire, -1), start)
        if wire == 0:
            _, end = _varint(data, start)
        else:
            end = start + size
        if size < 0 or not start <= end <= len(data):
            break
        found.append(Field(number, wire, data[start:end]))
        at = end
    return found, data[at:]


_SIZES: Final = {0: 0, 1: 8, 5: 4}


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A varint, and where it ends; an end beyond the data where there is none."""
    value = 0
    for place in range(10):
        if at + place >= len(data):
            break
        byte = data[at + place]
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return value, at + place + 1
    return 0, len(data) + 1


def mutate_batch(data: bytes, max_size: int, random: Random, mutate: Mutate) -> bytes:
    """An input of the kernel's targets, changed: one request of it, or the batch."""
    requests = _split(data)
    if random.random() < 0.1 or not requests:
        return mutate(data, max_size)
    place = random.randrange(len(requests))
    choice, body = requests[place]
    way = random.randrange(20)
    if way == 0:
        requests[place] = (random.randrange(256), body)
    elif way == 1 and len(requests) < 16:
        requests.insert(place, random.choice(requests))
    elif way == 2 and len(requests) > 1:
        del requests[place]
    elif way == 3:
        requests[place] = (choice, mutate(body, max_size) if body else b"")
    else:
        room = max_size - sum(HEAD + len(body) for _, body in requests) + len(body)
        changed = mutate_message(body, _signal(choice), room, random, mutate)
        requests[place] = (choice, changed)
    return _join(requests)[:max_size]


def _signal(choice: int) -> str:
    """As the kernel's target reads it: policies, then the signal."""
    return ("traces", "logs")[choice // (len(POLICIES) + 2) % 2]


def mutate_message(body: bytes, kind: str, room: int, random: Random, mutate: Mutate) -> bytes:
    """`body`, a message of `kind`, with one change somewhere in it, in at most `room` bytes where that is possible."""
    for _ in range(3):
        changed = _descend(body, kind, random, mutate)
        if len(changed) <= room:
            return changed
    return _descend(body, kind, random, lambda payload, _: payload[: len(payload) // 2])


def _descend(body: bytes, kind: str, random: Random, mutate: Mutate) -> bytes:
    found, rest = fields(body)
    message = MESSAGES[kind]
    inner = [place for place, field in enumerate(found) if field.wire == 2 and field.number in message.children]
    if inner and random.random() < 0.85:
        place = random.choice(inner)
        field = found[place]
        payload = _descend(field.payload, message.children[field.number], random, mutate)
        found[place] = field._replace(payload=payload)
        if random.random() < 0.01:  # a length that is not so
            return b"".join(each.encode() for each in found[:place]) + body[: random.randrange(9)] + payload + rest
    else:
        _change(found, message, random, mutate)
    encoded = b"".join(field.encode() for field in found) + rest
    # An end in the middle of a field, with the lengths above as they should be then.
    return encoded[: -random.randrange(1, 10)] if random.random() < 0.04 else encoded


def _change(found: list[Field], message: Message, random: Random, mutate: Mutate) -> None:
    """One change of a message's own fields."""
    place = random.randrange(len(found) + 1)
    if place == len(found) or random.random() < 0.3:
        new, _ = fields(message.fields(_writer(random)))
        found[place:place] = random.sample(new, min(len(new), random.choice((1, 1, 2, 9))))
        return
    field = found[place]
    way = random.randrange(8)
    if way == 0:
        del found[place]
    elif way == 1:
        found[place:place] = [field] * random.choice((*[1] * 9, 2, 3, random.randrange(MOST_REPEATS)))
    elif way == 2:
        random.shuffle(found)
    elif way == 3:
        found[place] = field._replace(number=random.randrange(1, 18))
    elif way == 4:
        found.insert(random.randrange(len(found) + 1), found.pop(place))
    else:
        found[place] = field._replace(payload=_payload(field, random, mutate))


def _payload(field: Field, random: Random, mutate: Mutate) -> bytes:
    if field.wire == 0:
        return varint(random.choice((*INTEGERS, random.randrange(64), random.getrandbits(64))) & 2**64 - 1)
    if field.wire != 2:
        size = len(field.payload)
        return random.choice((bytes(size), b"\xff" * size, mutate(field.payload, size).ljust(size, b"\0")[:size]))
    if random.random() < 0.4:
        return _spliced(field.payload, random.choice((*KEYS, *WORDS)), random)
    return mutate(field.payload, len(field.payload) * 2 + 8) if field.payload else random.choice(WORDS)


def _spliced(text: bytes, piece: bytes, random: Random) -> bytes:
    at = random.randrange(len(text) + 1)
    return random.choice((text[:at] + piece + text[at:], piece, text[:at] + piece, piece + text[at:]))


def _writer(random: Random) -> Writer:
    return Writer(random, random.choice((0, 1, 2)), random.choice(POLICIES))


def _split(data: bytes) -> list[tuple[int, bytes]]:
    requests, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at + 1 : at + HEAD], "big")
        requests.append((data[at], data[at + HEAD : at + HEAD + size]))
        at += HEAD + size
    return requests


def _join(requests: Sequence[tuple[int, bytes]]) -> bytes:
    return b"".join(
        bytes((choice,)) + len(body[: 2**16 - 1]).to_bytes(2, "big") + body[: 2**16 - 1] for choice, body in requests
    )
