"""The platforms that send to `/webhooks/integrations/{integrationId}`, by the kind of their integrations."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from control.integrations.model import IntegrationKind
from control.webhooks.endpoint import Source
from control.webhooks.trackers.apply import apply_tracker_event
from control.webhooks.trackers.generic import Generic
from control.webhooks.trackers.jira import Jira
from control.webhooks.trackers.linear import Linear
from control.webhooks.trackers.pagerduty import PagerDuty

TRACKER_SOURCES: Final[Mapping[IntegrationKind, Source]] = MappingProxyType(
    {
        IntegrationKind.LINEAR: Source(Linear(), apply_tracker_event),
        IntegrationKind.JIRA: Source(Jira(), apply_tracker_event),
        IntegrationKind.PAGERDUTY: Source(PagerDuty(), apply_tracker_event),
        IntegrationKind.GENERIC: Source(Generic(), apply_tracker_event),
    }
)
