"""Rebuilds the derived tables of a day from its spans and logs (`sluice repair`).

A batch contains its own derived rows (docs/codec.md 5). When parts of a table were lost and spans and logs reinserted,
the derived rows of those days no longer match, and are rebuilt:

    Repair.check_engines       are all tables of the MergeTree family (no Distributed table, no view)
    Repair.repair_day          waits until the day receives no rows: rows derived meanwhile would not match either
      derive_rows              trace index and attribute keys, chunk by chunk in ClickHouse, into temporary tables;
                               chunks have a bounded size, by project and five minutes (`split_day`)
      occurrence_rows          errors, in Python, which alone computes fingerprints: one chunk in memory at a time
      REPLACE PARTITION        atomically, so that a reader sees the old rows or the new ones and never a gap
      error occurrences        only missing ones are inserted, and surplus ones removed: the others keep their place in
                               storage order, so that followers read nothing twice

Not rebuilt: `ingest_outcomes`, because rejected and refused items are stored nowhere else. Where a request had more
exceptions than `max_exceptions`, its table had those up to the limit, and has all of them after a repair.
"""
