"""Trackers and other systems that send to `/webhooks/integrations/{integrationId}`, and the effects of their reports.

generic, platforms    how generic JSON, Jira, Linear and PagerDuty are signed, and the contents of their events
effects               reports, and their effects on links, issues and change events
"""
