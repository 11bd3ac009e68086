"""The platforms that send to `/webhooks/integrations/{integrationId}`, by the kind of their integrations."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from control.inbound.integrations.model import IntegrationKind
from control.inbound.webhooks.endpoint import WebhookSource
from control.inbound.webhooks.trackers.apply import apply_tracker_event
from control.inbound.webhooks.trackers.generic import Generic
from control.inbound.webhooks.trackers.jira import Jira
from control.inbound.webhooks.trackers.linear import Linear
from control.inbound.webhooks.trackers.pagerduty import PagerDuty

TRACKER_SOURCES: Final[Mapping[IntegrationKind, WebhookSource]] = MappingProxyType(
    {
        IntegrationKind.LINEAR: WebhookSource(Linear(), apply_tracker_event),
        IntegrationKind.JIRA: WebhookSource(Jira(), apply_tracker_event),
        IntegrationKind.PAGERDUTY: WebhookSource(PagerDuty(), apply_tracker_event),
        IntegrationKind.GENERIC: WebhookSource(Generic(), apply_tracker_event),
    }
)
