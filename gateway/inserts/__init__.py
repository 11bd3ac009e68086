"""From decoded requests to rows: `Batcher` chooses the lane, `Lane` collects, `Writer` inserts, `Gatherer` inserts what
nobody waits for, `Background` tries again, `Availability` says whether it is worth trying.
"""
