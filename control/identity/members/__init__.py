"""Who is in an organization: users, agents and services (`api`), their access tokens (`tokens`), and invitations.

`PATCH /orgs/{orgSlug}/members/{principalId}`: `api.member_argument` finds the member and refuses owners to others than
owners, before the body is read (404, 403). `member_store.change_role` refuses roles that the caller may not grant (403)
and the last owner (409), in the transaction that also writes the audit event. A 200 means that the role is stored, and
that the guards of this process know.
"""
