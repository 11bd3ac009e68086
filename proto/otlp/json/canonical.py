"""Rewrite OTLP/JSON whose members have names other than the names in `messages`, or are given twice.

`canonical` returns the text of a message with lowerCamelCase names, each name once. Lists that were given several times
are joined in the order of their appearance. For any other repeated member the last value is kept. A member given more
than MAX_TIMES times in one message is an error. Text that needs no changes is returned unchanged. Values are not
checked, and the parser reports text that is not JSON. No data is kept per element, so the memory in use is
proportional to the size of the text.
"""

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple, get_args, get_origin

import msgspec

from proto.otlp.json import messages
from proto.otlp.json.names import FIELD_NAMES, LEVELS, Level, camel_case, unread_names
from proto.otlp.policy import VALUE_DEPTH, RequestWarning, Signal

MAX_TIMES: Final = 64  # how often a member may be given in one message, not counting null

Value = tuple[int, int] | bytearray  # the position of a value in the text, or its canonical text

_SPACE: Final = rb"[ \t\n\r]*+"
_STRING: Final = rb'"(?:[^"\\]++|\\.)*+"'
_SIMPLE: Final = rb'(?:%s|[^][{}",: \t\n\r]++)' % _STRING


def _pattern(text: bytes) -> re.Pattern[bytes]:
    """A pattern in which `_` stands for white space, `S` for a string, and `V` for a value that is neither a list nor
    an object.
    """
    for letter, pattern in ((b"V", _SIMPLE), (b"S", _STRING), (b"_", _SPACE)):
        text = text.replace(b"<%s>" % letter, pattern)
    return re.compile(text, re.DOTALL)


# A member, with its value unless the value is a list or an object.
_MEMBER: Final = _pattern(b"(<S>)<_>:<_>(?:(<V>)<_>([,}])<_>)?")
_LEAF: Final = _pattern(b"<V>")
_AFTER: Final = _pattern(rb"<_>([,\]}])<_>")
_START: Final = _pattern(b"<_>")
_EMPTY: Final = _pattern(rb'null|""|\[<_>\]|\{<_>\}')
# Attributes in the form that most senders write, each with the comma after it. They need no changes.
_USUAL: Final = _pattern(
    rb'(?:\{<_>"key"<_>:<_><S><_>,<_>"value"<_>:<_>\{<_>"(?:string|int|double|bool)Value"<_>:<_><V><_>\}<_>\}<_>(?:,<_>|(?=\])))*+'
)


def _flat(levels: int) -> bytes:
    """A pattern for the content of a list or an object, with up to `levels` levels of nesting."""
    inner = rb"|[\[{]%s[\]}]" % _flat(levels - 1) if levels else b""
    return rb'(?:[^][{}"]++|<S>%s)*+' % inner


_NESTED: Final = _pattern(_flat(4))


class _NotJson(Exception):
    """The text is not JSON. The parser reports the error."""


class RepeatedTooOftenError(Exception):
    """A member was given more than MAX_TIMES times in one message. The text of the error names the member."""


class Member(NamedTuple):
    """A member that is read: whether it is a list, and the message that it contains, if the members of that message are
    read here.
    """

    repeated: bool
    shape: "MessageShape | None"


class MessageShape:
    """The members of one kind of message, by name."""

    def __init__(self, unread: Mapping[str, RequestWarning]) -> None:
        self.members: dict[bytes, Member] = {}
        self.unread = {name.encode(): warning for name, warning in unread.items()}
        self.is_value = False
        self.is_attribute = False


@cache
def shape_of(message: type[msgspec.Struct], signal: Signal = "traces", level: Level | None = None) -> MessageShape:
    """The shape of a class of `messages`. `level` is its place on the path from the request to an item."""
    shape = MessageShape(unread_names(signal, level) if level else {})
    _shapes[message] = shape
    below = LEVELS[LEVELS.index(level) + 1] if level and level != "item" else None
    for field in msgspec.structs.fields(message):
        shape.members[field.encode_name.encode()] = _member(field.type, field.encode_name, signal, below)
    shape.is_value = message is messages.AnyValue
    shape.is_attribute = message is messages.KeyValue
    return shape


_shapes: Final[dict[type[msgspec.Struct], MessageShape]] = {}  # of messages that can contain themselves


def _member(annotation: Any, name: str, signal: Signal, below: Level | None) -> Member:
    options = get_args(annotation) or (annotation,)
    lists = [get_args(option)[0] for option in options if get_origin(option) is list]
    held = (get_args(lists[0]) or (lists[0],)) if lists else options
    struct = next((option for option in held if isinstance(option, type) and issubclass(option, msgspec.Struct)), None)
    if struct is None:
        return Member(bool(lists) or name == FIELD_NAMES[signal][2], None)
    return Member(
        bool(lists), _shapes.get(struct) if below is None and struct in _shapes else shape_of(struct, signal, below)
    )


def canonical(text: bytes | msgspec.Raw, shape: MessageShape, warnings: set[RequestWarning]) -> bytes | msgspec.Raw:
    """The text of a message with each member once, under its lowerCamelCase name. Adds to `warnings` the changes that
    were made, and members that are known but not read. Raises RepeatedTooOftenError, and the errors of msgspec if text
    that needs changes is not JSON.
    """
    rewriter = _Rewriter(memoryview(text))
    try:
        rewritten = rewriter.message(shape)
    except (_NotJson, IndexError):
        return text
    except RepeatedTooOftenError:
        _ANY_OBJECT.decode(text)
        raise
    if rewritten is not None:
        _ANY_OBJECT.decode(text)
    warnings |= rewriter.warnings
    return text if rewritten is None else bytes(rewritten)


_ANY_OBJECT: Final = msgspec.json.Decoder(messages.AnyObject)


class _Rewriter:
    """Rewrites a text. Each method begins at a position of the text and returns the end of the part that it read."""

    def __init__(self, text: memoryview) -> None:
        self.warnings: set[RequestWarning] = set()
        self._text = text

    def message(self, shape: MessageShape) -> bytearray | None:
        """The complete new text, or None if the text needs no changes."""
        at = self._match(_START, 0).end()
        return self._object(at, shape, 0)[1] if self._text[at] == ord("{") else None

    def _match(self, pattern: re.Pattern[bytes], at: int) -> re.Match[bytes]:
        match = pattern.match(self._text, at)
        if match is None:
            raise _NotJson
        return match

    def _object(self, at: int, shape: MessageShape, depth: int) -> tuple[int, bytearray | None]:
        found: dict[bytes, Value] = {}
        again: Counter[bytes] | None = None
        changed = False
        depth += shape.is_value
        at = self._match(_START, at + 1).end()
        if self._text[at] == ord("}"):
            return at + 1, None
        more = True
        while more:
            match = self._match(_MEMBER, at)
            quoted = match[1]
            member = shape.members.get(name := quoted[1:-1])
            renamed = False
            if member is None:
                name, member, renamed = self._known(quoted, shape)
            start, end = match.span(2)
            rewritten = None
            if start < 0:  # a list or an object
                start = match.end()
                end, rewritten = self._value(start, member, depth)
                match = self._match(_AFTER, end)
            at, more = match.end(), match[match.lastindex or 1] == b","
            if member is None:
                self._warn_of_unread(shape, name, start, end)
            elif self._text[start] == ord("n"):
                changed |= name in found  # null means absent, so it does not replace an earlier value
            else:
                if renamed:
                    self.warnings.add(RequestWarning.SNAKE_CASE)
                if name in found:
                    again = self._count_again(again, name)
                changed |= renamed or rewritten is not None or again is not None
                self._keep(found, name, rewritten if rewritten is not None else (start, end), member)
        return at, self._written(found) if changed else None

    def _count_again(self, again: Counter[bytes] | None, name: bytes) -> Counter[bytes]:
        """Count a repetition of the member `name` in `again`, the repetitions in one message."""
        again = Counter() if again is None else again
        again[name] += 1
        if again[name] >= MAX_TIMES:
            raise RepeatedTooOftenError(
                f"the member {name.decode()} is given more than {MAX_TIMES} times in one message"
            )
        return again

    def _warn_of_unread(self, shape: MessageShape, name: bytes, start: int, end: int) -> None:
        warning = shape.unread.get(name)
        if warning is not None and not _EMPTY.fullmatch(self._text, start, end):
            self.warnings.add(warning)

    def _known(self, quoted: bytes, shape: MessageShape) -> tuple[bytes, Member | None, bool]:
        """The lowerCamelCase name of a member, the member if it is read, and whether its name was in snake_case."""
        name = quoted[1:-1]
        if b"\\" in name:
            try:
                name = msgspec.json.decode(quoted, type=str).encode()
            except (msgspec.DecodeError, UnicodeError):
                return name, None, False
        member = shape.members.get(name)
        if member is None and b"_" in name and (camel := camel_case(name)):
            return camel, shape.members.get(camel), True
        return name, member, False

    def _value(self, at: int, member: Member | None, depth: int) -> tuple[int, bytearray | None]:
        first = self._text[at]
        if member is not None and member.shape is not None and depth <= VALUE_DEPTH:
            if member.repeated and first == ord("["):
                return self._list(at, member.shape, depth)
            if not member.repeated and first == ord("{"):
                return self._object(at, member.shape, depth)
        return self._skipped(at), None

    def _list(self, at: int, shape: MessageShape, depth: int) -> tuple[int, bytearray | None]:
        text, copied, out = self._text, at, bytearray()
        at = self._match(_START, at + 1).end()
        if text[at] == ord("]"):
            return at + 1, None
        while True:
            if shape.is_attribute:
                at = self._match(_USUAL, at).end()
                if text[at] == ord("]"):
                    end = at + 1
                    break
            end, value = self._object(at, shape, depth) if text[at] == ord("{") else (self._skipped(at), None)
            if value is not None:
                out += text[copied:at]
                out += value
                copied = end
            after = self._match(_AFTER, end)
            if after[1] != b",":
                end = after.end(1)
                break
            at = after.end()
        if not out:
            return end, None
        out += text[copied:end]
        return end, out

    def _skipped(self, at: int) -> int:
        """The end of a value of any kind."""
        text = self._text
        if text[at] not in b"[{":
            return self._match(_LEAF, at).end()
        at += 1
        depth = 1
        while depth:
            at = self._match(_NESTED, at).end()
            if text[at] == ord('"'):
                raise _NotJson
            depth += 1 if text[at] in b"[{" else -1
            at += 1
        return at

    def _keep(self, found: dict[bytes, Value], name: bytes, value: Value, member: Member) -> None:
        """Add a member that is not null to the members that were found before."""
        before = found.get(name)
        if before is None or not member.repeated:
            if before is not None:
                self.warnings.add(RequestWarning.REPEATED_MEMBER)
            found[name] = value
            return
        first, second = self._as_list(before), self._as_list(value)
        if first is None:
            return  # the member is already invalid
        if second is None:
            found[name] = value
            return
        self.warnings.add(RequestWarning.REPEATED_LIST)
        if len(first) > len(b"[]") and len(second) > len(b"[]"):
            first[-1:] = b","
            first += memoryview(second)[1:]
        elif len(second) > len(b"[]"):
            first = second
        found[name] = first

    def _as_list(self, value: Value) -> bytearray | None:
        """The text of a list, without white space inside its brackets. None if the value is not a list."""
        if isinstance(value, bytearray):
            joined = value
        else:
            start, end = value
            if self._text[start] != ord("["):
                return (
                    None  # not copied, because it may be large, and is checked again for each repetition of the member
                )
            joined = self._copied(start, end)
        if joined[1:2] in b" \t\n\r" or joined[-2:-1] in b" \t\n\r":
            joined = bytearray(b"[%s]" % joined[1:-1].strip(b" \t\n\r"))
        return joined

    def _copied(self, start: int, end: int) -> bytearray:
        return bytearray(self._text[start:end])

    def _written(self, found: dict[bytes, Value]) -> bytearray:
        out = bytearray(b"{")
        for name, value in found.items():
            out += b'"%s":' % name
            out += self._text[value[0] : value[1]] if isinstance(value, tuple) else value
            out += b","
        if len(out) > 1:
            out.pop()
        out += b"}"
        return out
