"""The files of a journal: segments, ledger, quarantine, and the space that they take."""
