"""Source maps of minified JavaScript: uploaded, listed and deleted here, used by all services (`chassis.source_maps`).

An upload (`source_maps.SourceMapHandlers.upload`) is received within a budget of bytes, read in a process of its own
(`reader`), and stored with what it replaces and what has to make room for it (`repository.store`), in one transaction.
"""
