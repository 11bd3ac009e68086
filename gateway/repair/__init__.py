"""Rebuilds the derived tables of a day from its spans and logs (`sluice repair`).

A batch contains its own derived rows (docs/codec.md 5). When parts of a table were lost and spans and logs reinserted,
the derived rows of those days no longer match, and are rebuilt:

    Repair.check_engines       are all tables of the MergeTree family (no Distributed table, no view)
    Repair.repair_day          waits until the day receives no rows: rows derived meanwhile would not match either
      derive_rows              trace index and attribute keys, chunk by chunk in ClickHouse, into temporary tables;
                               chunks are bounded, and divided by project and five minutes (`split_day`)
      occurrence_rows          errors, in Python, because fingerprints cannot be computed in SQL; one chunk at a time
      REPLACE PARTITION        atomically, so that a reader sees either the old rows or the new rows
      error occurrences        missing rows are inserted, and surplus rows removed. All others keep their place in
                               storage order, so that followers read no row twice

Not rebuilt: `ingest_outcomes`, because rejected and refused items are stored nowhere else. If a request had more
exceptions than `max_exceptions`, the table has only the first ones until a repair, and all of them after it.
"""
