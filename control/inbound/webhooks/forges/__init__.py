"""Platforms of source control: how they sign, what their events say, and what these do.

    events                     what events say, the same for all platforms
    fields                     texts, names and times of payloads, brought into the bounds of the columns
    github, gitlab, bitbucket, gitea
                               one platform each; `pull_requests` has the payloads that GitHub and Gitea share
    apply                      what an event does, in the transaction of its delivery
    sources, handlers          `POST /webhooks/scm/{provider}`

Headers are not signed, but for the id and the time of GitLab's. So what a delivery is comes from its body, and a header
that names another event is refused: else a body sent again under another name would do something else, or nothing.
"""
