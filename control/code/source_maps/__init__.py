"""Source maps of minified JavaScript: uploaded, listed and deleted here, used by all services (`chassis.source_maps`).

An upload (`api.SourceMapHandlers.upload_source_map`) is received within a budget of bytes, read in a process of its
own (`parser_process`), and stored with what it replaces and what has to make room for it (`store.store`), in one
transaction.
"""
