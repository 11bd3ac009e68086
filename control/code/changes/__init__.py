"""Change events of an organization: recorded through the API, by reports of releases, and by other systems.

`api.Changes.create_change` reads a body and records it in one transaction (`repository.create_change`), unless an event
with its deduplication key is there: then it answers with that one. Events older than 400 days are deleted when further
ones are recorded, and so are the oldest ones of an organization that has the maximum number. Explore shows the events
of a time range (`chassis.changes.repository`).
"""
