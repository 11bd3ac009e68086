"""What differs between occurrences of one bug."""

import random
import string
import uuid
from typing import Final

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LETTERS: Final = string.ascii_letters + string.digits
_MIDDLEWARES: Final = ("Tenant", "Timing", "Locale")


class Build:
    """A release: its lines, and the hashes and numbers that its build drew."""

    def __init__(self, release: int) -> None:
        chance = random.Random(release)
        self.version = f"1.{release}.0"
        self.shift = chance.randrange(400)
        self.hash = "".join(chance.choices("0123456789abcdef", k=8))
        self.chunk = f"{''.join(chance.choices(_LETTERS, k=6))}{chance.choice('_-')}{chance.choice(_LETTERS)}"
        self.lambdas = chance.randrange(1, 9)

    def line(self, function: str) -> int:
        """The line of a call in a function."""
        return 10 + (len(function) * 31 + self.shift) % 900


class Draws:
    """Values that are drawn for each occurrence."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def message(self, template: str) -> str:
        """A message with values of many spellings."""
        return template.format_map(self) if "{" in template else template

    def __getitem__(self, name: str) -> str:
        return str(getattr(self, f"_{name}")())

    def number(self, below: int) -> int:
        """A number below a bound."""
        return self._chance.randrange(below)

    def address(self) -> str:
        """An address in memory, without 0x."""
        return f"{self._chance.getrandbits(40):012x}"

    def depth(self) -> int:
        """How deep a recursion was: from 12 frames."""
        return 12 + self._chance.randrange(12)

    def middlewares(self) -> list[str]:
        """Two or three middlewares in any order."""
        return self._chance.sample(_MIDDLEWARES, self._chance.choice((2, 3)))

    def _n(self) -> str:
        number = self._chance.randrange(1, 5_000_000)
        return self._chance.choice(
            (str(number), f"{number:,}", f"{number:_}", f"-{number}", f"{number:e}", hex(number))
        )

    def _id(self) -> str:
        chance = self._chance
        return (
            lambda: str(uuid.UUID(int=chance.getrandbits(128), version=4)),
            lambda: "01" + "".join(chance.choices(_CROCKFORD, k=24)),
            lambda: f"{chance.getrandbits(96):024x}",
            lambda: str(chance.randrange(10**9)),
        )[chance.randrange(4)]()

    def _user(self) -> str:
        return f"user{self._chance.randrange(10**6)}@example.com"

    def _address(self) -> str:
        number = self._chance.getrandbits(16)
        return f"10.0.{number >> 8}.{number & 255}:{self._chance.randrange(1024, 65536)}"

    def _duration(self) -> str:
        value = self._chance.uniform(1, 90)
        return self._chance.choice((f"{value:.0f}s", f"{value:.3f} s", f"{value * 1000:.0f} ms", f"1m{value:.1f}s"))

    def _time(self) -> str:
        day, hour = self._chance.randrange(1, 29), self._chance.randrange(24)
        return self._chance.choice(
            (
                f"2026-11-{day:02}T{hour:02}:00:00Z",
                f"Sat, {day:02} Nov 2026 {hour:02}:00:00 GMT",
                f"11/{day}/2026 {hour:02}:30:00",
            )
        )

    def _path(self) -> str:
        return f"/srv/data/{self._chance.randrange(10**6)}/part-{self.address()}.csv"
