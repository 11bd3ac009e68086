"""Signatures of webhooks: nothing raises, nothing that is not signed is accepted, and what is signed is.

An input is header, time and id, a line each, and then the body.
"""

import base64
import hmac
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from control.inbound.webhooks import signatures

NOW: Final = 1_790_000_000
_SECRET: Final = bytes(range(32))
_SIGNER: Final = Ed25519PrivateKey.from_private_bytes(_SECRET)
# Whose secret nobody signs with: a fuzzer that watches comparisons would learn a signature, and repeat it.
_SILENT: Final = bytes(range(1, 33))
_SILENT_KEY: Final = Ed25519PrivateKey.from_private_bytes(_SILENT).public_key()


def check(data: bytes) -> None:
    *lines, body = (*data.split(b"\n", 3), b"", b"", b"")[:4]
    for encoding, errors in (("utf-8", "surrogateescape"), ("latin-1", "strict")):
        header, at, message_id = (line.decode(encoding, errors) or None for line in lines)
        check_refused(header, at, message_id, body)
    check_signed(body, lines[2].decode("latin-1") or "msg_1")


def check_refused(header: str | None, at: str | None, message_id: str | None, body: bytes) -> None:
    secrets = (_SILENT, b"")
    assert not signatures.verify_body(secrets, body, header)
    assert not signatures.verify_body(secrets, body, header, prefix="sha256=")
    assert not signatures.verify_versioned(secrets, body, header)
    for stamp in (at, str(NOW)):
        assert not signatures.verify_chat_a(secrets, body, stamp, header, NOW)
        assert not signatures.verify_standard(secrets, body, message_id, stamp, header, NOW)
        assert not signatures.verify_ed25519(_SILENT_KEY, body, stamp, header, NOW)
        assert not signatures.verify_payments(secrets, body, f"t={stamp},{header}", NOW)
    assert not signatures.verify_payments(secrets, body, header, NOW)
    assert not signatures.verify_token(secrets, header)


def check_signed(body: bytes, message_id: str) -> None:
    secrets, at, stamp = (_SECRET,), str(NOW), b"%d" % NOW

    def signed(text: bytes) -> str:
        return hmac.digest(_SECRET, text, "sha256").hex()

    assert signatures.verify_body(secrets, body, signed(body))
    assert signatures.verify_versioned(secrets, body, "v1=" + signed(body))
    assert signatures.verify_chat_a(secrets, body, at, "v0=" + signed(b"v0:" + stamp + b":" + body), NOW)
    assert signatures.verify_payments(secrets, body, f"t={at},v1={signed(stamp + b'.' + body)}", NOW)
    standard = bytes.fromhex(signed(message_id.encode("latin-1") + b"." + stamp + b"." + body))
    header = "v1," + base64.b64encode(standard).decode()
    assert signatures.verify_standard(secrets, body, message_id, at, header, NOW)
    assert not signatures.verify_standard(secrets, body + b" ", message_id, at, header, NOW)
    signature = _SIGNER.sign(stamp + body).hex()
    assert signatures.verify_ed25519(_SIGNER.public_key(), body, at, signature, NOW)
