"""Links of issues to what other systems have about them: tickets, pull requests, incidents, pages.

`links.IssueLinks` handles the API. The system and the id in it are taken from the address where it is a known one
(`addresses`), so that another system can find the issue by its own id (`repository.find_by_external_id`). Every change
is an activity of the issue.
"""
