"""The journal's file format: pure functions between bytes and values. `docs/journal.md` is normative."""
