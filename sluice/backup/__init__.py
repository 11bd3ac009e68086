"""Backups of the embedded mode: `sluice backup` and `sluice restore`.

    `sluice backup`             asks the running process for a snapshot, or takes it itself if no process runs
      BackupServer              in `sluice up`: a Unix socket in the data directory, one snapshot at a time
        SnapshotTaker.taken     holds inserts for a moment, and links or copies all files as they are at this moment
      copy_snapshot             copies the links into a new directory of the target, with a manifest; files that
                                are in the last backup too become hard links to it
    `sluice restore`
      read_manifest             refuses a directory that is not a complete backup
      restore                   copies and verifies every file beside the target, then renames

The command copies the files, not the service, so copying needs no thread, memory or permission of the service, and the
command can be killed at any time. The service keeps the links while the command is connected, and removes them when the
connection ends.

A backup has every item that was acknowledged before its moment once, and no item that was received after it (in the
mode `memory`: all stored items). Its state is the same as after a crash at this moment, and the first start completes
it as after a crash (`gateway.ingest.recovery`).
"""
