"""Executes erasures: deletes the data that a tombstone covers from ClickHouse and the journals, again and again until
none is left.

    ErasureWorker, every POLL_INTERVAL_S
      DeletedProjects.refresh     which projects are deleted; the check for lost rows leaves out their requests
      JournalErasure              deletes from quarantine and damaged bytes; acknowledges an erasure for each journal
                                 directory whose segments are all younger
      TelemetryErasure            counts and deletes rows, one erasure at a time, under a lease of the database

An erasure converges: rows that a replay or another gateway stores meanwhile are deleted by the next round. It ends when
every journal has acknowledged, no row is left, and ClickHouse has removed the files of the parts that held them.

Source: docs/adr/022-erasure.md.
"""
