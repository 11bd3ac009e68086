"""Whether a provider asserts that the user has shown several factors. Pure."""

from collections.abc import Collection
from typing import Final

# RFC 8176: several factors; Microsoft's claim in SAML has the long name of the same.
_METHODS: Final = frozenset({"mfa", "http://schemas.microsoft.com/claims/multipleauthn"})
# Contexts that name several factors: the profile of REFEDS, those of SAML (authentication context 3.4), the policies of
# OpenID (PAPE, EAP ACR values: phishing-resistant authenticators verify a factor of the user as well).
_CONTEXTS: Final = frozenset(
    {
        "https://refeds.org/profile/mfa",
        "http://schemas.microsoft.com/claims/multipleauthn",
        "urn:oasis:names:tc:SAML:2.0:ac:classes:MobileTwoFactorContract",
        "urn:oasis:names:tc:SAML:2.0:ac:classes:MobileTwoFactorUnregistered",
        "http://schemas.openid.net/pape/policies/2007/06/multi-factor",
        "http://schemas.openid.net/pape/policies/2007/06/multi-factor-physical",
        "phr",
        "phrh",
    }
)


def is_mfa_asserted(methods: Collection[str], context: str | None) -> bool:
    """`methods`: the claim `amr`, or the attribute `authnmethodsreferences`; `context`: the claim `acr`, or the
    authentication context class.
    """
    return not _METHODS.isdisjoint(methods) or context in _CONTEXTS
