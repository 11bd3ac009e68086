"""Releases, and the tables of their contents: commits, the issues that the commits name, proposals.

`order` decides which of two releases of a project is the later one, by version or time, and which release is the
latest. `store` notes releases that telemetry names (`SeenReleases`), and settles issues that were resolved in the next
release. `control.code.releases` stores the reports of releases.
"""
