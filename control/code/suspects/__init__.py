"""Finds the commits that may have caused an issue.

`api.Suspects.show_suspects` loads the issue, the candidates, and a stack trace of the issue from ClickHouse. The
candidates are the commits of the issue's first release that the previous release does not have. If no such release with
commits is known, the candidates are the commits of the two weeks before the first occurrence. `rules.rank` compares the
files of the top frames with the files that each commit changed. `rank` is a pure function: the same frames and commits
give the same suspects.
"""
