"""Organizations and projects, from their creation to their erasure; their subscriptions; the API of the audit log.

For example, `DELETE /orgs/{orgSlug}/projects/{projectSlug}` has these steps:

    Projects.delete_project   permits only users who act for themselves                             -> 403
    erasures.deletion         one transaction: stores the erasure, revokes keys, deletes configs, hides the project
    Purger.poll_once          afterwards, in batches: deletes the remaining rows; it resumes after a crash
    chassis.erasures          a gateway erases the telemetry

From the 202 response on, nothing of the project can be used. `GET .../erasures/{erasureId}` shows when its data is
erased.

    tenants                   organizations, projects and project keys
    erasures                  deletion, purge, and erasures by filter
    billing                   plan and quota follow the subscription at the payment processor
    audit_events              lists and exports the events of `control.audit`
"""
