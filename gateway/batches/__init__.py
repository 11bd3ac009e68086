"""From decoded requests to rows: `Batcher` chooses the lane, `Lane` collects, `Writer` inserts, `Background` tries
again, `Availability` says whether it is worth trying.
"""
