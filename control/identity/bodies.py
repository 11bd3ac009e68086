"""Shared parts of request bodies: types of texts with their bounds, patterns of ids. Also has the tag of `/auth`."""

import re
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from chassis.http.route import Tag
from control.identity.users.passwords import MAX_LENGTH, MIN_LENGTH
from proto.identity import EMAIL_PATTERN, LOCALE_PATTERN, MAX_EMAIL_LENGTH, MAX_LOCALE_LENGTH, MAX_URL_LENGTH

AUTH: Final = Tag("auth", "User sessions: login, second factor, account.")

Email = Annotated[
    str,
    Meta(min_length=3, max_length=MAX_EMAIL_LENGTH, pattern=EMAIL_PATTERN, description="Must be an e-mail address."),
]
Locale = Annotated[
    str,
    Meta(
        min_length=2,
        max_length=MAX_LOCALE_LENGTH,
        pattern=LOCALE_PATTERN,
        description="Must be a language tag, such as en or pt-BR.",
    ),
]
AvatarUrl = Annotated[
    str,
    Meta(
        max_length=MAX_URL_LENGTH,
        pattern=r"^https://[!-~]+(?!\n)$",
        description="Must be an https:// URL without spaces.",
    ),
]
ThemeName = Literal["system", "light", "dark"]
NewPassword = Annotated[str, Meta(min_length=MIN_LENGTH, max_length=MAX_LENGTH)]
PasswordInput = Annotated[
    str, Meta(min_length=1, max_length=MAX_LENGTH)
]  # any length, because the password may be older than the present minimum
MfaCodeInput = Annotated[
    str, Meta(min_length=6, max_length=17, description="A six-digit code of an authenticator app, or a recovery code.")
]
SecretInput = Annotated[str, Meta(min_length=1, max_length=128)]
InCookie = Annotated[
    bool,
    Meta(
        description="Whether the refresh token is in the cookie `__Secure-sluice` instead of the body. Browsers send "
        "the cookie only to `/auth` of this origin. If true, the request must have `Sec-Fetch-Site: same-origin`."
    ),
]

PRINCIPAL_ID: Final = re.compile(r"prn_[0-9a-z]{26}")
PrincipalId = Annotated[str, Meta(pattern=r"^prn_[0-9a-z]{26}(?!\n)$", description="Must be the id of a principal.")]


class SessionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """The body of a request whose response is a session."""

    cookie: InCookie = False
