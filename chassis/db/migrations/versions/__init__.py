"""One file per revision, `NNNN_subject.py`; a released one is never edited."""
