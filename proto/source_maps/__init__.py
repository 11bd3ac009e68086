"""Source maps (ECMA-426): frames of minified JavaScript as frames of the files that it was built from.

`parsing.read_source_map` checks an uploaded map and makes a `StoredMap` of the parts that a look-up needs.
`compact_map.CompactMap.find` looks up a position, and `frame_rewriting.resolve_stack_trace` rewrites the frames of a
text. `parsing.find_declarations` finds the functions that a minified file declares, whose original names a map knows.

Positions have the form of source maps: lines and columns count from 0, and columns count UTF-16 code units. Stack
traces count from 1.
"""
