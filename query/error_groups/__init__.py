"""Errors: occurrences grouped by their fingerprint, and each occurrence with what was going on around it.

    shapes        what is answered
    listing       groups in order, page by page: which ones are on a page
    groups        what is known of the groups of a page
    history       one group, and how often it occurred over time
    occurrences   the occurrences of a group, and one of them whole
    context       the log records around a moment
    handlers      the endpoints

A list of groups is read in two steps: their order from two columns, then everything else for the groups of the page.
The cursor holds the rank of the last group in the frozen window. Rows that arrive late in that window make a group
more frequent and its last occurrence later, never the reverse: so no group comes twice in those orders, and only one
that overtakes the cursor is missed. The first occurrence moves the other way: there none is missed, and one that
gets an older first occurrence may come again. A group that nothing arrives for comes exactly once in each order.
"""
