"""The base of every statement."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseStatement:
    """`existing_attributes`: names of attributes (`query.sql.values.attribute_names`) that may exist. Others are not
    read, but their appearance is detected (`query.sql.Query.needs_recheck`). None: every location is read.

    ValueError without a positive project id.
    """

    project_id: int
    existing_attributes: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if self.project_id <= 0:
            raise ValueError("a statement requires a project")
