"""From decoded requests to rows: `Batcher` collects, `Writer` inserts, `Background` tries again, `Availability` says
whether it is worth trying.
"""
