"""Backups of the embedded mode: `sluice backup` and `sluice restore`.

    `sluice backup`             asks the process that runs, or takes the snapshot itself when none does
      BackupServer              in `sluice up`: a Unix socket in the data directory, one snapshot at a time
        SnapshotTaker.taken     holds inserts for a moment, and links or copies everything as it is then
      copy_snapshot             copies the links into a new directory of the target, with a manifest; files that the
                                last backup there has are hard links to it
    `sluice restore`
      read_manifest             refuses what is not a complete backup
      restore                   copies and verifies every file beside the target, then renames

The command copies, and not the process that serves: it needs no thread, no memory and no permission of the service, and
can be killed at any time. While it is connected the service keeps the links, and removes them when the connection ends.

What a backup has: everything that was acknowledged before its moment, each item once, and nothing that was received
after it (in the mode `memory`: what was stored). It is what a crash at that moment would have left; the first start
completes it as after a crash (`gateway.ingest.recovery`).
"""
