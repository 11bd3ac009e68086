"""Platforms of source control: how they sign, what their events say, and what these do.

    events                  what events say, the same for all platforms, and how their fields are brought into the
                            bounds of the columns
    github, gitea, gitlab, bitbucket, bitbucket_data_center
                            one platform each; Gitea sends most of what GitHub sends
    effects                 what an event does, in one transaction with its result

Headers are not signed, except for the id and the time of GitLab's. So the body says what an event is, and a header that
names another event is refused: a body that is sent again under another name would do something else, or nothing.
"""
