"""Whether a process lives, and whether it can do its work: `/livez` and `/readyz`."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec
import structlog
from aiohttp import web

PROBE_TIMEOUT_S: Final = 2.0
REUSE_S: Final = 1.0  # how long one round of probes answers for: a flood of /readyz must not become a flood of probes
_NO_ANSWER: Final = f"no answer within {PROBE_TIMEOUT_S:g} s"
_UNAVAILABLE: Final = "does not answer"  # to whoever asks: what a driver says may name hosts, ports and users
_MAX_DETAIL: Final = 500  # characters of what a driver says, in the log

log = structlog.get_logger(__name__)


class NotReady(Exception):
    """A dependency is there and cannot be worked with now. Its text is shown to whoever asks: no names of hosts."""


class Dependency(Protocol):
    """Something a service cannot work without. `probe` raises when it is away, with a log text free of secrets."""

    @property
    def name(self) -> str: ...

    async def probe(self) -> None: ...


@dataclass(frozen=True, slots=True)
class OptionalDependency:
    """A dependency that the service does well enough without for a while: shown, but no reason to send traffic away."""

    dependency: Dependency

    @property
    def name(self) -> str:
        """That of the dependency."""
        return self.dependency.name

    async def probe(self) -> None:
        """That of the dependency."""
        await self.dependency.probe()


class Probe(msgspec.Struct, frozen=True):
    """One dependency as seen at the last round; `error` is null when it is there, else a fixed text."""

    name: str
    ok: bool
    error: str | None
    required: bool


class Health:
    """What `/readyz` says: every dependency by name, and whether the process is on its way out."""

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
        """Ask all dependencies at once, each for at most `PROBE_TIMEOUT_S`; shared by callers within `REUSE_S`."""
        async with self._lock:
            if self._round is None or self._clock() - self._round[0] >= REUSE_S:
                answers = await asyncio.gather(*(self._probe(dependency) for dependency in self._dependencies))
                self._round = (self._clock(), answers)
            return self._round[1]

    def not_ready_reason(self, probes: Sequence[Probe]) -> str | None:
        """Why the process cannot do its work, for whoever asks; None when it can."""
        away = [probe.name for probe in probes if probe.required and not probe.ok]
        if away:
            return f"away: {', '.join(away)}"
        return "the process is shutting down" if self.draining else None

    async def _probe(self, dependency: Dependency) -> Probe:
        required = not isinstance(dependency, OptionalDependency)
        limit = asyncio.timeout(PROBE_TIMEOUT_S)
        try:
            async with limit:
                await dependency.probe()
        except Exception as error:  # noqa: BLE001 - whatever a driver raises means the same here: it is away
            text = _NO_ANSWER if limit.expired() else str(error) if isinstance(error, NotReady) else _UNAVAILABLE
            self._log_unavailable(dependency.name, text if limit.expired() else _detail(error))
            return Probe(dependency.name, False, text, required)
        self._log_recovered(dependency.name)
        return Probe(dependency.name, True, None, required)

    def _log_unavailable(self, name: str, detail: str) -> None:
        """One line per change, not per probe: load balancers ask every few seconds for as long as it lasts."""
        if name not in self._unavailable:
            self._unavailable.add(name)
            log.warning("dependency away", service=self.service, dependency=name, detail=detail)

    def _log_recovered(self, name: str) -> None:
        if name in self._unavailable:
            self._unavailable.remove(name)
            log.warning("dependency back", service=self.service, dependency=name)


HEALTH: Final = web.AppKey("health", Health)


def _detail(error: Exception) -> str:
    """The error's own words and never its cause's: those are the driver's, which may quote a password."""
    return (str(error) or type(error).__name__)[:_MAX_DETAIL]
