"""A certificate authority of tests, and a server certificate that it signed."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

_DAY = timedelta(days=1)
_NO_USAGE = dict.fromkeys(
    ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
     "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"), False,
)  # fmt: skip


class Authority(NamedTuple):
    """PEM files: the authority's certificate; certificate and key of a server on 127.0.0.1."""

    certificate: Path
    server_certificate: Path
    server_key: Path

    def client_context(self) -> ssl.SSLContext:
        """For a client that trusts the authority and no other."""
        return ssl.create_default_context(cafile=self.certificate)

    def server_context(self) -> ssl.SSLContext:
        """For the server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server_certificate, self.server_key)
        return context


def issue(directory: Path) -> Authority:
    """A new authority with its server, in files of the directory."""
    authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = (
        _builder("Authority of tests", "Authority of tests", authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(**_NO_USAGE | {"key_cert_sign": True}), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    server = (
        _builder("127.0.0.1", "Authority of tests", server_key.public_key())
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    made = Authority(directory / "authority.pem", directory / "server.pem", directory / "server.key")
    made.certificate.write_bytes(authority.public_bytes(Encoding.PEM))
    made.server_certificate.write_bytes(server.public_bytes(Encoding.PEM))
    made.server_key.write_bytes(server_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return made


def _builder(subject: str, issuer: str, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, issuer)]))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )
