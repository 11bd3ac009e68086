"""Normalize messages of errors: replace the parts that differ between occurrences, such as numbers, ids, times,
addresses, paths and quoted input.

A number, an id, a hash or an IP address of any spelling becomes `<n>`, so that a bug is one issue for all inputs. Words
are kept, with or without digits (`utf8`, `sha256`, `order_items`, `E11000`). Codes that name a failure count as words:
the status in `status 404` and `HTTP 500`, SQLSTATEs, errnos, exit codes. There are few such codes, and a 404 is a
different bug from a 500.

The cost is linear in the length: possessive quantifiers, and no pattern starts within a word.
"""

import re
from typing import Final

_WORDS: Final = (
    # encodings
    r"utf-?(?:7|8|16|32)(?:mb[34]|le|be)?|ucs-?[24]|iso-?8859(?:-\d{1,2})?|(?:windows|cp)-?\d{3,5}|latin-?\d"
    # hashes, ciphers, signatures
    r"|sha-?[123](?:-\d{3})?|sha-?(?:224|256|384|512)|md[245]|crc-?(?:8|16|32|64)|blake[23][bs]?"
    r"|base-?(?:16|32|36|58|62|64|85)|(?:aes|rsa|des|ecdsa|hmac|rc)-?\d{1,4}|[rehp]s-?(?:256|384|512)"
    r"|ed25519|x25519|curve25519|secp\d{3}[kr]1|p-?(?:256|384|521)|x\.?509|pkcs-?\d{1,2}"
    # types and machines
    r"|u?int-?(?:8|16|32|64|128)|float-?(?:16|32|64)|[iuf](?:8|16|32|64|128)|x86(?:[-_]64)?|x64|amd64|arm64|armv\d"
    r"|aarch64|riscv64|win(?:32|64)|i[3-6]86"
    # protocols and formats
    r"|https?-?[123]|h[23]c?|(?:tls|ssl)-?v?\d(?:\.\d)?|ipv?[46]|oauth-?[12]|saml-?[12]|h26[45]|mp[34]|av1|vp[89]"
    r"|rfc-?\d{3,5}|ieee-?754|v\d{1,2}(?:alpha|beta)\d{1,2}|[1-5]xx"
    # names
    r"|i18n|l10n|a11y|k8s|e2e|b2b|b2c|p2p|o11y|s3|ec2|r2|log4j2?|neo4j|sqlite3|db2|c3p0|web3|d3|es(?:[5-9]|20\d\d)"
    r"|py(?:thon)?[23](?:\.\d{1,2})?"
)
# Error codes of databases, compilers and identity providers, whose numbers name the failure.
_CODES: Final = (
    r"(?:ORA|TNS|PLS)-\d{4,5}|P[12]\d{3}|E\d{4,5}|TS\d{4,5}|CS\d{4}|AADSTS\d{4,7}|SQL\d{4,5}N?|PGRST\d{3}|MSB\d{4}"
)

KNOWN_WORD: Final = re.compile(rf"(?i:{_WORDS})|{_CODES}")

# Matches in a piece of an identifier: a known word at its start or where the case changes (group 1), or digits.
KNOWN_WORD_OR_DIGITS: Final = re.compile(
    rf"((?:(?<![^\W_])|(?<=[a-z0-9])(?=[A-Z]))(?:(?i:{_WORDS})|{_CODES})(?!\d))|\d++(?:\.\d++)*+"
)


_HASH: Final = re.compile(r"(?=[a-fA-F]*+[0-9])(?=[0-9]*+[a-fA-F])[0-9a-fA-F]{7,}")
_ULID: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}")
_SUFFIX: Final = re.compile(r"[bcdfghjklmnpqrstvwxz2456789]{5}")  # the alphabet of Kubernetes
_RUN: Final = re.compile(r"[A-Z]++(?![a-z])|[A-Z]?[a-z]++|[A-Z]|\d++|[^A-Za-z\d]++")
_VOWEL: Final = re.compile(r"[aeiouyAEIOUY]")

MIN_GENERATED_CHARS: Final = 8
MIN_SHORT_CHARS: Final = 5
NANOID_CHARS: Final = 21
# The mean length of the runs of letters and of digits in a word. Camel-case words have three and more.
RUN_CHARS: Final = 2.5
SHORT_RUN_CHARS: Final = 1.25


def is_generated_id(piece: str) -> bool:
    """Whether letters and digits are mixed as in ids and hashes. False for a word with a number (`sha256sum`)."""
    if len(piece) < MIN_SHORT_CHARS or piece.isdigit():
        return False
    if _HASH.fullmatch(piece) or _ULID.fullmatch(piece):
        return True
    return _has_short_runs(piece) and _has_short_runs(
        KNOWN_WORD_OR_DIGITS.sub(lambda match: "" if match[1] else match[0], piece)
    )


def _has_short_runs(text: str) -> bool:
    size, runs = len(text), len(_RUN.findall(text))
    if size < MIN_GENERATED_CHARS:
        return MIN_SHORT_CHARS <= size <= SHORT_RUN_CHARS * runs
    return size < RUN_CHARS * runs


def is_nanoid(token: str) -> bool:
    """Whether a word with its hyphens and underscores has the length of a nanoid, and cases and digits mixed."""
    return len(token) == NANOID_CHARS and not (token.islower() or token.isupper()) and is_generated_id(token)


def is_generated_suffix(piece: str, after_generated: bool) -> bool:
    """Whether the piece may be the five characters at the end of a pod's name. Without digits it may be only after a
    generated part.
    """
    return bool(_SUFFIX.fullmatch(piece)) and (after_generated or not (piece.isalpha() or piece.isdigit()))


def is_prefixed_id(letters: str) -> bool:
    """Whether the letters after a prefix (`usr_bXkQmZ`) are generated. Their upper and lower case decides, and
    camel-case words have vowels.
    """
    if letters.islower() or letters.isupper():
        return False
    return any(len(run) == 1 or not (run.isupper() or _VOWEL.search(run)) for run in _RUN.findall(letters))


MAX_MESSAGE_CHARS: Final = 1_024  # characters of the first line that are read
MAX_NORMALIZED_CHARS: Final = 512  # less, because replacements shorten one message more than another
MAX_PREFIX_CHARS: Final = 10

_DIGIT: Final = re.compile(r"\d")
_URL: Final = re.compile(r"(?<![\w+.-])\w[\w+.-]*+://[^\s\"'`<>)]*+")
_EMAIL: Final = re.compile(r"(?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)++")
_OBJECT: Final = re.compile(r"(?<=\w)@[0-9a-f]{1,16}\b")  # of Java, such as Cart@1b6d3586
_PATH: Final = re.compile(
    r"(?<=[\"'`])(?:[A-Za-z]:)?[/\\][^\"'`<>/\\]*+[/\\][^\"'`<>]*+(?=[\"'`])"  # quoted: may have spaces
    r"|(?<![\w/\\>.~-])(?:[A-Za-z]:[/\\]++[\w.@~+%=$-]++|(?:~|\.{1,2})?[/\\]++[\w.@~+%=$-]++[/\\]++[\w.@~+%=$-]++)"
    r"(?:[/\\]++[\w.@~+%=$-]++)*+[/\\]?"
)
# Phrases with which libraries quote text that they could not parse. Other quoted texts may be names that distinguish
# bugs.
_QUOTED_INPUT: Final = re.compile(
    r"(?i)\b(duplicate entry|with base \d+:|to float:|input string:?|parsing|integer\(\):|float\(\):"
    r"|input syntax for (?:type )?[\w ]{1,30}:|incorrect \w{1,20} value:|time data|isoformat string:"
    r"|unparseable date:|invalid uuid(?: string)?:?|^text) ?"
    r"(?:\"[^\"]*+\"?|'[^']*+'?|`[^`]*+`?)"
)
_INPUT_QUOTES: Final = (": '", ': "', "entry '", 'parsing "', "data '", "ext '", "string '", 'string "', "uuid '")

_CLOCK: Final = (
    r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d++)?)?(?: ?[AaPp]\.?[Mm]\b\.?)?"
    r"(?: ?(?:Z\b|UTC\b|GMT\b|[A-Z]{2,4}T\b))?(?: ?[+-]\d\d:?\d\d\b)?"
)
_DAY: Final = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*+,? "
_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*+\.?"
_TIME: Final = re.compile(
    r"(?<![\w.])(?<![0-9A-Fa-f]{2}:)(?:"  # not a part of an IPv6 or hardware address
    rf"\d{{4}}([-/.])\d{{1,2}}\1\d{{1,2}}(?:[T _]{_CLOCK})?"  # RFC 3339 and similar formats
    rf"|\d{{1,2}}([-/.])\d{{1,2}}\2\d{{4}}(?:,?[T ]{_CLOCK})?"
    rf"|(?:{_DAY})?\d{{1,2}}[ /-]{_MONTH}[ ,/-]{{1,2}}\d{{2,4}}(?:[ :,]{{1,2}}{_CLOCK})?"  # RFC 2822, access logs
    rf"|(?:{_DAY})?{_MONTH} {{1,2}}\d{{1,2}}(?:,? \d{{4}})?(?:[ ,]{{1,2}}(?:at )?{_CLOCK})?"  # ctime, syslog
    r"(?: [A-Z]{3,4})?(?: \d{4})?"
    r"|\d{8}T\d{4,6}(?:[.,]\d++)?Z?"
    r"|\d{1,2}:\d\d:\d\d(?:[.,]\d++)?(?: ?[AaPp][Mm]|Z)?|\d{1,2}:\d\d ?[AaPp][Mm]"
    r")(?!\w|:[0-9A-Fa-f])"
)
_TIME_HINT: Final = re.compile(rf"\d[:/.T-]\d|{_MONTH}")
_COLONS: Final = re.compile(  # IPv6 with its port, hardware addresses
    r"(?<![\w:.])\[?[0-9A-Fa-f]{0,4}(?::{1,2}+[0-9A-Fa-f]{0,4}){1,9}(?:\.\d{1,3}){0,3}(?:%\w{1,16})?\]?(?::\d{1,5})?(?!\w)"
)

# A word that has a digit, including parts after hyphens; decimals, thousands and exponents; a sign.
_TOKEN: Final = re.compile(
    r"(?<![\w-])(?:[+\u2212](?=\d))?\.?(?=[\w-]*\d)[\w-]++(?:[.,'\u2019]\d[\w-]*+)*+(?:(?<=[eE])\+\d[\w-]*+)?"
)
_UNIT: Final = (
    r"(?:ns|[u\u00b5\u03bc]s|ms|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?|months?|years?"
    r"|B|bytes?|[kKMGTP]i?[bB]|bits?|px|st|nd|rd|th)"
)
_NUMBER: Final = re.compile(
    rf"[-+\u2212]*(?:0[xX][0-9a-fA-F_]++|0[bBoO][0-7_]++|[vV]?\.?\d[\d_]*+(?:[.,'\u2019]\d[\d_]*+)*+"
    rf"(?:[eE][-+]?\d++|(?:{_UNIT}(?:\d++(?:\.\d++)?{_UNIT})*+)"
    r"|[-+](?:\d|alpha|beta|rc|pre|dev|snapshot|SNAPSHOT)[\w.-]*+)?[lLfFnu]?"
    r"|P(?:\d++[YMWD])*+(?:T(?:\d++(?:\.\d++)?[HMS])++)?)"
)
_UUID: Final = re.compile(r"(?<![^\W_])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![^\W_])")
_PIECE: Final = re.compile(r"([-_]?)([^\W_]++)")
# Words before a number that names a failure.
_CODE_WORDS: Final = ("status", "http", "error", "exit", "response", "errno", "sql", "signal", "hresult")
_CODE_BEFORE: Final = re.compile(
    r"(?i)(?:\b(?P<status>(?:http|response|status)[ _-]?(?:status)?[ _-]?(?:code)?)|\b(?P<version>https?/)"
    r"|\b(?:errno|winerror|os error|sqlstate|sqlcode|signal|hresult|exit(?:ed with)?(?:[ _]code| status)"
    r"|error code|react error))"
    r"(?:/\d(?:\.\d)?)?[\s:=(\[\"'#]{0,3}$"
)
_CODE_CHARS: Final = 32  # before a number
_STATUS: Final = re.compile(r"[1-5]\d\d")
_CODE: Final = re.compile(r"-?\d{1,5}|[0-9A-Z]{5}|0x[0-9a-fA-F]{8}")
_UNIT_AFTER: Final = re.compile(
    r"<n> ?(?:%|(?:ns|[u\u00b5\u03bc]s|ms|s|secs?|seconds?|mins?|minutes?|h|hrs?|hours?|days?|weeks?|months?|years?"
    r"|B|bytes?|[kKMGTP]i?[bB]|bits?)\b)"
)
_PLURAL: Final = re.compile(r"(<n> [A-Za-z-]{4,}+)(?<=[A-Za-rt-z]s)(?<!us)(?<!alias)(?![\w-])")
# Plurals with one more vowel than the singular: processes, matches, boxes, statuses, but not caches.
_HISSING: Final = re.compile(r"(?:ss|sh|(?<!ca)(?<!ni)ch|x|zz|status| bus|virus|bonus|alias)es$")
_LATIN: Final = re.compile(r"(?<= )(?:(ind|vert)ices|(matr)ices)$")
_SERIES: Final = re.compile(r"<n>(?:(?:, ?|; ?| |[-_:.])<n>)++")
_PREFIXED: Final = re.compile(r"_(?=[a-z]*+[A-Z])([A-Za-z]{6,}+)(?![\w<-])")  # an id without a digit
_PREFIX: Final = re.compile(r"(?<![\w>-])[a-z]{2,8}$")


def normalize_message(text: str) -> str:
    """The first line of a message, at most 512 characters, in which parts that differ between occurrences are
    replaced.
    """
    line = text.lstrip()[:MAX_MESSAGE_CHARS].split("\n", 1)[0]
    if "  " in line or not line.isprintable():  # tabs, for example, are not printable
        line = " ".join(line.split())
    if "://" in line:
        line = _URL.sub("<url>", line)
    if "@" in line:
        line = _OBJECT.sub("@<n>", _EMAIL.sub("<email>", line))
    if "/" in line or "\\" in line:
        line = _PATH.sub("<path>", line)
    if any(quote in line for quote in _INPUT_QUOTES):
        line = _QUOTED_INPUT.sub(r"\1 <value>", line)
    if "_" in line:
        line = _PREFIXED.sub(_replace_prefixed, line)
    if _DIGIT.search(line):
        line = _replace_numbers(line)
    return line[:MAX_NORMALIZED_CHARS].strip()


def _replace_numbers(line: str) -> str:
    if _TIME_HINT.search(line):
        line = _TIME.sub("<time>", line)
    if line.count(":") > 1:
        line = _COLONS.sub(_replace_colons, line)
    lowered = line.lower()
    has_code = any(word in lowered for word in _CODE_WORDS)
    line = _TOKEN.sub(_replace_token_or_code if has_code else _replace_token, line)
    if "<n>" in line:
        line = _SERIES.sub("<n>", _UNIT_AFTER.sub("<n>", line))
        line = _PLURAL.sub(_replace_plural, line)
    return line


def _replace_plural(match: re.Match[str]) -> str:
    text = match[1]
    if text.endswith("ices"):
        text = _LATIN.sub(lambda latin: f"{latin[1]}exs" if latin[1] else f"{latin[2]}ixs", text)
    if text.endswith("ies"):
        return f"{text[:-3]}y"
    return text[: -2 if _HISSING.search(text) else -1]


def _replace_prefixed(match: re.Match[str]) -> str:
    start = match.start()
    prefixed = _PREFIX.search(match.string, max(0, start - MAX_PREFIX_CHARS), start)
    return "_<n>" if prefixed and is_prefixed_id(match[1]) else match[0]


def _replace_colons(match: re.Match[str]) -> str:
    """Replace an address. An address has a digit, and either `::` or six groups."""
    text = match[0]
    return "<n>" if ("::" in text or text.count(":") >= 5) and _DIGIT.search(text) else text


def _replace_token_or_code(match: re.Match[str]) -> str:
    return match[0] if _is_code(match) else _replace_token(match)


def _replace_token(match: re.Match[str]) -> str:
    token = match[0]
    if token.isdigit():
        return "<n>"
    if KNOWN_WORD.fullmatch(token):
        return token
    if _NUMBER.fullmatch(token):
        return "<n>"
    if len(token) >= 36:
        token = _UUID.sub("<n>", token)
    if is_nanoid(token):
        return "<n>"
    return _replace_pieces(token)


def _is_code(match: re.Match[str]) -> bool:
    """Whether the match is a number that names a failure, according to the words before it."""
    start = match.start()
    before = _CODE_BEFORE.search(match.string[max(0, start - _CODE_CHARS) : start])
    if not before:
        return False
    return bool(before["version"] or (_STATUS if before["status"] else _CODE).fullmatch(match[0]))


def _replace_pieces(token: str) -> str:
    """Replace generated parts and numbers between hyphens and underscores. Words keep the characters around them."""
    parts: list[str] = []
    is_generated, at = False, 0
    for match in _PIECE.finditer(token):
        joint, piece = match[1], match[2]
        is_generated = is_generated_id(piece) or (joint == "-" and is_generated_suffix(piece, is_generated))
        replaced = "<n>" if is_generated else KNOWN_WORD_OR_DIGITS.sub(lambda part: part[1] or "<n>", piece)
        parts += token[at : match.start()], joint, replaced
        at = match.end()
    return "".join(parts) + token[at:]
