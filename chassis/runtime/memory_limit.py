"""How much memory this process may use: the machine's, or less where a control group says so.

A container's limit, and systemd's `MemoryMax`, is a limit of its control group; what the kernel calls the machine's
memory does not know of it. Both versions of control groups are read (https://docs.kernel.org/admin-guide/cgroup-v2.html
and cgroup-v1/memory.html), and the limits of all groups above count too.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_MOUNT: Final = Path("/sys/fs/cgroup")
_MEMBERSHIP: Final = Path("/proc/self/cgroup")


def available_bytes(membership: Path = _MEMBERSHIP, mount: Path = _MOUNT) -> int:
    """The smallest of the machine's memory and the limits of this process's control groups."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min((machine, *_limits(membership, mount)))


def _limits(membership: Path, mount: Path) -> Iterator[int]:
    try:
        lines = membership.read_text().splitlines()
    except OSError:  # no control groups here
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _limits_up_to_root(mount, path, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _limits_up_to_root(mount / "memory", path, "memory.limit_in_bytes")


def _limits_up_to_root(root: Path, path: str, name: str) -> Iterator[int]:
    """A container may see its own group as the root, whatever path it is told: so the root is looked at as well."""
    group = root / path.lstrip("/")
    for directory in (group, *group.parents):
        if not directory.is_relative_to(root):
            return
        try:
            limit = (directory / name).read_text().strip()
        except OSError:
            continue
        if limit.isdecimal():  # "max" is none
            yield int(limit)
