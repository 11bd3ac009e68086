"""Source maps (ECMA-426): frames of minified JavaScript as frames of the files that it was built from.

`parsing.read_source_map` makes a `StoredMap` of an uploaded map: what a look-up needs, checked.
`compact_map.CompactMap.find` looks a position up, `frame_rewriting.resolve_stack_trace` rewrites the frames of a text.
`parsing.find_declarations` finds the functions that a minified file declares, whose original names a map knows.

Positions are as in maps: lines and columns count from 0, columns in UTF-16 code units. Stack traces count from 1.
"""
