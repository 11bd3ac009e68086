"""A gate in front of the parser: whoever is too much is turned away for a small part of what a request costs.

A route may have a gate (`Route.gate`). It is asked as soon as the head of a request is there:

    spent         a limit of its sender's own is known to be used up: turned away
    admitted      it holds a place until its handler is done and it is answered, and is parsed and handled as ever
    turned away   by an answer in bytes; its body is dropped as it comes, unparsed, and the connection goes on. To close
                  instead would cost both sides a new connection, which is more

What is unusual is turned away by the skeleton instead, like any other refusal: a chunked body, one so long that a new
connection is cheaper, `Expect`, a browser's page, a client that wants the connection closed (it costs both sides a new
one in any case), a request that does not wait for the answer to the one before.
"""

import re
import time
from collections.abc import Mapping
from email.utils import formatdate
from functools import lru_cache
from typing import Any, Final, Protocol

from aiohttp import web

from chassis.errors import ServiceUnavailable
from chassis.senders import names_project, sender_in

MAX_DROPPED: Final = 2**20  # bytes of a body that are still to come; reading these takes as long as a new connection

GATES: Final = web.AppKey("gates", Mapping[bytes, "Gate"])  # by method and path

_FIRST_LINE: Final = re.compile(rb"([A-Z]{3,7} /[^ ?\r\n]{0,256})(?:\?([^ \r\n]*))? HTTP/1\.1\r\n")
_FIELDS: Final = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]++:[^\r\n\0]*+\r\n)*+")
_LENGTH: Final = re.compile(rb"[ \t]*([0-9]{1,15})[ \t]*")
_UNFRAMED: Final = (b"transfer-encoding", b"upgrade")
_UNUSUAL: Final = (b"expect", b"origin")


def date_line() -> bytes:
    """The header Date, which aiohttp adds to answers of its own, with its line end."""
    return _date_line(int(time.time()))


@lru_cache(1)
def _date_line(second: int) -> bytes:
    return b"Date: %s\r\n" % formatdate(second, usegmt=True).encode()


class Place(Protocol):
    """Held by a request from its head to its answer."""

    def arrived(self) -> None:
        """The body is whole; from here on it is we who take the time. To say it again has no effect."""

    def leave(self, *, answered: bool) -> None:
        """The request is over; `answered` when it got what it came for. Called once."""


class Gate(Protocol):
    """Lets requests in, or not."""

    def spent(self, glimpse: "Glimpse") -> bytes | None:
        """The whole answer for a request whose sender is known to have used up what is his alone; None for others. It
        keeps the connection.
        """

    def enter(self, sender: bytes) -> Place | None:
        """A place for a request of `sender` (`chassis.senders`); None when there is none."""

    def refusal(self, glimpse: "Glimpse") -> bytes:
        """The whole answer for a request that got no place. It keeps the connection."""

    def refused(self) -> ServiceUnavailable:
        """The same for the skeleton to render."""


class Glimpse:
    """What the first bytes of a request say, without its being parsed.

    `route`: method and path. `size`: bytes of the head. `length`: of the body, as it says; `came`: what of it is there.
    `headers`: by name in lower case.
    """

    __slots__ = ("_head", "_query", "_sender", "came", "headers", "length", "route", "size")

    def __init__(self, line: re.Match[bytes], size: int, length: int, headers: Mapping[bytes, bytes]) -> None:
        """`line`: the first, found in what came."""
        self.route, self._query = line[1], line[2]
        self.size = size
        self.length = length
        self.came = min(length, len(line.string) - size)
        self.headers = headers
        self._head = line.string[: size - 2]
        self._sender: bytes | None = None  # until somebody asks

    @classmethod
    def of(cls, data: bytes) -> "Glimpse | None":
        """None when the head is not whole, or does not say how long the body is, or says it twice."""
        line = _FIRST_LINE.match(data)
        end = data.find(b"\r\n\r\n")
        if line is None or end < 0:
            return None
        lines = data[line.end() : end].split(b"\r\n")
        headers = {}
        for text in lines:
            name, _, value = text.partition(b":")
            headers[name.lower()] = value
        length = _LENGTH.fullmatch(headers.get(b"content-length", b"0"))
        if length is None or len(headers) != len(lines) or any(name in headers for name in _UNFRAMED):
            return None
        return cls(line, end + 4, int(length[1]), headers)

    @property
    def sender(self) -> bytes:
        """Whose it is, unchecked."""
        if self._sender is None:
            legacy_auth, authorization = self.headers.get(b"x-legacy-auth"), self.headers.get(b"authorization")
            self._sender = sender_in(_text(legacy_auth), _text(authorization), _text(self._query) or "")
        return self._sender

    @property
    def names_project(self) -> bool:
        """Whether it says more of its project than the key does."""
        return bool(self._query) and names_project(_text(self._query) or "")

    @property
    def plain(self) -> bool:
        """Whether it is well formed, and nothing in it asks for more than a status."""
        first = self._head.find(b"\r\n") + 2
        well_formed = _FIELDS.fullmatch(self._head, first) is not None
        last = b"close" in self.headers.get(b"connection", b"").lower()
        return well_formed and not last and not any(name in self.headers for name in _UNUSUAL)


class Doorway:
    """One connection before the gates: where its requests begin and end, as far as that can be told without parsing,
    and the place of the request that is under way.
    """

    __slots__ = ("_exact", "_gates", "_knocked", "_rest", "dropping", "place", "turned_away")

    def __init__(self, gates: Mapping[bytes, Gate]) -> None:
        self._gates = gates
        self._exact = True  # all requests so far ended where they said they would
        self._knocked = False  # what is parsed next is the first piece of a request
        self._rest = 0  # bytes of its body that are still to come
        self.dropping = 0  # the same, of a request that was turned away
        self.place: Place | None = None
        self.turned_away = False  # the skeleton is to say so

    @property
    def rest(self) -> int:
        """Bytes of the body under way that are still to come; 0 where that is not known."""
        return max(self._rest, 0) if self._exact else 0

    def knock(self, data: bytes, glimpse: Glimpse | None) -> bytes | None:
        """The first piece of a request, and what it says. The answer, if it is turned away here; then `data` is not for
        the parser.
        """
        self._knocked = True
        if not self._exact:
            glimpse = None
        rest = -1 if glimpse is None else glimpse.length - (len(data) - glimpse.size)
        self._rest, self._exact = rest, rest >= 0
        if glimpse is None or rest < 0:
            return None
        gate = self._gates.get(glimpse.route)
        if gate is None:
            return None
        spent = gate.spent(glimpse) if rest <= MAX_DROPPED else None
        if spent is not None:
            self._knocked, self._rest, self.dropping = False, 0, rest
            return spent
        if self.enter(gate, glimpse.sender):
            return None
        if rest > MAX_DROPPED or not glimpse.plain:
            self.turned_away = True
            return None
        self._knocked, self._rest, self.dropping = False, 0, rest
        return gate.refusal(glimpse)

    def drop(self, data: bytes) -> bytes:
        """What is left of `data` without the rest of a body that was turned away."""
        kept = data[self.dropping :]
        self.dropping -= len(data) - len(kept)
        return kept

    def parsed(self, nbytes: int, *, heads: int, whole: bool) -> None:
        """The parser has had `nbytes` and found so many heads in them; `whole`: the last body ends there."""
        if not self._knocked:
            self._rest -= nbytes
        if heads != self._knocked or whole != (self._rest == 0):
            self._exact = False  # pipelined, or the parser sees it otherwise
        self._knocked = False
        if whole:
            self.arrived()

    def arrived(self) -> None:
        """The body of the request under way is whole."""
        if self.place is not None:
            self.place.arrived()

    def enter(self, gate: Gate, sender: bytes) -> bool:
        """Take a place for the request under way; whether there was one."""
        self.place = gate.enter(sender)
        return self.place is not None

    def leave(self, *, answered: bool) -> None:
        """The request under way is over."""
        place, self.place, self.turned_away = self.place, None, False
        if place is not None:
            place.leave(answered=answered)


def require_place(request: web.Request, gate: Gate) -> None:
    """For the skeleton: refuse a request that was turned away, or could not be looked at before it was parsed and finds
    no place now.
    """
    doorway: Doorway = _connection(request).doorway
    if doorway.place is None and not doorway.turned_away:
        doorway.enter(gate, sender_of(request))
        if request.content.is_eof():
            doorway.arrived()
    if doorway.place is not None:
        return
    error = gate.refused()
    error.close = (request.content_length or 0) > MAX_DROPPED or "Expect" in request.headers
    raise error


def _connection(request: web.Request) -> Any:
    return request.protocol  # of `chassis.connections`, which has a doorway where there are gates


def sender_of(request: web.Request) -> bytes:
    """As `Glimpse.sender`, of a request that was parsed."""
    headers = request.headers
    query = request.raw_path.partition("?")[2]
    return sender_in(headers.get("X-Legacy-Auth"), headers.get("Authorization"), query)


def _text(value: bytes | None) -> str | None:
    """As the parser reads it."""
    return None if value is None else value.strip(b" \t").decode("utf-8", "surrogateescape")
