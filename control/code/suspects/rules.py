"""Ranks commits by how likely they caused an error, from its frames and the files that each commit changed. Pure
functions.

A frame and a file match by the end of their paths. For example, deployed code is at `/app/src/shop/cart.py`, and the
repository has `src/shop/cart.py`. A class is `com/shop/Cart.java`, and the repository has
`src/main/java/com/shop/Cart.java`. The score of a commit is the weight of its best match plus a part of the weights of
its other matches, multiplied by factors for the whole commit, such as a low one for a commit that changes very many
files.

The work is bounded by MAX_FRAMES frames, MAX_COMMITS commits and MAX_SUSPECTS results.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from proto.stack_traces import SourceFrame

MAX_FRAMES: Final = 50
MAX_COMMITS: Final = 2_000
MAX_SUSPECTS: Final = 20
MAX_PARTS: Final = 64  # last parts of a path that are compared
MAX_MESSAGE: Final = 4_096  # characters of a message whose words count

_FURTHER_MATCHES: Final = 0.3  # weight of matches other than the best one
_PARTIAL: Final = 0.6  # neither path is the end of the other one
_GENERIC: Final = 0.3  # only the name of the file is the same, and every folder has a file of that name
_RENAMED: Final = 0.9  # the file had another name when the commit changed it
_COSMETIC: Final = 0.4  # the message says that the commit changes no behaviour
_PER_WORD: Final = 0.15  # for each word of the function's name that is in the message
_MAX_WORDS: Final = 2
_FEW_FILES: Final = 5
_MANY_FILES: Final = 1_000  # assumed for a commit with more files than were reported
_GENERIC_NAMES: Final = re.compile(
    r"(?:__init__|__main__|index|main|mod|lib|app|utils?|helpers?|types?|models?|views?|base|common|constants?|errors?"
    r"|Program|Startup|package)\.\w+"
)
_COSMETIC_START: Final = re.compile(
    r"(?:docs?|style|format|lint|chore|ci|build|test|refactor)(?:\([^)]{0,100}\))?!?:|"
    r"(?:fix(?:es)? )?(?:a )?(?:typos?|comments?|docstrings?|formatting|whitespace|indentation|spelling|wording)\b|"
    r"(?:rename|move|reformat|format|lint|bump|merge|sort|document|relicense|clean up|tidy)\b|"
    r"(?:add|update|improve|correct|fix|remove|reword|clarify|translate)\b.{0,40}"
    r"\b(?:typos?|comments?|docstrings?|documentation|docs|changelog|licen[cs]e|headers?|type hints?|annotations?"
    r"|formatting|whitespace|imports?|copyright)\b",
    re.IGNORECASE,
)
_RENAMING: Final = re.compile(r"\b(?:renam|mov)(?:e|es|ed|ing)\b", re.IGNORECASE)
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_STOP_WORDS: Final = frozenset(("get", "set", "the", "for", "and", "new", "run", "main", "call", "init", "anonymous"))
_MIN_WORD: Final = 3
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Parts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A commit to rank. `position`: its place in the order of commits, newest first."""

    repository: str
    sha: str
    message: str
    files: tuple[str, ...]
    authored_at: datetime | None
    position: int
    files_truncated: bool = False


class Reason(NamedTuple):
    """The commit changed the file of a frame. `rank` 0 is the innermost frame."""

    frame: SourceFrame
    file: str
    rank: int


class Suspect(NamedTuple):
    """A commit with its score, above 0, and the reasons."""

    candidate: Candidate
    score: float
    reasons: tuple[Reason, ...]


class _Match(NamedTuple):
    """A match of a changed file with the file of a frame. `quality`: how well the paths match, up to 1."""

    rank: int
    quality: float


def rank(frames: Sequence[SourceFrame], commits: Iterable[Candidate]) -> list[Suspect]:
    """Rank the first MAX_COMMITS commits by position. Returns the suspects, the most likely first."""
    considered = sorted(commits, key=lambda one: (one.position, one.repository, one.sha))[:MAX_COMMITS]
    top = _distinct(frames)
    matches = _match_files(top, considered)
    found = [suspect for one in considered if (suspect := _judge(one, top, matches)) is not None]
    return sorted(found, key=_order)[:MAX_SUSPECTS]


def _order(suspect: Suspect) -> tuple[float, float, int, str, str]:
    """Sort by score, the higher first. Of equal scores the newer commit is first."""
    one = suspect.candidate
    age = -((one.authored_at or _EPOCH) - _EPOCH).total_seconds()
    return -suspect.score, age, one.position, one.repository, one.sha


def _distinct(frames: Sequence[SourceFrame]) -> list[SourceFrame]:
    """The first frame of each file."""
    first: dict[Parts, SourceFrame] = {}
    for frame in frames[:MAX_FRAMES]:
        parts = _parts(frame.file)
        if parts:
            first.setdefault(parts, frame)
    return list(first.values())


def _match_files(frames: Sequence[SourceFrame], commits: Sequence[Candidate]) -> dict[str, _Match]:
    """The best match of each file that a commit changed. If several files match a frame, only the files with the
    longest common end of the path count: the others are different files of the same name.
    """
    by_name: dict[str, set[str]] = defaultdict(set)
    for one in commits:
        for file in one.files:
            by_name[file.rpartition("/")[2]].add(file)
    best: dict[str, _Match] = {}
    for position, frame in enumerate(frames):
        parts = _parts(frame.file)
        lengths = {file: _common_end(parts, _parts(file)) for file in by_name.get(parts[-1], ())}
        longest = max(lengths.values(), default=0)
        for file in sorted(file for file, length in lengths.items() if length == longest > 0):
            match = _Match(position, _quality(parts, _parts(file), longest))
            if file not in best or _weight(match) > _weight(best[file]):
                best[file] = match
    return _with_old_names(best, commits)


def _with_old_names(best: Mapping[str, _Match], commits: Sequence[Candidate]) -> dict[str, _Match]:
    """The matches with the earlier names of renamed files, which older commits have. A commit counts as a renaming if
    its message says so, and it changed exactly two files with the same extension and either the same name or the same
    folder, one of which matches.
    """
    found = dict(best)
    for one in commits:  # newest first: a file may have been renamed several times
        if len(one.files) != 2 or not _RENAMING.search(one.message[:MAX_MESSAGE]):
            continue
        for new, old in (one.files, one.files[::-1]):
            if new in found and old not in found and _is_renaming(new, old):
                found[old] = found[new]._replace(quality=found[new].quality * _RENAMED)
    return found


def _is_renaming(new: str, old: str) -> bool:
    (folder, _, name), (old_folder, _, old_name) = new.rpartition("/"), old.rpartition("/")
    return name.rpartition(".")[2] == old_name.rpartition(".")[2] and (name == old_name or folder == old_folder)


def _judge(one: Candidate, frames: Sequence[SourceFrame], matches: Mapping[str, _Match]) -> Suspect | None:
    """The suspect for a commit, or None if the commit changed no file of a frame."""
    by_frame: dict[int, tuple[float, str]] = {}
    for file in sorted(set(one.files)):
        if file in matches:
            weight = _weight(matches[file])
            if weight > by_frame.get(matches[file].rank, (0.0, ""))[0]:
                by_frame[matches[file].rank] = weight, file
    if not by_frame:
        return None
    weights = sorted((weight for weight, _ in by_frame.values()), reverse=True)
    base = weights[0] + _FURTHER_MATCHES * sum(weights[1:])
    words = _shared_words(one.message, [frames[position] for position in by_frame])
    factor = _breadth(one) * (_COSMETIC if _COSMETIC_START.match(one.message) else 1.0)
    score = round(base * factor * (1 + _PER_WORD * min(words, _MAX_WORDS)), 4)
    reasons = (Reason(frames[position], by_frame[position][1], position) for position in sorted(by_frame))
    return Suspect(one, score, tuple(reasons)) if score > 0 else None


def _weight(match: _Match) -> float:
    """The weight of a match: frames nearer to the top weigh more."""
    return match.quality / (1 + match.rank)


def _quality(frame: Parts, file: Parts, length: int) -> float:
    """The quality of a match, from the number of equal parts at the end of both paths."""
    whole = length in (len(frame), len(file))
    quality = (1 - 0.5**length) * (1.0 if whole else _PARTIAL)
    is_generic = length == 1 and _GENERIC_NAMES.fullmatch(file[-1]) is not None
    return quality * _GENERIC if is_generic else quality


def _breadth(one: Candidate) -> float:
    """A factor by which commits that change very many files weigh less."""
    count = max(len(one.files), _MANY_FILES if one.files_truncated else 0)
    return 1 / (1 + math.log10(max(1.0, count / _FEW_FILES)))


def _shared_words(message: str, frames: Iterable[SourceFrame]) -> int:
    """The number of words of the functions' names that are in the message."""
    names = {word for frame in frames for word in _words(frame.function[:200])} - _STOP_WORDS
    return len(names & _words(message[:MAX_MESSAGE])) if names else 0


def _words(text: str) -> set[str]:
    """The words of a name or a text, in lower case. Names in camel case are split."""
    return {found.lower() for found in _WORD.findall(text) if len(found) >= _MIN_WORD}


def _common_end(one: Parts, other: Parts) -> int:
    length = 0
    for a, b in zip(reversed(one), reversed(other), strict=False):
        if a != b:
            break
        length += 1
    return length


def _parts(path: str) -> Parts:
    """The last parts of a path. Empty for a path without a file name."""
    return tuple(part for part in path.split("/") if part not in ("", ".", ".."))[-MAX_PARTS:]
