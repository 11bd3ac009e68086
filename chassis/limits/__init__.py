"""Rate limits.

A request on a bearer route: before the credential is checked, `rate_limits.RateLimits.check_address` raises 429 if
authentication has failed too often from the request's address. `record_address_failure` counts a failed authentication
(401). `take` counts a request of an authenticated principal (429) and stores the result on the request, and
`limit_headers` makes three response headers of the result. On a route for project keys, a key that is in memory passes
regardless of the failures of its address, and `take` counts the requests of the key.

`limiter` has the arithmetic (GCRA). The interface is `Limiter`: `LocalLimiter` counts in the process, and
`redis.RedisLimiter` counts for all processes together. There is one bucket per limit class and holder, and a bucket is
one number. Buckets may be lost, for example by a restart. The holder may then exceed the rule by one burst.

`limiter.Allowance` limits how much of a resource each holder may use over time. `fairness` divides a capacity between
the holders that use it at the same time.
"""
