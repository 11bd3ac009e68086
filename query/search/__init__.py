"""Lists of spans and log records: pages of rows, newest first (`listing`), and the objects that rows become
(`records`).
"""
