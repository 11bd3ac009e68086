"""The answer to a webhook of source control (specification 4.5)."""

from typing import Annotated

import msgspec
from msgspec import Meta


class ScmResult(msgspec.Struct, frozen=True, rename="camel"):
    """What the event did."""

    received: bool
    event: Annotated[str, Meta(description="The platform's name of the event.")]
    commits_upserted: Annotated[int, Meta(ge=0, description="Commits that were not known, or not with their files.")]
    change_events_created: Annotated[int, Meta(ge=0)]
    proposals_merged: Annotated[list[str], Meta(description="`repository#number` of proposals that were merged.")]
    issues_reopened: Annotated[list[str], Meta(description="Short ids of issues that are open again.")]
    proposals_superseded: Annotated[
        list[str], Meta(description="`repository#number` of other open proposals of the issues that a merge fixed.")
    ]
    commits_not_listed: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(
            description="Commits of the push that the platform did not list, so they are not known. Null: there are "
            "some, and it does not say how many.",
        ),
    ] = 0
