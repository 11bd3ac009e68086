"""The platforms of source control, and what their events do."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from control.inbound.integrations.model import IntegrationKind
from control.inbound.webhooks.endpoint import WebhookSource
from control.inbound.webhooks.forges.apply import apply_plain_pushes, apply_scm_event
from control.inbound.webhooks.forges.bitbucket import Bitbucket
from control.inbound.webhooks.forges.gitea import FORGEJO, GITEA
from control.inbound.webhooks.forges.github import GitHub
from control.inbound.webhooks.forges.gitlab import GitLab

SCM_SOURCES: Final[Mapping[IntegrationKind, WebhookSource]] = MappingProxyType(
    {
        IntegrationKind.GITHUB: WebhookSource(GitHub(), apply_scm_event, apply_plain_pushes),
        IntegrationKind.GITLAB: WebhookSource(GitLab(), apply_scm_event, apply_plain_pushes),
        IntegrationKind.BITBUCKET: WebhookSource(Bitbucket(), apply_scm_event, apply_plain_pushes),
        IntegrationKind.GITEA: WebhookSource(GITEA, apply_scm_event, apply_plain_pushes),
        IntegrationKind.FORGEJO: WebhookSource(FORGEJO, apply_scm_event, apply_plain_pushes),
    }
)
