"""Links of issues to items of other systems: tickets, pull requests, incidents, pages.

`api.IssueLinks` handles the API. If the address has a known form, the system and the item's id are taken from it
(`addresses`), so that another system can find the issue by its own id (`store.find_by_external_id`). When that system
reports a change of a ticket, `store.change_links` changes the links and the issues. Every change adds an entry to the
activity of the issue.
"""
