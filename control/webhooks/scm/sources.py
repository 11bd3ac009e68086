"""The platforms of source control, and what their events do."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from control.integrations.model import IntegrationKind
from control.webhooks.endpoint import Source
from control.webhooks.scm.apply import apply_scm_event
from control.webhooks.scm.bitbucket import Bitbucket
from control.webhooks.scm.gitea import FORGEJO, GITEA
from control.webhooks.scm.github import GitHub
from control.webhooks.scm.gitlab import GitLab

SCM_SOURCES: Final[Mapping[IntegrationKind, Source]] = MappingProxyType(
    {
        IntegrationKind.GITHUB: Source(GitHub(), apply_scm_event),
        IntegrationKind.GITLAB: Source(GitLab(), apply_scm_event),
        IntegrationKind.BITBUCKET: Source(Bitbucket(), apply_scm_event),
        IntegrationKind.GITEA: Source(GITEA, apply_scm_event),
        IntegrationKind.FORGEJO: Source(FORGEJO, apply_scm_event),
    }
)
