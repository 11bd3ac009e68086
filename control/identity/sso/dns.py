"""TXT records of domains, through the resolver of this machine or of the settings."""

from typing import Final, Protocol

import structlog
from dns import asyncresolver, exception
from dns.rdtypes.ANY.TXT import TXT

LIFETIME_S: Final = 5.0
MAX_RECORDS: Final = 100

log = structlog.get_logger(__name__)


class TxtResolver(Protocol):
    """Looks up TXT records."""

    async def txt_records(self, domain: str) -> list[str]:
        """The texts of the domain's TXT records; none if there are none, or if the look-up fails."""


class DnsResolver:
    """Asks name servers over UDP, then TCP."""

    def __init__(self, nameservers: tuple[str, ...] = ()) -> None:
        """`nameservers`: IP addresses to ask; empty: those of this machine."""
        self._nameservers = nameservers

    async def txt_records(self, domain: str) -> list[str]:
        try:
            resolver = asyncresolver.Resolver(configure=not self._nameservers)
            if self._nameservers:
                resolver.nameservers = list(self._nameservers)
            answer = await resolver.resolve(f"{domain}.", "TXT", lifetime=LIFETIME_S, raise_on_no_answer=False)
        except (exception.DNSException, OSError) as error:
            log.info("TXT records not found", domain=domain, error=str(error))
            return []
        records = [record for record in answer if isinstance(record, TXT)]
        return [b"".join(record.strings).decode("utf-8", "replace") for record in records[:MAX_RECORDS]]
