"""Errors: occurrences grouped by fingerprint, and each occurrence with the log records around it.

    handlers           the endpoints
    listing            `plan` and `fetch`: sorted groups in pages; selects the groups of a page
    groups             `read_groups`: all fields of the groups of a page
    history            one group, and how often it occurred over time
    occurrences        the occurrences of a group, and the full record of one
    surrounding_logs   the log records around a point in time
    ids                occurrence ids
    schemas            response schemas

A list of groups is read in two steps: first the order, from two columns; then all fields of the groups on the page. The
cursor holds the rank of the last group in the fixed window. Rows that arrive late in this window can only increase the
frequency of a group and the time of its last occurrence. So in these two orders no group is listed twice, and a group
is missed only if it overtakes the cursor. The time of a first occurrence can only decrease. So in this order no group
is missed, but a group that gets an older first occurrence may be listed again. A group that receives no rows is listed
exactly once in each order.
"""
