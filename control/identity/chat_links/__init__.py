"""Chat users and the principals that they act as: links, and the codes that make them (`control.inbound.chat` uses them).

A link and its code end with the membership: what removes members depends on this folder, and it on nothing of theirs.
"""
