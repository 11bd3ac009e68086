"""The accepted interface: `accepted.json`, a copy of what clients were promised, and what may be taken from it.

The copy follows `sluice/openapi.json` by itself while nothing is gone or narrower (`make interface`). What is needs a
page in docs/adr with a line for it, which says the finding, or the place before its colon, or a place above it:

    Interface: GET /orgs/{orgSlug}/members parameters/query/limit: is gone
    Interface: GET /orgs/{orgSlug}/members
    Interface: #/components/schemas/Member/properties/email

A line is used up by the renewal that it allowed (`decided`): the next narrowing at this place needs one of its own.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from sluice.interface import split_lines
from tests.decisions import Allowance
from tests.interface.comparison import bare, findings
from tests.interface.containment import Finding

FILE: Final = Path(__file__).with_name("accepted.json")


class Accepted(msgspec.Struct, frozen=True):
    """A document without prose, and the lines that were used up for it."""

    decided: list[str]
    interface: dict[str, Any]


class Refused(Exception):
    """Something is gone or narrower, and no page says that it may be."""

    def __init__(self, undecided: Sequence[Finding]) -> None:
        self.findings = undecided
        super().__init__("\n".join(["these changes need an `Interface:` line in docs/adr:", *map(str, undecided)]))


def read() -> Accepted:
    """The copy of this tree."""
    return msgspec.json.decode(FILE.read_bytes(), type=Accepted)


def written(accepted: Accepted) -> bytes:
    """As the file has it: a line for each operation and each component."""
    return "".join([*split_lines(msgspec.to_builtins(accepted), 4), "\n"]).encode()


def renewed(accepted: Accepted, document: Mapping[str, Any], pages: Sequence[Allowance]) -> Accepted:
    """The copy that follows from a document. Raises Refused."""
    unused = [line for line in pages if str(line) not in accepted.decided]
    interface = bare(document)
    found = findings(accepted.interface, interface)
    undecided = [finding for finding in found if not any(covers(line.subject, finding) for line in unused)]
    if undecided:
        raise Refused(undecided)
    used = [str(line) for line in unused if any(covers(line.subject, finding) for finding in found)]
    return Accepted([*accepted.decided, *used], interface)


def covers(subject: str, finding: Finding) -> bool:
    """Whether a line is about the finding: names it, its place, or a place that this one is in."""
    below = (
        f"{subject} " if re.fullmatch(r"[A-Z]+ /\S*", subject) else f"{subject}/"
    )  # parts of an operation, of a part
    return subject in (str(finding), finding.place) or finding.place.startswith(below)
