"""The operator's mail server, from a setting."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

_URL_FORMAT: Final = "must be smtp://user:password@host:port or smtps://user:password@host:port"
_DEFAULT_PORTS: Final = {"smtp": 587, "smtps": 465}


@dataclass(frozen=True, slots=True)
class MailServer:
    """The operator's SMTP server: `smtp://user:password@host:587`, or `smtps://` for TLS from the first byte.

    With a user name, `smtp` requires STARTTLS. Without a user name, `smtp` uses STARTTLS if the server offers it.
    """

    host: str
    port: int
    implicit_tls: bool
    user: str | None
    password: str | None
    sender: str

    @classmethod
    def parse(cls, url: str, sender: str) -> "MailServer":
        """Parse the setting. Raises ValueError without quoting the URL, which may contain a password."""
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

    def __repr__(self) -> str:  # a password must not be logged
        return f"MailServer({self.host}:{self.port})"
