"""Whether a process lives, and whether it can do its work: `/livez` and `/readyz`."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec
from aiohttp import web

PROBE_TIMEOUT_S: Final = 2.0
REUSE_S: Final = 1.0  # how long one round of probes answers for: a flood of /readyz must not become a flood of probes
_MAX_ERROR: Final = 200


class Dependency(Protocol):
    """Something a service cannot work without. `probe` raises, with a short text free of secrets, when it is away."""

    @property
    def name(self) -> str: ...

    async def probe(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Tolerated:
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
    """One dependency as seen at the last round; `error` is null when it is there."""

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
        self._round: tuple[float, list[Probe]] | None = None

    async def probes(self) -> list[Probe]:
        """Ask all dependencies at once, each for at most `PROBE_TIMEOUT_S`; shared by callers within `REUSE_S`."""
        async with self._lock:
            if self._round is None or self._clock() - self._round[0] >= REUSE_S:
                answers = await asyncio.gather(*(_ask(dependency) for dependency in self._dependencies))
                self._round = (self._clock(), answers)
            return self._round[1]


HEALTH: Final = web.AppKey("health", Health)


async def _ask(dependency: Dependency) -> Probe:
    required = not isinstance(dependency, Tolerated)
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            await dependency.probe()
    except TimeoutError:
        return Probe(dependency.name, False, f"no answer within {PROBE_TIMEOUT_S:g} s", required)
    except Exception as error:  # noqa: BLE001 - whatever a driver raises means the same here: the dependency is away
        return Probe(dependency.name, False, str(error)[:_MAX_ERROR] or type(error).__name__, required)
    return Probe(dependency.name, True, None, required)
