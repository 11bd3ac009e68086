"""Second factors: TOTP codes (RFC 6238), and recovery codes for a lost device."""

import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from control.identity import user_repository
from control.identity.user_repository import User
from control.secrets.secret_box import SecretBox
from proto.identity import hash_secret
from proto.totp import (
    RECOVERY_BYTES,
    RECOVERY_CODES,
    SECRET_BYTES,
    matching_step,
    normalize_recovery_code,
    recovery_code,
)

OTP: Final = "otp"  # RFC 8176
RECOVERY: Final = "rc"  # not in RFC 8176


@dataclass(frozen=True, slots=True)
class MfaSecrets:
    """Secrets are stored encrypted, bound to their user."""

    secret_box: SecretBox

    def new_secret(self) -> bytes:
        """A random TOTP secret for an authenticator app."""
        return secrets.token_bytes(SECRET_BYTES)

    def encrypt_secret(self, user_id: str, secret: bytes) -> bytes:
        """The secret as it is stored."""
        return self.secret_box.encrypt(secret, table="users", row=user_id, org="", column="totp_secret")

    async def consume_code(self, connection: AsyncConnection, user: User, code: str, now: datetime) -> str | None:
        """Consume a code of the user. The method that it proves, OTP or RECOVERY; None when the code is not valid."""
        recovery = normalize_recovery_code(code)
        if recovery is not None:
            consumed = await user_repository.consume_recovery_code(connection, user.id, hash_secret(recovery), now)
            return RECOVERY if consumed else None
        step = self.matching_step(user, code, now)
        if step is None or not await user_repository.consume_totp_step(connection, user.id, step):
            return None
        return OTP

    def matching_step(self, user: User, code: str, now: datetime) -> int | None:
        """The TOTP step of the code; None when it is not a current code, or not later than the last accepted one."""
        if user.totp_secret is None:
            return None
        secret = self.secret_box.decrypt(user.totp_secret, table="users", row=user.id, org="", column="totp_secret")
        return matching_step(secret, code, now.timestamp(), user.totp_step)

    async def new_recovery_codes(self, connection: AsyncConnection, user_id: str) -> list[str]:
        """New recovery codes, shown only once; they replace the earlier ones."""
        codes = [recovery_code(secrets.token_bytes(RECOVERY_BYTES)) for _ in range(RECOVERY_CODES)]
        await user_repository.replace_recovery_codes(connection, user_id, map(hash_secret, codes))
        return codes
