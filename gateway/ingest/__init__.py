"""What happens behind the answer, in the modes `journal` and `memory`.

    Conveyor.take        the request goes into the journal; once it is on disk it is accepted and answered
    Belt.put             its columns wait in bounded memory, by lane; what has no room is read again later
    Writer.write         a batch: boundaries on disk, then one block per table and day until ClickHouse has it
    Log.finish           the journal may forget its requests

What success promises: every accepted item is on disk, and is stored once. The process may end at any point between:

    before `begin` is on disk    the next start reads the requests anew and makes other batches of them
    after it                     `Recovery.complete` makes the same blocks with the same tokens; what is stored already
                                 is told by its token, and, where the rows of a known token are gone, by counting
    after `finish`               nothing is to be done; `Recovery.check` looks whether ClickHouse kept what it had

Journals of processes that are gone are adopted (`Adoption`). What ClickHouse refuses for good is set aside with its
reason (`sluice journal`), never dropped.
"""
