"""Platforms of source control: how they sign, the contents of their events, and the effects of these.

    events                  the contents of events, the same for all platforms, and how fields are fitted to the
                            limits of the columns
    github, gitea, gitlab, bitbucket, bitbucket_data_center
                            one platform each; Gitea sends most events as GitHub does
    effects                 applies an event, in one transaction with its result

Headers are not signed, except for the id and the time that GitLab sends. The body therefore decides what an event is,
and a request whose header names another event is refused. Otherwise a repeated body with a changed header could have
another effect, or none.
"""
