"""Organizations and projects, from their creation to their erasure; their subscriptions; the audit log as it is shown.

`DELETE /orgs/{orgSlug}/projects/{projectSlug}`, for example:

    Projects.delete_project   only a user who acts for itself                                       -> 403
    erasures.deletion         one transaction: the erasure, revoked keys, deleted configs, the project out of sight
    Purger.poll_once          afterwards, in batches: the remaining rows; it resumes after a crash
    chassis.erasures          a gateway erases the telemetry

From the 202 on nothing of the project can be used. That its data is gone, `GET .../erasures/{erasureId}` shows.

    tenants                   organizations, projects and project keys
    erasures                  deletion, purge, and erasures by filter
    billing                   plan and quota follow the subscription at the payment processor
    audit_events              lists and exports the events of `control.audit`
"""
