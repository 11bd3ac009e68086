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
    """A valid token or session as the database has it. `role` is None when the holder, a principal it acts for, or an
    owner of these is no longer a member. For a session `token_id` is the session's id, and `mfa_pending` says that its
    user has yet to pass the second factor. `is_federated`: an identity provider of the organization has vouched for the
    session, so it says nothing elsewhere. `owning_user_id`: the user at the end of the holder's chain of owners, None
    when it has no owner.
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
    """What a bearer may do in the organization its token is pinned to, at most five seconds old.

    `project_id` and `project_slug` are set on routes below a project. `owner_id` is set for an agent or service,
    `owning_user_id` is the user at the end of its chain of owners. On a token that acts for another principal (RFC
    8693) `on_behalf_of` is the principal on whose behalf it acts in the end, and `act_chain` holds the ids of the
    acting principals, the current one first and the innermost last; both are empty on any other token.
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

    Attributes that contain one of `sensitive_words` (lower case) are scrubbed in addition to the built-in list; those
    whose whole key is one of `exempt_keys` are not scrubbed for their key.
    `monthly_items` is the organization's quota (0: none); `rate` the requests per second of this key (None: the
    default, 0: no limit).
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
    """The organization whose directory calls, and the token that it calls with."""

    token_id: str
    org_id: str
    org_slug: str
