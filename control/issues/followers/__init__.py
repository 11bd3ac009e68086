"""Followers: background work that reads a table of ClickHouse in storage order, each row once.

`progress` keeps how far a follower has read. It changes in the transaction that stores what the follower has made of a
page, and only if nobody else has changed it since it was read: so a page counts once, whatever crashes and however many
processes run. A lease of some seconds keeps the others from reading the same page in vain.
"""
