"""The resources of SCIM as we publish them: the library's, but for what directories write that it refuses.

An address may be of a domain that the public DNS does not have (`corp.local`), which the library's type for addresses
refuses; a manager may be a bare id, which is what Microsoft Entra ID sends.
"""

from typing import Annotated, Any, ClassVar, Final, TypeAlias

import scim2_models
from pydantic import Field, model_validator
from scim2_models import CaseExact, ComplexAttribute, Mutability, Reference, ScimPolicy

# How far requests may depart from RFC 7643 and 7644: attributes that are not in the schemas are ignored, and PATCH
# works as Microsoft Entra ID writes it.
TOLERANT: Final = ScimPolicy(
    unknown=ScimPolicy.Unknown.ignore,
    remove_value_as_filter=ScimPolicy.RemoveValue.apply,
    unmatched_path_filter=ScimPolicy.UnmatchedPathFilter.create,
)


class Email(scim2_models.Email):
    """An e-mail address, of whatever form."""

    value: str | None = None


class Manager(ComplexAttribute):
    """The user's manager. A bare text is its `value`."""

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
        """Whether the user is active: yes, unless `active` is false."""
        return self.active is not False


class GroupMember(ComplexAttribute):
    """A user in a group. It has no `display`: that would change with the user, and the group with it."""

    value: Annotated[str | None, Mutability.immutable, CaseExact.true] = None
    ref: Annotated[Reference[scim2_models.User[Any]] | None, Mutability.immutable] = Field(
        None, serialization_alias="$ref", validation_alias="$ref"
    )
    type: Annotated[str | None, Mutability.immutable] = Field(None, examples=["User"])


class Group(scim2_models.Group):
    """Group of RFC 7643 4.2, of users alone."""

    members: list[GroupMember] | None = None  # type: ignore[assignment]
    Members: ClassVar[type[ComplexAttribute]] = GroupMember


ScimResource: TypeAlias = ScimUser | Group
