"""Actions and the patterns that match them, segment by segment: no regular expression ever comes from outside.

An action is `domain.verb`, of up to eight segments. In a pattern `*` stands for one whole segment, and `**` at the end
for one or more: `mitigation.*` matches `mitigation.apply`, `mitigation.**` also `mitigation.apply.region`, and `**`
everything.
"""

from typing import Final

MAX_LENGTH: Final = 120
MAX_SEGMENTS: Final = 8
ACTION_NAME_PATTERN: Final = r"^[a-z][a-z0-9_-]*(?:\.[a-z0-9][a-z0-9_-]*){1,7}(?!\n)$"
_SEGMENT: Final = r"(?:[a-z0-9][a-z0-9_-]*|\*)"
ACTION_GLOB_PATTERN: Final = rf"^(?:\*\*|(?:{_SEGMENT}\.){{1,7}}(?:{_SEGMENT}|\*\*))(?!\n)$"

_LITERAL: Final = 2
_RANKS: Final = {"**": 0, "*": 1}


def matches(pattern: str, action: str) -> bool:
    """Whether the action is one of the pattern's."""
    wanted, given = pattern.split("."), action.split(".")
    if wanted[-1] == "**":
        wanted.pop()
        if len(given) <= len(wanted):
            return False
        del given[len(wanted) :]
    return len(wanted) == len(given) and all(one in ("*", other) for one, other in zip(wanted, given, strict=True))


def specificity(pattern: str) -> tuple[int, ...]:
    """Compares patterns that match the same action: greater where, at the first difference, a name stands against a
    star, or one star against two.
    """
    return tuple(_RANKS.get(segment, _LITERAL) for segment in pattern.split("."))
