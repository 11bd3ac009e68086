"""Source maps as services use them: control stores them, the gateway resolves frames for fingerprints, explore and
control resolve them for display.

`store` is their place in the relational database. `resolver.SourceMaps` keeps in memory which projects have maps, and
the maps that were used last, and bounds what each project takes of memory and threads.
"""
