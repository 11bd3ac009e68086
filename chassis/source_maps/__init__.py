"""Source maps: control stores them, the gateway resolves frames for fingerprints, and explore and control resolve
frames for display.

`store` has the table of source maps in the relational database. `resolver.SourceMaps` keeps in memory which projects
have maps, and the maps that were used last. It limits the memory and the thread time that each project may use.
"""
