"""The format of the journal's files: pure functions between bytes and values. `docs/journal.md` is normative."""
