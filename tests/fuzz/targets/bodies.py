"""Request bodies of the control API: refused field by field, or what Python's JSON reads, fit to be stored.

An input: a byte that chooses the type, and the body.
"""

import json
import re
from typing import Any, Final

import msgspec

from chassis.errors import BadRequest
from chassis.http.validation import MAX_ISSUES, MAX_MESSAGE_LENGTH, MAX_PATH_LENGTH, decode_body
from control.governance.tenants.api import NewProject, ProjectChange
from control.governance.tenants.project_keys import NewKey
from proto.identity import MAX_NAME_LENGTH, is_slug

TYPES: Final[tuple[type[Any], ...]] = (NewKey, NewProject, ProjectChange)
_UNSAID: Final = re.compile(r"[\x00-\x1f\x7f]")


def check(data: bytes) -> None:
    shape, body = TYPES[data[:1].ljust(1, b"\0")[0] % len(TYPES)], data[1:]
    try:
        decoded = decode_body(shape, body)
    except BadRequest as error:
        assert error.details
        assert len(error.details) <= MAX_ISSUES
        for issue in error.details:
            assert issue.path.startswith("body")
            assert len(issue.path) <= MAX_PATH_LENGTH
            assert 0 < len(issue.message) <= MAX_MESSAGE_LENGTH
        msgspec.json.encode(error.details)
        return
    assert json.loads(msgspec.json.encode(decoded)) == json.loads(body)
    name, slug = getattr(decoded, "name", msgspec.UNSET), getattr(decoded, "slug", "a")
    assert is_slug(slug)
    if name is not msgspec.UNSET:
        assert 0 < len(name) <= MAX_NAME_LENGTH
        assert not _UNSAID.search(name)
