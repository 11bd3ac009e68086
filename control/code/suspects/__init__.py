"""Which commits may have caused an issue.

`api.Suspects.show_suspects` loads the issue, its candidates and its stack trace, which is in ClickHouse. Candidates are
the commits of the first release in which the issue occurred that the release before it does not have; without a release
with commits, those of the two weeks before the first occurrence. `rules.rank` compares the files of the top frames with
those that each commit changed. It is pure: the same frames and commits give the same suspects.
"""
