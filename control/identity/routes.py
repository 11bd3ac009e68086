"""Every route of identity, with one of each thing that they share, and what runs beside them."""

from pathlib import Path

from chassis.auth.jwt import JwtSigner
from chassis.http.web import CleanupContext, Route
from chassis.runtime.key_file import load_or_create_key
from control.http.context import HandlerContext
from control.identity.account import Accounts
from control.identity.invitations import Invitations
from control.identity.login import Logins
from control.identity.login_throttle import LoginThrottle
from control.identity.members import Members
from control.identity.mfa import Mfa
from control.identity.mfa_secrets import MfaSecrets
from control.identity.passwords import Passwords
from control.identity.principals import Principals
from control.identity.session_issuer import SessionIssuer
from control.identity.tokens import AccessTokens
from control.secrets.secret_box import SecretBox


def build_identity_routes(
    context: HandlerContext, secret_box: SecretBox, data_dir: Path
) -> tuple[list[Route], list[CleanupContext]]:
    """Raises KeyFileUnusable when the signing key in the data directory cannot be used."""
    attempts, passwords, factors = LoginThrottle(), Passwords(), MfaSecrets(secret_box)
    signer = JwtSigner.from_seed(load_or_create_key(data_dir / "signing.key", "signing key"))
    issuer = SessionIssuer(signer, context.database)
    logins = Logins(context, attempts, passwords, factors, issuer)
    routes = [
        *logins.routes(),
        *Mfa(context, attempts, passwords, factors, issuer).routes(),
        *Accounts(context, attempts, passwords).routes(),
        *Members(context).routes(),
        *Invitations(context, attempts, passwords, logins, issuer).routes(),
        *Principals(context).routes(),
        *AccessTokens(context).routes(),
    ]
    return routes, [issuer.running]
