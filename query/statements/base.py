"""What every statement has."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseStatement:
    """`known`: names of attributes (`query.sql.values.names`) that there may be; others are not looked for, but their
    appearance is noticed (`query.sql.Query.guarded`). None: every place is looked at.
    """

    project_id: int
    existing_attributes: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if self.project_id <= 0:
            raise ValueError("a statement needs a project")
