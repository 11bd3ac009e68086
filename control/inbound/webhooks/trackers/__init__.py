"""Trackers and other systems that send to `/webhooks/integrations/{integrationId}`: what they report, and what it does.

generic, platforms    how JSON of anybody, Jira, Linear and PagerDuty are signed, and what they say, as `events`
effects               what an event does: links, issues, change events
"""
