"""A load that operators can point at their own deployment, and the same against a gateway that it starts.

    locust -f benchmarks/locust/locustfile.py --host https://telemetry.example.com     LOAD_KEYS=key,key
    python -m benchmarks.locust                                                        starts `sluice up`, headless

`mix` makes the requests and needs nothing but Python, `locustfile` has the users that send them, `__main__` runs it.
Locust has an environment of its own (`make load`), for it changes the sockets and threads of its process.
"""
