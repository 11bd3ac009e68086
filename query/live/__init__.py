"""What arrives, polled every few seconds: spans that ended, log records that were written.

    handlers   the endpoints
    tail       `plan` and `fetch`: the rows that ended lately and were not in the answers before
    position   what the client hands back: which rows it has, as far as they might be read again

No time of arrival is stored. So an answer has the rows that ended in the last minute, less those that the client has:
`next` names them by batch and row. It remembers as many as fit into it; of longer ago than the newest that it forgot,
nothing is shown any more. So no row comes twice, and in a busy project a late row is missed sooner.
"""
