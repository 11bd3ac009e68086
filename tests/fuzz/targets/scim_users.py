"""Users as a directory may create them: bytes to a description, which both databases can store."""

import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import sqlalchemy as sa
from scim2_models import Context

from control.identity.directory.tables import scim_user_emails, scim_users
from control.identity.organizations.rules import validate_name
from control.identity.scim.messages import ScimError, decode_object
from control.identity.scim.protocol.library import MAX_DETAIL_LENGTH, ScimUser
from control.identity.scim.protocol.users import MAX_DOCUMENT_BYTES, MAX_EMAILS, describe, parse_user
from proto.identity import EMAIL_PATTERN, MAX_EMAIL_LENGTH, normalize_email
from tests.fuzz.targets.scim_mutation import Mutate, changed

_CONTROL: Final = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff]")
_JSON: Final = sa.JSON().bind_processor(  # type: ignore[no-untyped-call]  # it has no types
    sa.create_engine("sqlite://").dialect
)


def check(data: bytes) -> None:
    try:
        check_description(parse_user(decode_object(data), Context.RESOURCE_CREATION_REQUEST))
    except ScimError as error:
        assert len(error.message) <= MAX_DETAIL_LENGTH


def check_description(resource: ScimUser) -> None:
    """It is refused, or fits the columns: as text, as JSON that both databases take, as an account."""
    found = describe(resource)
    for name, value in found.values.items():
        if isinstance(value, str):
            check_text(value, scim_users.c[name])
    assert len(found.emails) <= MAX_EMAILS
    for email in found.emails:
        for text, column in ((email.value, scim_user_emails.c.value), (email.type, scim_user_emails.c.type)):
            if text is not None:
                check_text(text, column)
    assert isinstance(found.values["active"], bool)
    check_document(found.values["document"])
    assert validate_name(found.account_name) == found.account_name
    if found.account_email is not None:
        assert normalize_email(found.account_email) == found.account_email
        assert len(found.account_email) <= MAX_EMAIL_LENGTH
        assert re.fullmatch(EMAIL_PATTERN, found.account_email)


def check_text(text: str, column: sa.Column[Any]) -> None:
    text.encode()
    assert _CONTROL.search(text) is None
    assert len(text) <= getattr(column.type, "length", 0)


def check_document(document: dict[str, Any]) -> None:
    assert _JSON is not None
    stored = _JSON(document)
    assert len(stored) <= 6 * MAX_DOCUMENT_BYTES  # as escapes
    json.dumps(document, allow_nan=False)
    json.dumps(document, ensure_ascii=False).encode()
    assert json.loads(stored) == document


def mutate(data: bytes, max_size: int, random: Random, mutate: Mutate) -> bytes:
    return changed(data, max_size, random, mutate)


def examples() -> Iterator[bytes]:
    """Inputs to begin with: as Okta and Entra write users, and odd texts in each place."""
    schema, enterprise = (
        "urn:ietf:params:scim:schemas:core:2.0:User",
        "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User",
    )
    full: dict[str, Any] = {
        "schemas": [schema, enterprise],
        "userName": "ada@example.com",
        "externalId": "e-1",
        "active": True,
        "displayName": "Ada",
        "name": {"formatted": "Ada L", "familyName": "L", "givenName": "Ada"},
        "emails": [{"value": "ada@example.com", "type": "work", "primary": True}],
        "phoneNumbers": [{"value": "1", "type": "work"}],
        "addresses": [{"country": "GB"}],
        enterprise: {"department": "R", "manager": {"value": "x"}, "employeeNumber": "1"},
    }
    yield json.dumps(full).encode()
    changes: tuple[dict[str, Any], ...] = (
        {"active": "False"},
        {"id": "x", "meta": {"resourceType": "User"}, "groups": [{"value": "x"}]},
        {"userName": ""},
        {"userName": "\u0130" * 256},
        {"userName": "a\u0000b"},
        {"displayName": "\u0000"},
        {"emails": [{"value": "x@corp.local"}, {"value": None, "type": "o\u0000"}]},
        {"emails": "ada@example.com"},
        {"name": None, "displayName": None},
        {"title": "\u0000\ud800"},
        {"password": "secret", "x509Certificates": [{"value": "AAAA"}]},
        {enterprise: {"manager": "x"}},
        {"unknown": {"a": [1e308, 2**70]}},
        {"USERNAME": "b"},
    )
    for change in changes:
        yield json.dumps({"schemas": [schema], "userName": "a", **change}).encode()
