"""Credentials as anyone may send them: four lines, X-Legacy-Auth, Authorization, legacy_key and project_id.

A refusal is 400 or 401 and does not repeat what was sent; what is taken has the shape of a key or token.
"""

from typing import Final

from chassis.auth import credential_guards, project_credential
from chassis.errors import ApiError, BadRequest, Unauthorized
from proto.identity import (
    encode_token,
    format_dsn,
    hash_secret,
    is_project_key,
    is_slug,
    is_token,
    parse_dsn,
    secret_hint,
)

_LONGEST_ECHO: Final = 7  # characters of what was sent that may stand in a refusal by chance


def check(data: bytes) -> None:
    lines = [line or None for line in data.decode(errors="surrogateescape").split("\n")]
    legacy_auth, authorization, legacy_key, project_id = (*lines, None, None, None, None)[:4]
    try:
        project_credential.check_bounds(legacy_key, project_id)
        found = project_credential.parse_credential(legacy_auth, authorization, legacy_key, project_id)
    except (BadRequest, Unauthorized) as error:
        check_silence(error, lines)
    else:
        assert is_project_key(found.key)
        assert any(found.key in line for line in lines if line)
    try:
        token = credential_guards._parse_bearer(authorization)
    except Unauthorized as error:
        check_silence(error, lines)
    else:
        assert len(hash_secret(token)) == 32
        if is_token(token):
            assert secret_hint(token) == token[-4:]
    for line in lines:
        check_formats(line or "")
    assert is_token(encode_token(data[:32].ljust(32, b"\0")))


def check_formats(text: str) -> None:
    is_slug(text)
    try:
        dsn = parse_dsn(text)
    except ValueError as error:
        assert not text or len(text) <= _LONGEST_ECHO or text not in str(error)
        return
    if not dsn.host.endswith("/"):
        assert format_dsn(f"{dsn.scheme}://{dsn.host}", dsn.key, dsn.project_id) == text


def check_silence(error: ApiError, sent: list[str | None]) -> None:
    said = " ".join([error.message, *(issue.message for issue in error.details or ())])
    for text in sent:
        for at in range(len(text or "") - _LONGEST_ECHO):
            piece = (text or "")[at : at + _LONGEST_ECHO + 1]
            assert piece not in said or piece.lower() in _OURS, "a refusal repeats a credential"


_OURS: Final = (  # what the refusals say themselves
    "the x-legacy-auth header must have the form: legacy legacy_key=<key>. "
    "the authorization header must have the form: dsn {scheme}://{key}@{host}/{projectid}. "
    "a project key is required. the request contains different project keys. send one key. "
    "the project key is not valid. "
    "a credential is repeated with different values. send it once. "
    "a credential is repeated too often. send it once. "
    "an access token is required: authorization: bearer <token>. "
    "the access token is not valid. the query is not valid. must have at most "
)
