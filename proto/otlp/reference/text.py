"""Text in its stored form: well-formed UTF-8 within its limit (docs/codec.md 2).

Scrubbing finds keys that indicate a secret, and card and social security numbers in texts (docs/codec.md 4).
"""

import json
import re
from enum import Enum
from typing import Final, NamedTuple

from proto.otlp.policy import ItemModification, Policy
from proto.otlp.sensitive_keys import compile_words, key_rules, mark_parts


class Truncation(NamedTuple):
    """A text that was cut: its JSON Pointer (RFC 6901) in the record that explore shows, and its size as sent."""

    path: str
    nbytes: int


class Flags(set[ItemModification]):
    """The modifications of an item, a resource or a scope, and its truncations in the order of reading."""

    def __init__(self) -> None:
        super().__init__()
        self.truncations: list[Truncation] = []

    def cut(self, path: str, nbytes: int) -> None:
        self.add(ItemModification.TRUNCATED)
        self.truncations.append(Truncation(path, nbytes))


def pointer(parent: str, name: bytes) -> str:
    """The JSON Pointer of the member `name` of the object at `parent`."""
    return f"{parent}/{name.decode().replace('~', '~0').replace('/', '~1')}"


def encode_truncations(truncations: list[Truncation], limit: int) -> bytes:
    """The entries of a JSON list, without the brackets, that fit into `limit` bytes, and one entry for all others."""
    encoded, left_out = b"", 0
    for each in truncations:
        longer = encoded + b"," * bool(encoded) + _encode_truncation(each)
        if len(longer) <= limit:
            encoded = longer
        else:
            left_out += each.nbytes
    rest = _encode_truncation(Truncation("/truncations", left_out)) if left_out else b""
    return encoded + b"," * bool(encoded and rest) + rest


def _encode_truncation(truncation: Truncation) -> bytes:
    return compact_json({"path": truncation.path, "bytes": truncation.nbytes})


def repair(raw: bytes, flags: Flags) -> bytes:
    """`raw`, in which U+FFFD replaces each maximal ill-formed subpart."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        flags.add(ItemModification.REPAIRED)
        return raw.decode(errors="replace").encode()
    return raw


def truncate(text: bytes, limit: int) -> bytes:
    """The longest prefix of well-formed `text` of at most `limit` bytes that splits no character."""
    if len(text) <= limit:
        return text
    end = limit
    while end > 0 and text[end] & 0xC0 == 0x80:  # inside a character
        end -= 1
    return text[:end]


def cut_middle(text: bytes, limit: int) -> bytes:
    """The first and the last `limit / 2` bytes of `text`, with a line between them that says how many bytes were
    cut.
    """
    if len(text) <= limit:
        return text
    head = truncate(text, limit // 2)
    start = len(text) - limit // 2
    while start < len(text) and text[start] & 0xC0 == 0x80:  # inside a character
        start += 1
    return b"%s\n[%d bytes cut]\n%s" % (head, start - len(head), text[start:])


def clean(raw: bytes, limit: int, flags: Flags, path: str) -> bytes:
    """`raw`, repaired and then truncated to `limit` bytes. `path` is the path of the text in the record."""
    text = repair(raw, flags)
    if len(text) > limit:
        flags.cut(path, len(raw))
    return truncate(text, limit)


def compact_json(data: object) -> bytes:
    """JSON without spaces, non-ASCII characters unescaped. Raises ValueError for a non-finite number."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


SCRUBBED: Final = b"[scrubbed]"

_MAX_CACHED_KEYS: Final = 1024
_MAX_NUMBER_BYTES: Final = 40
_NUMBER: Final = re.compile(rb"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
# A number between word boundaries, in one of three spellings of card numbers, or as a social security number.
_CANDIDATE: Final = re.compile(
    rb"(?<![A-Za-z0-9._-])(?:[0-9]{13,19}|[0-9]{4}(?:([ -])[0-9]{4}(?:\1[0-9]{4}){2}|([ -])[0-9]{6}\2[0-9]{5})"
    rb"|[0-9]{3}-[0-9]{2}-[0-9]{4})(?![A-Za-z0-9_-]|\.[A-Za-z0-9])"
)
_SOCIAL_SECURITY_BYTES: Final = 11
# The first and last prefix of an issuer, and the possible numbers of digits of its card numbers.
ISSUERS: Final = (
    ("4", "4", (13, 16, 18, 19)),
    ("51", "55", (16,)),
    ("2221", "2720", (16,)),
    ("34", "34", (15,)),
    ("37", "37", (15,)),
    ("36", "36", range(14, 20)),
    ("38", "39", range(14, 20)),
    ("300", "305", range(14, 20)),
    ("6011", "6011", range(16, 20)),
    ("644", "649", range(16, 20)),
    ("65", "65", range(16, 20)),
    ("3528", "3589", range(16, 20)),
    ("62", "62", range(16, 20)),
    ("2200", "2204", range(16, 20)),
    ("508500", "508999", (16,)),
    ("606985", "607984", (16,)),
    ("608001", "608500", (16,)),
    ("5018", "5018", range(13, 20)),
    ("5020", "5020", range(13, 20)),
    ("5038", "5038", range(13, 20)),
    ("5893", "5893", range(13, 20)),
    ("6304", "6304", range(13, 20)),
    ("6759", "6759", range(13, 20)),
    ("6761", "6763", range(13, 20)),
)


class KeyVerdict(Enum):
    """The treatment of a key's value."""

    KEPT = "kept"
    SCRUBBED = "scrubbed"  # except booleans
    NUMBERS_KEPT = "numbers kept"  # booleans are kept too


class SensitiveKeys:
    """The key rule under one policy."""

    def __init__(self, policy: Policy) -> None:
        self._rules = key_rules(policy.sensitive_words, policy.exempt_keys)
        self._strict = compile_words(self._rules.strict_words)
        self._measurable = compile_words(self._rules.measurable_words)
        self._measures = compile_words(self._rules.measures)
        self._cache: dict[bytes, KeyVerdict] = {}  # by key, because keys repeat; at most _MAX_CACHED_KEYS

    def judge(self, key: bytes) -> KeyVerdict:
        """The treatment of the value of `key`."""
        known = self._cache.get(key)
        if known is None:
            if len(self._cache) >= _MAX_CACHED_KEYS:
                self._cache.clear()
            known = self._cache[key] = self._judge(key)
        return known

    def _judge(self, key: bytes) -> KeyVerdict:
        if key in self._rules.exempt:
            return KeyVerdict.KEPT
        marked = mark_parts(key)
        if key.lower() in self._rules.names or self._strict.search(marked):
            return KeyVerdict.SCRUBBED
        if not self._measurable.search(marked) or self._is_kept(key):
            return KeyVerdict.KEPT
        return KeyVerdict.NUMBERS_KEPT if self._measures.search(marked) else KeyVerdict.SCRUBBED

    def _is_kept(self, key: bytes) -> bool:
        return (
            key in self._rules.kept
            or any(key.startswith(text) and len(key) > len(text) for text in self._rules.kept_beginnings)
            or any(text in key[1:-1] for text in self._rules.kept_middles)
        )


def reads_as_number(text: bytes) -> bool:
    """Whether a text is a decimal number, as some libraries send counts."""
    return len(text) <= _MAX_NUMBER_BYTES and _NUMBER.fullmatch(text) is not None


def scrub(text: bytes) -> bytes:
    """`text`, in which `[scrubbed]` replaces each payment card number and US social security number."""
    out: list[bytes] = []
    done = start = 0
    while match := _CANDIDATE.search(text, start):
        start = match.end()
        if _is_secret(match[0]):
            out += (text[done : match.start()], SCRUBBED)
            done = match.end()
        else:
            start = match.start() + 1  # another candidate may begin at its second group
    return b"".join((*out, text[done:]))


def _is_secret(candidate: bytes) -> bool:
    digits = re.sub(rb"[ -]", b"", candidate).decode()
    return len(candidate) == _SOCIAL_SECURITY_BYTES or (_has_valid_issuer(digits) and has_valid_sum(digits))


def _has_valid_issuer(digits: str) -> bool:
    return any(low <= digits[: len(low)] <= high and len(digits) in lengths for low, high, lengths in ISSUERS)


def has_valid_sum(digits: str) -> bool:
    """Whether the check digit is valid (ISO/IEC 7812-1 annex B)."""
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[::-2])) + sum(doubled)) % 10 == 0
