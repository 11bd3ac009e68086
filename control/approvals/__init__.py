"""Human approval before an action: approval requests, votes on them, and their result.

The path of a request, from `POST .../approval-requests` to its decision:

    `POST .../approval-requests`       the scope, the rate of approvals, the body            -> 401, 403, 429, 400
    requests.submit                    the policies decide (`policies.rules.decide`); ALLOW and DENY end here -> 200
    store.find_open                    for ASK: the same request is already open             -> 200
    requests.check_open_limit          limits of open requests                               -> 429
    store.create                       an open request with a copy of the rule               -> 201
    notifications.notify_requested     a message per channel, in the same transaction
    `POST .../approve`                 a vote: `voting.cast_vote`, which calls `approve` or `reject`
    voting.load_cases                  the request, and the current rights of the voters and the requester
    voting.check_approval              the rules of a vote                                   -> 403, 409
    store.decide                       the vote that makes the count sufficient decides      -> 200

A 201 promises that the request is stored and that its messages are sent until the request ends. Exactly one vote
decides a request, because write transactions are serialized (`chassis.db.database`) and the update applies only to an
open request. Votes count separately only if their owner groups are disjoint (`model.count_votes`). A request without a
decision becomes EXPIRED when its time is over (`RequestRecord.status_at`). `notifications.ExpiryTask` records the
expiry and tells the channels.

`policies` has the rules of an organization, `proofs` the signed records about code changes. `views` shows requests
together with the answer that a vote of the caller would get.
"""
