"""Links of issues to what other systems have about them: tickets, pull requests, incidents, pages.

`api.IssueLinks` handles the API. The system and the id in it are taken from the address where it is a known one
(`addresses`), so that another system can find the issue by its own id (`store.find_by_external_id`). What that system
says of a ticket reaches the links, and the issues, by `store.change_links`. Every change is an activity of the issue.
"""
