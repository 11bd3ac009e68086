"""The platforms that send to `/webhooks/integrations/{integrationId}`, by the kind of their integrations."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from control.integrations.model import IntegrationKind
from control.webhooks.endpoint import WebhookSource
from control.webhooks.trackers.apply import apply_tracker_event
from control.webhooks.trackers.generic import Generic
from control.webhooks.trackers.jira import Jira
from control.webhooks.trackers.linear import Linear
from control.webhooks.trackers.pagerduty import PagerDuty

TRACKER_SOURCES: Final[Mapping[IntegrationKind, WebhookSource]] = MappingProxyType(
    {
        IntegrationKind.LINEAR: WebhookSource(Linear(), apply_tracker_event),
        IntegrationKind.JIRA: WebhookSource(Jira(), apply_tracker_event),
        IntegrationKind.PAGERDUTY: WebhookSource(PagerDuty(), apply_tracker_event),
        IntegrationKind.GENERIC: WebhookSource(Generic(), apply_tracker_event),
    }
)
