"""The operator's mail server, out of a setting."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

_URL_FORMAT: Final = "must be smtp://user:password@host:port or smtps://user:password@host:port"
_DEFAULT_PORTS: Final = {"smtp": 587, "smtps": 465}


@dataclass(frozen=True, slots=True)
class MailServer:
    """The operator's: `smtp://user:password@host:587`, or `smtps://` for TLS from the first byte.

    Over `smtp` with a user name STARTTLS must be there, without one it is used where it is.
    """

    host: str
    port: int
    implicit_tls: bool
    user: str | None
    password: str | None
    sender: str

    @classmethod
    def parse(cls, url: str, sender: str) -> "MailServer":
        """ValueError, without quoting the URL: it may hold a password."""
        try:
            parts = urlsplit(url)
            port = parts.port or _DEFAULT_PORTS[parts.scheme]
        except (KeyError, ValueError):
            raise ValueError(_URL_FORMAT) from None
        if not parts.hostname or parts.path not in ("", "/") or parts.query or parts.fragment:
            raise ValueError(_URL_FORMAT)
        user = None if parts.username is None else unquote(parts.username)
        password = None if parts.password is None else unquote(parts.password)
        return cls(parts.hostname, port, parts.scheme == "smtps", user, password, sender)

    def __repr__(self) -> str:  # it may hold a password
        return f"MailServer({self.host}:{self.port})"
