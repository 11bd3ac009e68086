"""The platforms of source control, and what their events do."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from control.integrations.model import IntegrationKind
from control.webhooks.endpoint import WebhookSource
from control.webhooks.scm.apply import apply_plain_pushes, apply_scm_event
from control.webhooks.scm.bitbucket import Bitbucket
from control.webhooks.scm.gitea import FORGEJO, GITEA
from control.webhooks.scm.github import GitHub
from control.webhooks.scm.gitlab import GitLab

SCM_SOURCES: Final[Mapping[IntegrationKind, WebhookSource]] = MappingProxyType(
    {
        IntegrationKind.GITHUB: WebhookSource(GitHub(), apply_scm_event, apply_plain_pushes),
        IntegrationKind.GITLAB: WebhookSource(GitLab(), apply_scm_event, apply_plain_pushes),
        IntegrationKind.BITBUCKET: WebhookSource(Bitbucket(), apply_scm_event, apply_plain_pushes),
        IntegrationKind.GITEA: WebhookSource(GITEA, apply_scm_event, apply_plain_pushes),
        IntegrationKind.FORGEJO: WebhookSource(FORGEJO, apply_scm_event, apply_plain_pushes),
    }
)
