"""Errors: occurrences grouped by fingerprint, and each occurrence with the log records around it.

    handlers           the endpoints
    listing            `plan` and `fetch`: sorted groups in pages; determines which groups are on a page
    groups             `read_groups`: everything shown of the groups of a page
    history            one group, and how often it occurred over time
    occurrences        the occurrences of a group, and the full record of one
    surrounding_logs   the log records around a point in time
    ids                occurrence ids
    schemas            response schemas

A list of groups is read in two steps: their order from two columns, then everything else for the groups of the page.
The cursor holds the rank of the last group in the fixed window. Rows that arrive late in that window make a group more
frequent and its last occurrence later, never the reverse: so no group is listed twice in those orders, and only one
that overtakes the cursor is missed. The first occurrence moves the other way: there none is missed, and a group that
gets an older first occurrence may be listed again. A group that receives no rows is listed exactly once in each order.
"""
