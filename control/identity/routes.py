"""Every route of identity, with one of each thing that they share, and what runs beside them."""

from pathlib import Path

from chassis.identity.signing import Signer
from chassis.keyfile import load_or_create_key
from chassis.sealing import Sealer
from chassis.web import Resource, Route
from control.desk import Desk
from control.identity.account import Accounts
from control.identity.attempts import Attempts
from control.identity.factors import Factors
from control.identity.invitations import Invitations
from control.identity.issuing import Issuer
from control.identity.login import Logins
from control.identity.members import Members
from control.identity.passwords import Passwords
from control.identity.principals import Principals
from control.identity.second_factor import SecondFactors
from control.identity.tokens import Tokens


def assemble(desk: Desk, sealer: Sealer, data_dir: Path) -> tuple[list[Route], list[Resource]]:
    """Raises KeyFileUnusable when the signing key in the data directory cannot be used."""
    attempts, passwords, factors = Attempts(), Passwords(), Factors(sealer)
    signer = Signer.of(load_or_create_key(data_dir / "signing.key", "signing key"))
    issuer = Issuer(signer, desk.database)
    logins = Logins(desk, attempts, passwords, factors, issuer)
    routes = [
        *logins.routes(),
        *SecondFactors(desk, attempts, passwords, factors, issuer).routes(),
        *Accounts(desk, attempts, passwords).routes(),
        *Members(desk).routes(),
        *Invitations(desk, attempts, passwords, logins, issuer).routes(),
        *Principals(desk).routes(),
        *Tokens(desk).routes(),
    ]
    return routes, [issuer.running]
