"""Results of the guards: small frozen values that handlers read."""

from dataclasses import dataclass
from datetime import datetime

from proto.identity import PrincipalKind, Role, Scope


@dataclass(frozen=True, slots=True)
class Principal:
    """A user, agent or service that holds credentials. `owner_id` is set for agents and services."""

    id: str
    kind: PrincipalKind
    name: str
    owner_id: str | None = None


@dataclass(frozen=True, slots=True)
class AuthenticatedCredential:
    """A valid token or session, as stored in the database. `role` is None when the holder, a principal that the holder
    acts for, or an owner of these principals is no longer a member. For a session `token_id` is the session's id, and
    `mfa_pending` means that the user has not passed the second factor yet. `is_federated` means that the user logged in
    through an identity provider of the organization, so the session is not valid in other organizations.
    `owning_user_id` is the user at the end of the holder's chain of owners, or None when the holder has no owner.
    """

    token_id: str
    principal_id: str
    org_id: str
    org_slug: str
    role: Role | None
    scopes: frozenset[Scope]
    expires_at: datetime | None = None
    kind: PrincipalKind = PrincipalKind.USER
    owner_id: str | None = None
    on_behalf_of: str | None = None
    act_chain: tuple[str, ...] = ()
    owning_user_id: str | None = None
    is_session: bool = False
    mfa_pending: bool = False
    is_federated: bool = False


@dataclass(frozen=True, slots=True)
class AuthorizationContext:
    """The permissions of a bearer in the organization that its token is pinned to, at most five seconds old.

    `project_id` and `project_slug` are set on routes below a project. For an agent or service, `owner_id` is set and
    `owning_user_id` is the user at the end of its chain of owners. For a token that acts for another principal (RFC
    8693), `on_behalf_of` is the principal at the end of the chain, on whose behalf all others act, and `act_chain`
    contains the ids of the acting principals, the current one first and the innermost last. Both are empty for any
    other token.
    """

    principal_id: str
    token_id: str
    org_id: str
    org_slug: str
    role: Role
    scopes: frozenset[Scope]
    project_id: int | None = None
    project_slug: str | None = None
    kind: PrincipalKind = PrincipalKind.USER
    owner_id: str | None = None
    on_behalf_of: str | None = None
    act_chain: tuple[str, ...] = ()
    owning_user_id: str | None = None

    @property
    def path_project_id(self) -> int:
        """The project in the path. Raises LookupError on a route that is not below a project."""
        if self.project_id is None:
            raise LookupError("the path has no project")
        return self.project_id


@dataclass(frozen=True, slots=True)
class ProjectIdentity:
    """The project that a project key belongs to.

    Attributes whose key contains one of `sensitive_words` (lower case) are scrubbed, in addition to the attributes of
    the built-in list. An attribute whose whole key is one of `exempt_keys` is not scrubbed because of its key.
    `monthly_items` is the organization's quota (0: none), and `rate` is the number of requests per second that this key
    may send (None: the default, 0: no limit).
    """

    project_id: int
    project_slug: str
    org_id: str
    org_slug: str
    key_id: str
    sensitive_words: tuple[str, ...] = ()
    monthly_items: int = 0
    rate: int | None = None
    exempt_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DirectoryIdentity:
    """The organization of the directory that sent the request, and the directory's token."""

    token_id: str
    org_id: str
    org_slug: str
