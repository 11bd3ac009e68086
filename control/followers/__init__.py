"""Followers: background work that reads a table of ClickHouse in storage order, each row once.

`progress` keeps how far a follower has read. It changes in the transaction that stores what the follower has made of a
page, and only by the process that holds the follower's lease: so a page counts once, whatever crashes and however many
processes run.
"""
