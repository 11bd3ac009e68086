"""The members of an organization: users, agents and services (`api`), their access tokens (`tokens`), and invitations.

`PATCH /orgs/{orgSlug}/members/{principalId}` takes this path. `api.member_argument` finds the member (404). If the
member is an owner and the caller is not, it refuses the request before the body is read (403).
`member_store.change_role` refuses roles that the caller may not grant (403) and a change of the last owner (409), in
the transaction that also writes the audit event. A 200 means that the role is stored, and that the guards of this
process apply it.
"""
