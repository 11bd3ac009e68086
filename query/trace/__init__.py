"""One trace: its reads (`read`), and the layout of its spans as a tree (`waterfall`)."""
