"""Releases, and the tables of what they are made of: commits, the issues that these name, proposals.

`order` says which of two releases of a project is the later one, by version or time, and which is the latest. `store`
notes releases that telemetry names (`SeenReleases`), and settles issues that were resolved in the next release. Reports
of releases are stored by `control.code.releases`.
"""
