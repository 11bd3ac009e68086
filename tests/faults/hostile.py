"""Clients that mean no good, and how much memory a gateway takes meanwhile."""

import os
import resource
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.e2e.product import Answer, call
from tests.faults.deployment import Gateway, Site

MIB: Final = 2**20
PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
SPARE_FILES: Final = 500  # that the tests have open besides


def post(gateway: Gateway, site: Site, content: bytes, headers: Mapping[str, str], path: str = "/v1/traces") -> Answer:
    """Send it with a good key."""
    given = {"X-Legacy-Auth": f"Legacy legacy_key={site.key}", **headers}
    return call("POST", gateway.url + path, content, given)


@contextmanager
def memory_below(gateway: Gateway, most: int) -> Iterator[None]:
    """The gateway's resident memory stays below so many bytes while the block runs."""
    process = Path(f"/proc/{gateway.process.pid}")
    (process / "clear_refs").write_text("5")  # its peak is what it has now
    yield
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    peak = int(status["VmHWM"].split()[0]) * 1024
    assert peak < most, f"{peak / MIB:.0f} MiB"


@contextmanager
def connected(port: int, count: int, sent: bytes = b"", address: str = "127.0.0.2") -> Iterator[list[socket.socket]]:
    """Connections that have sent so much, and are closed in the end."""
    with ExitStack() as stack:
        made = []
        for _ in range(count):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), 60, (address, 0)))
            if sent:
                sock.sendall(sent)
            made.append(sock)
        yield made


def most_connections(wanted: int) -> int:
    """So many, or as many as this process may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = wanted + SPARE_FILES if hard == resource.RLIM_INFINITY else min(hard, wanted + SPARE_FILES)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))
    return min(wanted, limit - SPARE_FILES)


def is_closed(sock: socket.socket) -> bool:
    """Whether the other end has closed it; whatever it sent before is thrown away."""
    sock.setblocking(False)
    try:
        while sock.recv(65_536):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return True


def resident(pid: int) -> int:
    """Bytes of a process in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
