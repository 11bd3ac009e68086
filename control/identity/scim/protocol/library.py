"""The SCIM library as Sluice uses it: its models as Sluice publishes them. Errors of the library become sentences of
Sluice, because the library quotes pydantic's.

The models accept some values that directories send and the library refuses. An address may have a domain that the
public DNS does not have (`corp.local`), and a manager may be a bare id, which Microsoft Entra ID sends.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, TypeAlias

import pydantic
import scim2_models
from pydantic import Field, model_validator
from scim2_models import (
    CaseExact,
    ComplexAttribute,
    Error,
    InvalidFilterException,
    Mutability,
    Reference,
    SCIMException,
    ScimPolicy,
)

from control.identity.scim.messages import ScimError
from proto.errors import ErrorCode

# Allowed deviations of requests from RFC 7643 and 7644: attributes that are not in the schemas are ignored, and PATCH
# works as Microsoft Entra ID writes it.
TOLERANT: Final = ScimPolicy(
    unknown=ScimPolicy.Unknown.ignore,
    remove_value_as_filter=ScimPolicy.RemoveValue.apply,
    unmatched_path_filter=ScimPolicy.UnmatchedPathFilter.create,
)


class Email(scim2_models.Email):
    """An e-mail address in any form."""

    value: str | None = None


class Manager(ComplexAttribute):
    """The user's manager. A bare text becomes its `value`."""

    value: Annotated[str | None, CaseExact.true] = None
    ref: Annotated[Reference[scim2_models.User[Any]] | None, Mutability.read_only] = Field(
        None, serialization_alias="$ref", validation_alias="$ref"
    )
    display_name: Annotated[str | None, Mutability.read_only] = None

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"value": value} if isinstance(value, str) else value


class EnterpriseUser(scim2_models.EnterpriseUser):
    """The enterprise extension of RFC 7643 4.3."""

    manager: Manager | None = None  # type: ignore[assignment]


class ScimUser(scim2_models.User[EnterpriseUser]):
    """User of RFC 7643 4.1, with the enterprise extension."""

    emails: list[Email] | None = None  # type: ignore[assignment]
    Emails: ClassVar[type[ComplexAttribute]] = Email

    @property
    def is_active(self) -> bool:
        """Whether the user is active. True unless `active` is false."""
        return self.active is not False


class GroupMember(ComplexAttribute):
    """A user in a group. It has no `display`, because a new name of the user would change the group, too."""

    value: Annotated[str | None, Mutability.immutable, CaseExact.true] = None
    ref: Annotated[Reference[scim2_models.User[Any]] | None, Mutability.immutable] = Field(
        None, serialization_alias="$ref", validation_alias="$ref"
    )
    type: Annotated[str | None, Mutability.immutable] = Field(None, examples=["User"])


class Group(scim2_models.Group):
    """Group of RFC 7643 4.2, with only users as members."""

    members: list[GroupMember] | None = None  # type: ignore[assignment]
    Members: ClassVar[type[ComplexAttribute]] = GroupMember


ScimResource: TypeAlias = ScimUser | Group


MAX_DETAIL_LENGTH: Final = 500  # the library quotes values, which may be long
_MAX_QUOTED_LENGTH: Final = 100
_CODES: Final = {
    403: ErrorCode.FORBIDDEN,
    404: ErrorCode.NOT_FOUND,
    409: ErrorCode.CONFLICT,
    412: ErrorCode.PRECONDITION_FAILED,
    501: ErrorCode.NOT_IMPLEMENTED,
}
_OBJECT: Final = "must be an object"
_LIST: Final = "must be a list"
_STRING: Final = "must be a string"
_BOOLEAN: Final = "must be true or false"
_INTEGER: Final = "must be an integer"
_TIME: Final = "must be a time such as 2026-11-20T15:20:00Z"
# Descriptions of valid values, by the kind of pydantic's error. The fields in braces are the fields of the error.
_PREDICATES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), _OBJECT),
        "list_type": _LIST,
        **dict.fromkeys(("string_type", "string_unicode", "string_sub_type"), _STRING),
        **dict.fromkeys(("bool_type", "bool_parsing"), _BOOLEAN),
        **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), _INTEGER),
        **dict.fromkeys(("datetime_type", "datetime_parsing", "datetime_from_date_parsing"), _TIME),
        **dict.fromkeys(("enum", "literal_error"), "must be {expected}"),
        **dict.fromkeys(("missing", "required_error"), "is required"),
        "extra_forbidden": "is not an attribute",
        "mutability_error": "cannot be written",
        "primary_uniqueness_error": "can have only one primary value",
        "schema_error": "must contain {schema}",
    }
)
_WRONG: Final[Mapping[str, str]] = MappingProxyType({"invalidPath": "The path", "invalidFilter": "The filter"})


@contextmanager
def translated() -> Iterator[None]:
    """Turns errors of the library into ScimError."""
    try:
        yield
    except SCIMException as error:
        raise _scim_error(error) from error
    except pydantic.ValidationError as error:
        raise _of_validation(error) from error
    except RecursionError as error:
        raise ScimError("The request is nested too deeply.", "invalidSyntax") from error


def _scim_error(error: SCIMException) -> ScimError:
    cause = error.__cause__
    if isinstance(cause, pydantic.ValidationError) and not isinstance(error, InvalidFilterException):
        return _of_validation(cause)
    return _of_library(str(error), error.scim_type, error.status)


def _of_validation(error: pydantic.ValidationError) -> ScimError:
    """The error for the first fault."""
    first: Mapping[str, Any] = error.errors(include_url=False)[0]
    described, kind, context = Error.from_validation_error(first), first["type"], first.get("ctx", {})
    path = _path(first["loc"])
    if kind.startswith("scim_"):  # an error of the library, which knows the reason
        refused = first["input"] if isinstance(first["input"], str) else ""
        return _of_library(first["msg"], described.scim_type, described.status, refused)
    predicate = _PREDICATES.get(kind, "is not valid").format_map({"expected": "another value", "schema": "", **context})
    own_name = context.get("field_name") or ("schemas" if kind == "schema_error" else "")
    if not path.endswith(own_name):
        path = f"{path}.{own_name}" if path else own_name
    return ScimError(f"{path or 'The body'} {predicate}."[:MAX_DETAIL_LENGTH], described.scim_type or None)


def _of_library(text: str, scim_type: str | None, status: int | None, refused: str = "") -> ScimError:
    """The error in the library's words, without its names of fields. `refused`: the path or filter, if known."""
    detail = " ".join(text.split()).replace("Field not found: ", "there is no attribute ")
    detail = detail.replace("the value written to '' must", "the value must")
    if detail.endswith("matches the path filter"):
        detail = "no value matches the filter of the path"
    if scim_type is not None and scim_type in _WRONG:
        quoted = f" {refused[:_MAX_QUOTED_LENGTH]!r}" if refused else ""
        detail = f"{_WRONG[scim_type]}{quoted} is not valid: {detail}"
    return ScimError(
        f"{detail[:1].upper()}{detail[1 : MAX_DETAIL_LENGTH - 1].rstrip('.')}.",
        scim_type or None,
        _CODES.get(status or 400, ErrorCode.BAD_REQUEST),
    )


def _path(location: Sequence[str | int]) -> str:
    """The place of a fault, such as `emails[1].value`, without the types that pydantic has tried."""
    path, separator = "", ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif "[" not in part and "(" not in part:
            path += f"{separator}{part}"
            separator = ":" if part.lower().startswith("urn:") else "."
    return path
