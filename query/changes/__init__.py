"""Change events beside latency: `handlers.ChangeHandlers.changes` lists those of a project and of its whole
organization in a time range, which control has recorded in the relational database (`chassis.changes`).
"""
