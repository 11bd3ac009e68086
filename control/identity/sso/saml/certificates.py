"""Certificates of identity providers, as an administrator configures them.

A certificate is pinned by its key. Sluice trusts the key because an administrator of the organization has set it, not
because an authority has signed it. So dates, key usage and issuer are not checked (SAML V2.0 Metadata Interoperability
Profile, section 2.6.1). An expired certificate only causes a warning to the administrator.
"""

import binascii
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding

MAX_CERTIFICATES: Final = 4  # per connection: the primary certificate and three alternates, for rotations
MAX_CERTIFICATE_LENGTH: Final = 16 * 1024  # characters
MIN_RSA_BITS: Final = 2_048  # NIST SP 800-131A
MAX_RSA_BITS: Final = 8_192  # a signature by a longer key takes milliseconds to verify
_MAX_RSA_EXPONENT_BITS: Final = 32  # a larger exponent is slow, too; 65537 has 17 bits
_CURVES: Final = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
_WEAK_HASHES: Final = ("md5", "sha1", "sha224")

_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]*)-----END CERTIFICATE-----")
_NOT_A_CERTIFICATE: Final = "Must be an X.509 certificate in PEM, or the base64 of its DER as in SAML metadata."
_OTHER_KEY: Final = "Must have an RSA key, or an ECDSA key on P-256, P-384 or P-521."

IdpKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey


@dataclass(frozen=True, slots=True)
class IdpCertificate:
    """A certificate that responses may be signed with. `pem` is normalized: `parse_certificate(pem)` gives the same.

    `not_after`: UTC; past dates are accepted. `fingerprint`: SHA-256 of the DER, 64 hexadecimal digits.
    """

    pem: str
    fingerprint: str
    not_after: datetime
    public_key: IdpKey = field(repr=False, compare=False)


def parse_certificate(text: str) -> IdpCertificate:
    """A certificate in PEM, or the bare base64 of its DER as in metadata (`ds:X509Certificate`), of at most
    MAX_CERTIFICATE_LENGTH characters. Raises ValueError with a sentence for the administrator.
    """
    if len(text) > MAX_CERTIFICATE_LENGTH:
        raise ValueError(f"Must have at most {MAX_CERTIFICATE_LENGTH} characters.")
    certificate = _load(text)
    _require_strong_signature(certificate)
    return IdpCertificate(
        pem=certificate.public_bytes(Encoding.PEM).decode("ascii"),
        fingerprint=certificate.fingerprint(hashes.SHA256()).hex(),
        not_after=certificate.not_valid_after_utc,
        public_key=_strong_key(certificate),
    )


def _load(text: str) -> x509.Certificate:
    """Load one certificate. Raises ValueError."""
    if "PRIVATE KEY" in text:
        raise ValueError("Must be a certificate alone, without its private key.")
    if text.count("-----BEGIN ") > 1:
        raise ValueError("Must be one certificate, without the chain that issued it.")
    pem = _PEM.search(text)  # text around the certificate is explanatory (RFC 7468, section 2)
    encoded = "".join((text if pem is None else pem[1]).split())
    try:
        der = binascii.a2b_base64(encoded.encode("ascii"), strict_mode=True)
        return x509.load_der_x509_certificate(der)
    except (ValueError, x509.InvalidVersion) as error:  # binascii.Error and UnicodeError are ValueErrors
        raise ValueError(_NOT_A_CERTIFICATE) from error


def _require_strong_signature(certificate: x509.Certificate) -> None:
    """Raises ValueError for a certificate with a weak signature."""
    try:
        algorithm = certificate.signature_hash_algorithm
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError("Must be signed with SHA-256 or a longer hash.") from error
    if algorithm is not None and algorithm.name in _WEAK_HASHES:
        raise ValueError(f"Must be signed with SHA-256 or a longer hash, not with {algorithm.name.upper()}.")


def _strong_key(certificate: x509.Certificate) -> IdpKey:
    """The key of the certificate. Raises ValueError for a weak or unsupported key."""
    try:
        key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError(_OTHER_KEY) from error
    if isinstance(key, rsa.RSAPublicKey):
        if not MIN_RSA_BITS <= key.key_size <= MAX_RSA_BITS:
            raise ValueError(f"Must have an RSA key of {MIN_RSA_BITS} to {MAX_RSA_BITS} bits, not of {key.key_size}.")
        if key.public_numbers().e.bit_length() > _MAX_RSA_EXPONENT_BITS:
            raise ValueError(f"Must have an RSA exponent of at most {_MAX_RSA_EXPONENT_BITS} bits.")
        return key
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, _CURVES):
        return key
    raise ValueError(_OTHER_KEY)
