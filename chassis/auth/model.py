"""What the guards find out about a caller; small frozen values that handlers read."""

from dataclasses import dataclass
from datetime import datetime

from proto.identity import PrincipalKind, Role, Scope


@dataclass(frozen=True, slots=True)
class Principal:
    """Someone or something that holds credentials. `owner_id` is set for agents and services."""

    id: str
    kind: PrincipalKind
    name: str
    owner_id: str | None = None


@dataclass(frozen=True, slots=True)
class AuthenticatedCredential:
    """What the store says about a valid token or session. `role` is None when its holder, one for whom it acts, or an
    owner of these is not a member any more. Of a session `token_id` is the session's id, and `owes_factor` says that
    its user has yet to show the second factor. `root_id`: the user at the end of the row of its holder's owners, None
    when it has none.
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


@dataclass(frozen=True, slots=True)
class AuthorizationContext:
    """What one bearer may do in the organization its token is pinned to, as of at most five seconds ago.

    `project_id` and `project_slug` are set on routes below a project. `owner_id`: of an agent or service,
    `root_id`: the user at the end of the row of its owners. On a token that acts for somebody (RFC 8693) `on_behalf_of`
    is the principal it speaks for in the end, and `act_chain` are the ids of those who act, the current one first and
    the innermost last; both are empty on any other token.
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


@dataclass(frozen=True, slots=True)
class ProjectIdentity:
    """The project that a project key speaks for.

    `sensitive_words` are lower-case words whose attributes are scrubbed on top of the built-in list. `monthly_items` is
    the organization's quota (0: none); `rate` the requests per second of this key (None: the default, 0: no limit).
    """

    project_id: int
    project_slug: str
    org_id: str
    org_slug: str
    key_id: str
    sensitive_words: tuple[str, ...] = ()
    monthly_items: int = 0
    rate: int | None = None
