"""Liveness and readiness of a process: `/livez` and `/readyz`."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec
import structlog
from aiohttp import web

PROBE_TIMEOUT_S: Final = 2.0
REUSE_S: Final = 1.0  # lifetime of a round of probes: a flood of /readyz must not become a flood of probes
_NO_RESPONSE: Final = f"no response within {PROBE_TIMEOUT_S:g} s"
_UNAVAILABLE: Final = "does not respond"  # the public text: a driver's error may name hosts, ports and users
_MAX_DETAIL: Final = 500  # characters of a driver's error, in the log

log = structlog.get_logger(__name__)


class NotReady(Exception):
    """A dependency responds but cannot be used now. The message is shown to clients: it must not name hosts."""


class Dependency(Protocol):
    """A dependency of a service. `probe` raises while it is unavailable, with a log message free of secrets."""

    @property
    def name(self) -> str: ...

    async def probe(self) -> None: ...


@dataclass(frozen=True, slots=True)
class OptionalDependency:
    """A dependency that the service can do without for a while: reported by `/readyz`, without failing it."""

    dependency: Dependency

    @property
    def name(self) -> str:
        """The dependency's name."""
        return self.dependency.name

    async def probe(self) -> None:
        """Probe the dependency."""
        await self.dependency.probe()


class Probe(msgspec.Struct, frozen=True):
    """Result of the last probe of a dependency; `error` is null if it is available, else a generic reason."""

    name: str
    ok: bool
    error: str | None
    required: bool


class Health:
    """The state that `/readyz` reports: every dependency by name, and whether the process is shutting down."""

    def __init__(
        self, service: str, dependencies: Sequence[Dependency], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.service = service
        self.draining = False
        self._dependencies = dependencies
        self._clock = clock
        self._lock = asyncio.Lock()
        self._unavailable: set[str] = set()
        self._round: tuple[float, list[Probe]] | None = None

    async def probes(self) -> list[Probe]:
        """Probe all dependencies concurrently, each for at most PROBE_TIMEOUT_S; callers within REUSE_S share the
        result.
        """
        async with self._lock:
            if self._round is None or self._clock() - self._round[0] >= REUSE_S:
                probes = await asyncio.gather(*(self._probe(dependency) for dependency in self._dependencies))
                self._round = (self._clock(), probes)
            return self._round[1]

    def not_ready_reason(self, probes: Sequence[Probe]) -> str | None:
        """The reason why the process is not ready, safe to show to clients; None when it is ready."""
        unavailable = [probe.name for probe in probes if probe.required and not probe.ok]
        if unavailable:
            return f"{', '.join(unavailable)} unavailable"
        return "the process is shutting down" if self.draining else None

    async def _probe(self, dependency: Dependency) -> Probe:
        required = not isinstance(dependency, OptionalDependency)
        limit = asyncio.timeout(PROBE_TIMEOUT_S)
        try:
            async with limit:
                await dependency.probe()
        except Exception as error:  # noqa: BLE001 - any error of a driver means that the dependency is unavailable
            text = _NO_RESPONSE if limit.expired() else str(error) if isinstance(error, NotReady) else _UNAVAILABLE
            self._log_unavailable(dependency.name, text if limit.expired() else _detail(error))
            return Probe(dependency.name, False, text, required)
        self._log_recovered(dependency.name)
        return Probe(dependency.name, True, None, required)

    def _log_unavailable(self, name: str, detail: str) -> None:
        """Logs one line per change, not per probe: load balancers probe every few seconds during an outage."""
        if name not in self._unavailable:
            self._unavailable.add(name)
            log.warning("dependency unavailable", service=self.service, dependency=name, detail=detail)

    def _log_recovered(self, name: str) -> None:
        if name in self._unavailable:
            self._unavailable.remove(name)
            log.warning("dependency recovered", service=self.service, dependency=name)


HEALTH: Final = web.AppKey("health", Health)


def _detail(error: Exception) -> str:
    """The error's own message, never that of its cause: a driver's may quote a password."""
    return (str(error) or type(error).__name__)[:_MAX_DETAIL]
