"""Actions and the patterns that match them, segment by segment; regular expressions are never taken from outside.

An action is `domain.verb`, of up to eight segments. In a pattern `*` stands for exactly one segment, and `**` at the
end for one or more: `mitigation.*` matches `mitigation.apply`, `mitigation.**` also `mitigation.apply.region`, and `**`
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
    """Whether the pattern matches the action."""
    pattern_segments, action_segments = pattern.split("."), action.split(".")
    if pattern_segments[-1] == "**":
        pattern_segments.pop()
        if len(action_segments) <= len(pattern_segments):
            return False
        del action_segments[len(pattern_segments) :]
    return len(pattern_segments) == len(action_segments) and all(
        one in ("*", other) for one, other in zip(pattern_segments, action_segments, strict=True)
    )


def specificity(pattern: str) -> tuple[int, ...]:
    """Orders patterns that match the same action: greater is the one that, at the first difference, has a name instead
    of a star, or one star instead of two.
    """
    return tuple(_RANKS.get(segment, _LITERAL) for segment in pattern.split("."))
