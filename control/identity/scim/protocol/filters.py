"""Filters and orders of SCIM as SQL (RFC 7644 3.4.2.2 and 3.4.2.3).

The library parses a filter and checks it against the schema. This module turns the tree into a condition over the
columns that `control.identity.directory.tables` has for filters. Attributes without a column are refused, because they
would require reading every user. A comparison with an attribute that has no value is false, and its negation true.

For a filter that one user matches, the database must not read every user. So an `eq` in another table is an `IN`, which
is read first. All other comparisons in another table are an `EXISTS`, which is evaluated for each user until a page is
full. A condition that selects few resources says so (`selects_few`), because their order must not be read from an index
of all resources.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from scim2_models import Path, ScimFilter, SearchRequest
from scim2_models.path import (
    AttributeBinding,
    AttrPath,
    CompareOperator,
    Comparison,
    FilterNode,
    LogicalExpr,
    LogicalOperator,
    Not,
    Present,
    ValuePath,
)
from scim2_models.path.resolution import coerce_value

from chassis.db.database import to_milliseconds
from control.identity.directory.tables import scim_group_members, scim_groups, scim_user_emails, scim_users
from control.identity.directory.user_store import fold
from control.identity.scim.messages import ScimError
from control.identity.scim.protocol.library import Group, ScimResource, ScimUser, translated

MAX_FILTER_LENGTH: Final = 4_096  # characters
MAX_COMPARISONS: Final = 50
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")

Condition = sa.ColumnElement[bool]


class _Kind(Enum):
    EXACT = auto()  # case-sensitive text
    FOLDED = auto()  # case-insensitive text; the column has it folded
    BOOLEAN = auto()
    TIME = auto()


class CompiledFilter(NamedTuple):
    """A filter as SQL. `selects_few`: an index leads to the matching resources, which are few."""

    condition: Condition
    selects_few: bool


_Within = Callable[[CompiledFilter], Condition]


@dataclass(frozen=True, slots=True)
class _Attribute:
    """A column that filters compare. `within` turns a condition on a row of another table into a condition on the
    resource. `is_selective`: few resources have the same value, and an index has it.
    """

    column: sa.ColumnElement[Any]
    kind: _Kind
    within: _Within = attrgetter("condition")
    is_selective: bool = False


_selective: Final = partial(_Attribute, is_selective=True)
_Name = tuple[str, str | None]  # of an attribute and its sub-attribute, in the spelling of the library's models


def _of_another_table(resource_id: sa.Column[str], reference: sa.Column[str]) -> _Within:
    """`within` for the resource whose id is in the column `reference` of the other table."""

    def within(found: CompiledFilter) -> Condition:
        if found.selects_few:
            return resource_id.in_(sa.select(reference).where(found.condition))
        return sa.exists().where(reference == resource_id, found.condition)

    return within


_of_email: Final = _of_another_table(scim_users.c.id, scim_user_emails.c.user_id)
_of_group: Final = _of_another_table(scim_users.c.id, scim_group_members.c.user_id)
_of_member: Final = _of_another_table(scim_groups.c.id, scim_group_members.c.group_id)

_PRIMARY_EMAIL: Final = (
    sa.select(scim_user_emails.c.value)
    .where(scim_user_emails.c.user_id == scim_users.c.id)
    .order_by(sa.func.coalesce(scim_user_emails.c.is_primary, sa.false()).desc(), scim_user_emails.c.position)
    .limit(1)
    .scalar_subquery()
)


@dataclass(frozen=True, slots=True)
class _Searchable:
    """The attributes of a kind of resource that filters and orders may use. `lists`: multi-valued attributes, by name
    of the sub-attribute.
    """

    single: Mapping[_Name, _Attribute]
    lists: Mapping[str, Mapping[str, _Attribute]]
    ordered: Mapping[_Name, sa.ColumnElement[Any]]


_USER_COLUMNS: Final[Mapping[_Name, _Attribute]] = MappingProxyType(
    {
        ("id", None): _selective(scim_users.c.id, _Kind.EXACT),
        ("external_id", None): _selective(scim_users.c.external_id, _Kind.EXACT),
        ("user_name", None): _selective(scim_users.c.user_name, _Kind.FOLDED),
        ("display_name", None): _selective(scim_users.c.display_name, _Kind.FOLDED),
        ("name", "family_name"): _Attribute(scim_users.c.family_name, _Kind.FOLDED),
        ("name", "given_name"): _Attribute(scim_users.c.given_name, _Kind.FOLDED),
        ("active", None): _Attribute(scim_users.c.active, _Kind.BOOLEAN),
        ("meta", "created"): _Attribute(scim_users.c.created_at, _Kind.TIME),
        ("meta", "last_modified"): _Attribute(scim_users.c.updated_at, _Kind.TIME),
    }
)
_GROUP_COLUMNS: Final[Mapping[_Name, _Attribute]] = MappingProxyType(
    {
        ("id", None): _selective(scim_groups.c.id, _Kind.EXACT),
        ("external_id", None): _selective(scim_groups.c.external_id, _Kind.EXACT),
        ("display_name", None): _selective(scim_groups.c.display_name_folded, _Kind.FOLDED),
        ("meta", "created"): _Attribute(scim_groups.c.created_at, _Kind.TIME),
        ("meta", "last_modified"): _Attribute(scim_groups.c.updated_at, _Kind.TIME),
    }
)
_SEARCHABLE: Final[Mapping[type[ScimResource], _Searchable]] = MappingProxyType(
    {
        ScimUser: _Searchable(
            _USER_COLUMNS,
            {
                "emails": {
                    "value": _selective(scim_user_emails.c.value, _Kind.FOLDED, _of_email),
                    "type": _Attribute(scim_user_emails.c.type, _Kind.FOLDED, _of_email),
                    "primary": _Attribute(scim_user_emails.c.is_primary, _Kind.BOOLEAN, _of_email),
                },
                "groups": {"value": _selective(scim_group_members.c.group_id, _Kind.EXACT, _of_group)},
            },
            {name: each.column for name, each in _USER_COLUMNS.items()} | {("emails", "value"): _PRIMARY_EMAIL},
        ),
        Group: _Searchable(
            _GROUP_COLUMNS,
            {"members": {"value": _selective(scim_group_members.c.user_id, _Kind.EXACT, _of_member)}},
            {name: each.column for name, each in _GROUP_COLUMNS.items()},
        ),
    }
)


def compile_filter(model: type[ScimResource], text: str) -> CompiledFilter:
    """A filter as SQL. Raises ScimError: `invalidFilter`."""
    if len(text) > MAX_FILTER_LENGTH:
        raise invalid_filter(f"A filter can have at most {MAX_FILTER_LENGTH} characters.")
    with translated():
        parsed = SearchRequest[model].model_validate({"filter": text}).filter  # type: ignore[valid-type]
    if parsed is None:
        raise invalid_filter("The filter is empty.")
    return _Compiler(_SEARCHABLE[model], parsed).compile(parsed.ast)


def to_order(model: type[ScimResource], sort_by: Path[Any]) -> sa.ColumnElement[Any]:
    """The column for `sortBy`. Raises ScimError for an attribute that cannot be sorted by."""
    with translated():
        binding = SearchRequest[model](sort_by=sort_by).sort_binding(model)  # type: ignore[valid-type]
    column = None if binding is None else _SEARCHABLE[model].ordered.get(_name(binding))
    if column is None:
        raise ScimError(f"Sorting by {sort_by} is not supported.", "invalidPath")
    return column


def invalid_filter(detail: str) -> ScimError:
    """400 with the keyword `invalidFilter`."""
    return ScimError(detail, "invalidFilter")


@dataclass(slots=True)
class _Compiler:
    searchable: _Searchable
    parsed: ScimFilter[Any]
    comparisons: int = 0

    def compile(self, node: FilterNode) -> CompiledFilter:
        """The condition of a node. The library bounds the depth of the tree."""
        if isinstance(node, LogicalExpr):
            return _join(node, [self.compile(term) for term in node.terms])
        if isinstance(node, Not):
            return CompiledFilter(sa.not_(self.compile(node.expr).condition), selects_few=False)
        if isinstance(node, ValuePath):
            return self._of_value_path(node)
        self._count()
        if isinstance(node, Present):
            return self._of_present(node)
        if isinstance(node, Comparison):
            binding = self._resolve(node.attr_path, for_comparison=True)
            attribute = self._attribute(binding, node.attr_path)
            return _within(attribute, _compare(attribute, node.op, _coerced(binding, node)))
        raise invalid_filter("The filter is not supported.")

    def _of_present(self, node: Present) -> CompiledFilter:
        binding = self._resolve(node.attr_path, for_comparison=False)
        name, sub_name = _name(binding)
        if name in self.searchable.lists and sub_name is None:
            any_of = next(iter(self.searchable.lists[name].values()))
            return _within(any_of, CompiledFilter(sa.true(), selects_few=False))
        attribute = self._attribute(binding, node.attr_path)
        return _within(attribute, _present(attribute))

    def _of_value_path(self, node: ValuePath) -> CompiledFilter:
        """All conditions of a value filter apply to the same value, so they are in one subquery."""
        name, _ = _name(self._resolve(node.attr_path, for_comparison=False))
        attributes = self.searchable.lists.get(name)
        if attributes is None:
            raise _unsupported(node.attr_path)
        any_of = next(iter(attributes.values()))
        return _within(any_of, self._of_value(node.val_filter, node.attr_path, attributes))

    def _of_value(self, node: FilterNode, parent: AttrPath, attributes: Mapping[str, _Attribute]) -> CompiledFilter:
        if isinstance(node, LogicalExpr):
            return _join(node, [self._of_value(term, parent, attributes) for term in node.terms])
        if isinstance(node, Not):
            negated = self._of_value(node.expr, parent, attributes)
            return CompiledFilter(sa.not_(negated.condition), selects_few=False)
        self._count()
        if not isinstance(node, Comparison | Present):
            raise invalid_filter("The filter is not supported.")
        path = AttrPath(parent.attr, node.attr_path.attr, parent.uri)
        binding = self._resolve(path, for_comparison=False)
        attribute = attributes.get(_name(binding)[1] or "")
        if attribute is None:
            raise _unsupported(path)
        if isinstance(node, Present):
            return _present(attribute)
        return _compare(attribute, node.op, _coerced(binding, node))

    def _resolve(self, path: AttrPath, *, for_comparison: bool) -> AttributeBinding:
        with translated():
            resolve = self.parsed.resolve_comparison if for_comparison else self.parsed.resolve
            binding = resolve(path)
        if binding is None:
            raise _unsupported(path)
        return binding

    def _attribute(self, binding: AttributeBinding, path: AttrPath) -> _Attribute:
        name, sub_name = _name(binding)
        found = self.searchable.single.get((name, sub_name))
        if found is None:
            found = self.searchable.lists.get(name, {}).get(sub_name or "")
        if found is None:
            raise _unsupported(path)
        return found

    def _count(self) -> None:
        self.comparisons += 1
        if self.comparisons > MAX_COMPARISONS:
            raise invalid_filter(f"A filter can have at most {MAX_COMPARISONS} comparisons.")


def _name(binding: AttributeBinding) -> _Name:
    """The name of the attribute. Attributes of extensions have no column, and must not match names of the resource."""
    is_core = binding.model in _SEARCHABLE
    return (binding.field_name if is_core else f"{binding.urn}", binding.sub_field_name)


def _join(node: LogicalExpr, terms: list[CompiledFilter]) -> CompiledFilter:
    conditions, few = [term.condition for term in terms], [term.selects_few for term in terms]
    if node.op is LogicalOperator.and_:
        return CompiledFilter(sa.and_(*conditions), any(few))
    return CompiledFilter(sa.or_(*conditions), all(few))


def _present(attribute: _Attribute) -> CompiledFilter:
    return CompiledFilter(attribute.column.is_not(None), selects_few=False)


def _within(attribute: _Attribute, found: CompiledFilter) -> CompiledFilter:
    return CompiledFilter(attribute.within(found), found.selects_few)


def _coerced(binding: AttributeBinding, node: Comparison) -> Any:
    with translated():
        value = coerce_value(binding, node.value, node.op)
    if isinstance(value, str) and _UNSTORABLE.search(value) is not None:
        raise invalid_filter("The filter contains a NUL or an unpaired surrogate.")
    return value


def _compare(attribute: _Attribute, operator: CompareOperator, value: Any) -> CompiledFilter:
    """A comparison as SQL. It is false, never NULL, for a row without a value, so that `not` makes it true."""
    column = attribute.column
    if value is None:
        if operator is CompareOperator.eq:
            return CompiledFilter(column.is_(None), selects_few=False)
        if operator is CompareOperator.ne:
            return _present(attribute)
        raise invalid_filter(f"null can be compared by eq and ne, not by {operator.value}.")
    if attribute.kind is _Kind.FOLDED:
        value = fold(str(value))
    elif attribute.kind is _Kind.TIME:
        if not isinstance(value, datetime):
            raise invalid_filter("A time can only be compared with a time (RFC 3339).")
        try:
            value = to_milliseconds(value)
        except OverflowError:  # in UTC, the time is before year 1 or after 9999
            raise invalid_filter("The time is out of range.") from None
    elif attribute.kind is _Kind.EXACT:
        value = str(value)
    few = attribute.is_selective and operator is CompareOperator.eq
    return CompiledFilter(sa.and_(column.is_not(None), _OPERATORS[operator](column, value)), few)


def _ends_with(column: sa.ColumnElement[Any], value: str) -> Condition:
    length = sa.func.length(column)
    return sa.and_(length >= len(value), sa.func.substr(column, length - len(value) + 1) == value)


def _contains(column: sa.ColumnElement[Any], value: str) -> Condition:
    """A substring condition without `LIKE`, which is not case-sensitive in SQLite."""
    return sa.true() if not value else sa.func.replace(column, value, "") != column


_OPERATORS: Final[Mapping[CompareOperator, Callable[[sa.ColumnElement[Any], Any], Condition]]] = MappingProxyType(
    {
        CompareOperator.eq: lambda column, value: column == value,
        CompareOperator.ne: lambda column, value: column != value,
        CompareOperator.co: _contains,
        CompareOperator.sw: lambda column, value: sa.func.substr(column, 1, len(value)) == value,
        CompareOperator.ew: _ends_with,
        CompareOperator.gt: lambda column, value: column > value,
        CompareOperator.ge: lambda column, value: column >= value,
        CompareOperator.lt: lambda column, value: column < value,
        CompareOperator.le: lambda column, value: column <= value,
    }
)


def _unsupported(path: AttrPath) -> ScimError:
    return invalid_filter(f"Filtering by {path} is not supported.")
