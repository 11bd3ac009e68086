"""Which requests are taken: concurrency, memory, fair shares, quotas, cached refusals. Checked before the work they
save.
"""
