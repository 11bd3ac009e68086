"""Trackers and other systems that send to `/webhooks/integrations/{integrationId}`: what they report, and what it does.

linear, jira, pagerduty, generic    how each signs its webhooks, and what they say, as `events`
apply                               what an event does: links, issues, change events
sources                             the platforms with their effects
webhooks                            the route
"""
