"""What the version of a release says about its place among others of the same package; pure.

Read are Semantic Versioning 2.0.0, two to four numbers (`1.2.3.4`), calendar versions (`2026.02.09`), `git describe`
(`v1.2.3-4-g1234567`), PEP 440 and the qualifiers of Maven; each also behind the name of a package: `checkout@1.2.3`,
`@shop/checkout@1.2.3`, `checkout-v1.2.3`, `checkout/v1.2.3`.

Versions that differ only in something that does not order them have the same place: builds (`+10`), hashes
(`1.2.3-a1b2c3d`), revisions of packages (`1.2.3-1`), variants (`1.2.3-alpine`).
"""

import re
from typing import Final, NamedTuple

_MAX_LENGTH: Final = 200
_MAX_NUMBERS: Final = 4
# The first place that has two numbers with a point between them. Leading zeros only behind a year: 2026.02.09.
_CORE: Final = re.compile(
    r"(?:\A|[@/:_-])v?((?:[0-9]{4}(?:\.[0-9]+){1,3})|(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*)){1,3})(?![0-9])"
)
# Commits since the tag, as by git describe, versioneer (1.2.3+4.g1234567) and PEP 440 (1.2.3.post4).
_COUNT: Final = re.compile(
    r"-([0-9]{1,9})-g[0-9a-f]{4,64}(?:-(?:dirty|modified|broken))?\Z"
    r"|\+([0-9]{1,9})\.g[0-9a-f]{4,64}(?:\.dirty)?\Z"
    r"|[._-]?post([0-9]{1,9})(?:\.dev[0-9]+)?(?:\+[0-9a-zA-Z.]+)?\Z"
)
_BUILD: Final = re.compile(r"\+[0-9a-zA-Z.-]+\Z")
_SUFFIX: Final = re.compile(r"[-~][0-9a-zA-Z.~_-]+")
_QUALIFIER: Final = re.compile(r"[._]?([a-zA-Z]+)[._-]?([0-9]{0,9})(?:\.dev[0-9]*)?")  # 1.2.3rc1, 1.2.3.Final
_IDENTIFIERS: Final = re.compile(r"[.-]")
_HASH: Final = re.compile(r"(?!(?:19|20)[0-9]{6}(?:[0-9]{6})?\Z)g?[0-9a-f]{7,64}")  # and no date
_NUMBERED: Final = re.compile(r"([a-z]+)([0-9]{0,9})")
_PRERELEASES: Final = frozenset(
    {"alpha", "beta", "canary", "cr", "dev", "ea", "experimental", "milestone", "next", "nightly", "pre", "preview"}
    | {"rc", "snapshot", "a", "b", "c", "m"}
)
_FINAL: Final = frozenset(("final", "ga", "release", "sp"))
_SYNONYMS: Final = {
    "dev": "",
    "a": "alpha",
    "b": "beta",
    "c": "rc",
    "cr": "rc",
    "pre": "rc",
    "preview": "rc",
}  # PEP 440

# Of a pre-release; as in Semantic Versioning, numbers precede words, and words have their numbers by value.
_Identifiers = tuple[tuple[bool, str, int], ...]


class Version(NamedTuple):
    """`package`: its name, empty if none is given. `place` orders the versions of a package: its numbers; whether it is
    a release and no pre-release; the identifiers of the pre-release; the commits since.
    """

    package: str
    place: tuple[tuple[int, ...], bool, _Identifiers, int]

    @property
    def numbers(self) -> tuple[int, ...]:
        """Those of the release: four, those that are not given are 0."""
        return self.place[0]


def parse_version(text: str) -> Version | None:
    """None for a version of another form."""
    core = _CORE.search(text) if len(text) <= _MAX_LENGTH else None
    if core is None:
        return None
    rest = text[core.end() :]
    count = 0
    found = _COUNT.search(rest)
    if found is not None:
        count = int(next(filter(None, found.groups())))
    rest = rest[: found.start()] if found is not None else _BUILD.sub("", rest)
    numbers = [int(each) for each in core[1].split(".")]
    identifiers = _prerelease(rest)
    if identifiers is None:
        return None
    padded = (*numbers, *[0] * (_MAX_NUMBERS - len(numbers)))
    return Version(text[: core.start()], (padded, not identifiers, identifiers, count))


def _prerelease(suffix: str) -> _Identifiers | None:
    """The identifiers of a pre-release as far as they order it; empty for a release; None if no version ends so."""
    if not suffix:
        return ()
    if _SUFFIX.fullmatch(suffix):
        return _ordering(_IDENTIFIERS.split(suffix[1:].casefold()))
    qualifier = _QUALIFIER.fullmatch(suffix)
    word = "" if qualifier is None else qualifier[1].casefold()
    if qualifier is not None and word in _PRERELEASES:
        return ((True, _SYNONYMS.get(word, word), int(qualifier[2] or -1)),)
    return () if word in _FINAL else None


def _ordering(identifiers: list[str]) -> _Identifiers:
    """Those up to the first hash; none if the first is not known as the word of a pre-release."""
    found = list[tuple[bool, str, int]]()
    for each in identifiers:
        numbered = _NUMBERED.fullmatch(each)
        if _HASH.fullmatch(each) or not (found or (numbered and numbered[1] in _PRERELEASES)):
            break
        if each.isdigit():
            found.append((False, "", int(each)))
        else:
            found.append((True, numbered[1], int(numbered[2] or -1)) if numbered else (True, each, -1))
    return tuple(found)
