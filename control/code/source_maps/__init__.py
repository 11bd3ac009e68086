"""Source maps of minified JavaScript. They are uploaded, listed and deleted here, and used by all services
(`chassis.source_maps`).

An upload (`api.SourceMapHandlers.upload_source_map`) is received within a byte limit and parsed in a separate process
(`parser_process`). It is stored in one transaction, which also deletes the map that it replaces and the maps that have
to make room (`store.store`).
"""
