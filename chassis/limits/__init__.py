"""Rate limits.

A request on a bearer route: `rate_limits.RateLimits.check_address` raises 429 if its address has failed too often,
before the credential is checked; `record_address_failure` counts a failed authentication (401); `take` counts a request
of an authenticated principal (429) and stores the result on the request, from which `limit_headers` makes three
response headers. On a route for project keys, a key that is in memory passes whatever the failures of its address;
`take` counts the requests of the key.

`limiter` has the arithmetic (GCRA); its `Limiter` is the interface, `LocalLimiter` implements it in the process,
`redis.RedisLimiter` for all processes together. There is one bucket per limit class and holder; a bucket is one number.
Buckets may be lost, as after a restart: the holder may then exceed the rule by one burst.

`limiter.Allowance` is how much each holder may use of something; `fairness` divides what holders share at a moment.
"""
