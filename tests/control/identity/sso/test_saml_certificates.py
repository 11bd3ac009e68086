"""Certificates as administrators paste them."""

import base64
import textwrap
from collections.abc import Callable
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from control.identity.sso.saml.certificates import MAX_CERTIFICATE_LENGTH, parse_certificate
from tests.control.identity.sso.saml_idp import NOW, certificate_pem, ec_key, rsa_key

BEGIN, END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


def bare() -> str:
    """Base64 in one line."""
    return "".join(certificate_pem(rsa_key()).replace(BEGIN, "").replace(END, "").split())


FORMS: dict[str, Callable[[], str]] = {
    "PEM": lambda: certificate_pem(rsa_key()),
    "PEM with the line ends of Windows": lambda: certificate_pem(rsa_key()).replace("\n", "\r\n"),
    "PEM with spaces around": lambda: f"\n  {certificate_pem(rsa_key())}  \n",
    "PEM in one line": lambda: f"{BEGIN}{bare()}{END}",
    "PEM with explanations": lambda: f"subject=CN = idp.example.com\n{certificate_pem(rsa_key())}",
    "base64 as in metadata": bare,
    "base64 in indented lines": lambda: textwrap.indent("\n".join(textwrap.wrap(bare(), 64)), "    "),
}


def test_a_certificate_is_read_in_every_usual_form() -> None:
    for name, form in FORMS.items():
        found = parse_certificate(form())
        assert (found.pem, found.not_after) == (certificate_pem(rsa_key()), NOW + timedelta(days=365)), name
        assert found.public_key.public_numbers() == rsa_key().public_key().public_numbers()
        assert len(bytes.fromhex(found.fingerprint)) == 32
        assert parse_certificate(found.pem) == found


def test_keys_may_be_on_the_curves_of_nist() -> None:
    for curve in (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1):
        key = ec_key(0, curve)
        found = parse_certificate(certificate_pem(key)).public_key
        assert found.public_numbers() == key.public_key().public_numbers()


def test_an_expired_certificate_is_one() -> None:
    expired = NOW - timedelta(days=1)
    assert parse_certificate(certificate_pem(rsa_key(), not_after=expired)).not_after == expired


def private_key() -> str:
    return rsa_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def with_public_key(key: object) -> str:
    return certificate_pem.__wrapped__(rsa_key(), public_key=key)


def signed_with(identifier: str) -> str:
    """A certificate whose signature names another algorithm of PKCS #1: the last byte of its object identifier."""
    der = base64.b64decode(bare())
    sha256, other = bytes.fromhex("2a864886f70d01010b"), bytes.fromhex(f"2a864886f70d0101{identifier}")
    return base64.b64encode(der.replace(sha256, other)).decode()


NOT_A_CERTIFICATE = "Must be an X.509 certificate in PEM, or the base64 of its DER as in SAML metadata."
SHORT_HASH = "Must be signed with SHA-256 or a longer hash, not with {}."
OTHER_KEY = "Must have an RSA key, or an ECDSA key on P-256, P-384 or P-521."
PRIVATE_KEY = "Must be a certificate alone, without its private key."
REFUSED: dict[str, tuple[Callable[[], str], ...]] = {
    NOT_A_CERTIFICATE: (
        *(lambda: "", lambda: "our certificate", lambda: "\u212aAAA", lambda: "\udc80"),
        lambda: base64.b64encode(b"hello").decode(),
        lambda: bare()[:-40],
        lambda: base64.b64encode(base64.b64decode(bare()) + b"x").decode(),
        lambda: certificate_pem(rsa_key()).replace(END, ""),
        lambda: certificate_pem(rsa_key()).replace("CERTIFICATE", "PUBLIC KEY"),
    ),
    "Must be one certificate, without the chain that issued it.": (
        lambda: certificate_pem(rsa_key()) + certificate_pem(ec_key()),
    ),
    PRIVATE_KEY: (private_key, lambda: certificate_pem(rsa_key()) + private_key()),
    "Must have at most 16384 characters.": (lambda: "A" * (MAX_CERTIFICATE_LENGTH + 1),),
    "Must have an RSA key of 2048 to 8192 bits, not of 1024.": (lambda: certificate_pem(rsa_key(0, 1_024)),),
    "Must have an RSA key of 2048 to 8192 bits, not of 8193.": (
        lambda: with_public_key(rsa.RSAPublicNumbers(65_537, 2**8_192 + 1).public_key()),
    ),
    "Must have an RSA exponent of at most 32 bits.": (
        lambda: with_public_key(rsa.RSAPublicNumbers(2**32 + 1, 2**2_047 + 1).public_key()),
    ),
    OTHER_KEY: (
        lambda: with_public_key(ed25519.Ed25519PrivateKey.generate().public_key()),
        lambda: certificate_pem(ec_key(0, ec.SECP224R1)),
        lambda: certificate_pem(ec_key(0, ec.SECP256K1)),
    ),
    SHORT_HASH.format("SHA1"): (lambda: signed_with("05"),),
    SHORT_HASH.format("MD5"): (lambda: signed_with("04"),),
    SHORT_HASH.format("SHA224"): (lambda: signed_with("0e"),),
}


def test_what_cannot_be_pinned_is_refused() -> None:
    for sentence, texts in REFUSED.items():
        for text in texts:
            with pytest.raises(ValueError) as refused:
                parse_certificate(text())
            assert str(refused.value) == sentence, text()[:80]
