"""What many spans together say. Each module is one endpoint: what it is asked, its plan, its reads, its answer.

attributes   which keys spans carry, and which of them hold numbers
    carried      the same of lists of attributes that many spans share
aggregate    figures of groups of spans, over time
    buckets      the steps of time of a series
    figures      what a figure is as JSON, and what it is where there are no spans
compare      what is different about the spans of a spike
    pairs        which values its spans have, and how often both sides have them
    dictionaries the same of own fields, resources and scopes, whose columns are dictionaries
    catalogue    where the keys of attributes are found
    scores       what follows from the counts
ceiling      the newest part of a window that has no more spans than may be looked at
"""
