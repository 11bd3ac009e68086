"""One file per revision, `NNNN_subject.py`. The file of a released revision is never edited."""
