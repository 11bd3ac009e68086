"""Derived tables made anew from the spans and logs of a day: what `sluice repair` does.

A batch brings its own derived rows (docs/codec.md 5). When parts of a table were lost and spans and logs refilled, the
derived rows of those days no longer fit them, and this makes them again:

    Repair.look         whether all tables keep their rows themselves (no Distributed table, no view)
    read.quiet          whether the day still receives rows: what is made while they come would not fit them either
    pieces.of_day       the day in parts of a bounded size, by project and five minutes
    statements          trace index and attribute keys, piece by piece in ClickHouse, into tables of the same shape
    occurrences         errors, in Python, which alone knows their fingerprint: a piece in memory at a time
    REPLACE PARTITION   at once, so that a reader sees the old rows or the new ones and never a gap

What cannot be made again: `ingest_outcomes`, for rejected and refused items are nowhere else; and where a request had
more exceptions than `max_exceptions`, its table had those up to the limit, and now has all.
"""
