"""Builds all identity routes and the background task that they need."""

from pathlib import Path

from chassis.auth.jwt import JwtSigner
from chassis.http.web import CleanupContext, Route
from chassis.runtime.key_file import load_or_create_key
from control.http.context import HandlerContext
from control.identity.account.api import Accounts
from control.identity.account.mfa import Mfa
from control.identity.account.verification import EmailVerification
from control.identity.login.acceptance import Acceptances
from control.identity.login.api import Logins, Sessions
from control.identity.login.authentication import Authenticator, MfaSecrets
from control.identity.login.challenge import LoginChallenges, LoginLink
from control.identity.login.credentials import SessionIssuer
from control.identity.login.throttle import LoginThrottle
from control.identity.mail import AccountMailer
from control.identity.members.api import Members, Principals
from control.identity.members.invitations import Invitations
from control.identity.members.tokens import AccessTokens
from control.identity.users.passwords import Passwords
from control.secrets.secret_box import SecretBox


def load_session_issuer(context: HandlerContext, data_dir: Path) -> SessionIssuer:
    """The issuer of sessions. Raises KeyFileUnusable if the signing key in the data directory cannot be used."""
    signer = JwtSigner.from_seed(load_or_create_key(data_dir / "signing.key", "signing key"))
    return SessionIssuer(signer, context.database)


def build_identity_routes(
    context: HandlerContext, secret_box: SecretBox, issuer: SessionIssuer, mailer: AccountMailer
) -> tuple[list[Route], list[CleanupContext]]:
    """The routes, and the background tasks that they need. `mailer` reaches the mail server."""
    challenges = LoginChallenges(context.cursors)
    throttle = LoginThrottle(context.database, challenges)
    authenticator = Authenticator(context.database, throttle, Passwords(), MfaSecrets(secret_box))
    login_link = LoginLink(context, challenges, mailer)
    routes = [
        *Logins(context, issuer, authenticator).routes(),
        *login_link.routes(),
        *Sessions(context, issuer).routes(),
        *Mfa(context, issuer, authenticator).routes(),
        *Accounts(context, authenticator).routes(),
        *EmailVerification(context, authenticator, mailer).routes(),
        *Members(context).routes(),
        *Invitations(context, mailer).routes(),
        *Acceptances(context, issuer, authenticator).routes(),
        *Principals(context).routes(),
        *AccessTokens(context).routes(),
    ]
    return routes, [issuer.running, login_link.running]
