"""The cost of the page in a browser: bytes, first paint, a trace of 10 000 spans, requests of each view."""
