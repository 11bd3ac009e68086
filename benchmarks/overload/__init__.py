"""The fate of three times as many requests as the gateway can take: `python -m benchmarks.overload`.

`sluice gateway` in front of an endpoint that counts rows and keeps none (`benchmarks.gateway.sink`). `offering` sends
at fixed times from processes of its own, `deployment` starts what is measured and watches its memory, `__main__` runs
the phases and prints.
"""
