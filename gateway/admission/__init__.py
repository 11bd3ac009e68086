"""Admission of exports. Each check precedes the work that it saves:

    RefusalCache.cached_refusal       before parsing: is the client's limit used up, as far as the cache knows
    ConcurrencyLimiter.try_acquire    before parsing: is a slot free; otherwise the request is shed
    Quota.admit                       before the body is read: is anything left of the organization's month
    MemoryBudget.reserve              before the body is read: is there memory for it
    LargeResourceBudget.admit         decoded: may the large resources and scopes be stored unabridged
    Quota.reserve                     decoded: do the accepted items fit into the month

`FairShare` divides slots and memory between clients and projects (`chassis.limits.fairness`).
"""
