"""Trackers and other systems that send to `/webhooks/integrations/{integrationId}`: what they report, and what it does.

generic, platforms    how JSON of anybody, Jira, Linear and PagerDuty are signed, and what they say
effects               what they report, and what that does: links, issues, change events
"""
