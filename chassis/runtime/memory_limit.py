"""The memory that this process may use: the machine's, or less if a control group limits it.

A container's limit, and systemd's `MemoryMax`, is a limit of its control group; the machine's memory as the kernel
reports it does not include it. Both versions of control groups are read
(https://docs.kernel.org/admin-guide/cgroup-v2.html and cgroup-v1/memory.html), and the limits of all parent groups
count too.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_MOUNT: Final = Path("/sys/fs/cgroup")
_MEMBERSHIP: Final = Path("/proc/self/cgroup")


def available_bytes(membership: Path = _MEMBERSHIP, mount: Path = _MOUNT) -> int:
    """The minimum of the machine's memory and the limits of this process's control groups, in bytes."""
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
    """The limits of a group and its parents. The root is read too: a container may see its own group there, whatever
    path it is given.
    """
    group = root / path.lstrip("/")
    for directory in (group, *group.parents):
        if not directory.is_relative_to(root):
            return
        try:
            limit = (directory / name).read_text().strip()
        except OSError:
            continue
        if limit.isdecimal():  # "max": no limit
            yield int(limit)
