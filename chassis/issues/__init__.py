"""Issues as services share them: control keeps them, and explore shows which issue an error belongs to.

`tables` defines the rows, `states` reads the issues of fingerprints.
"""
