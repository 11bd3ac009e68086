"""The memory that a process may use: that of the machine, or the limit of one of its control groups."""

import os
from pathlib import Path

import pytest

from chassis.runtime.memory import available_bytes

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
GIB = 2**30


def available(directory: Path, membership: str, files: dict[str, str]) -> int:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(f"{text}\n")
    (directory / "cgroup").write_text(membership)
    return available_bytes(directory / "cgroup", directory)


@pytest.mark.parametrize(
    ("membership", "files", "limit"),
    [
        ("0::/app.slice/sluice\n", {"app.slice/sluice/memory.max": f"{GIB}"}, GIB),
        ("0::/app.slice/sluice\n", {"app.slice/sluice/memory.max": "max"}, MACHINE),
        ("0::/app.slice/sluice\n", {"app.slice/sluice/memory.max": "max", "app.slice/memory.max": f"{GIB}"}, GIB),
        ("0::/../pod\n", {"memory.max": f"{GIB}"}, GIB),  # a container that is told a path it cannot see
        ("5:memory:/pod\n", {"memory/pod/memory.limit_in_bytes": f"{GIB}"}, GIB),
        ("5:cpu,memory:/pod\n", {"memory/memory.limit_in_bytes": f"{GIB}"}, GIB),
        ("5:cpu:/pod\n", {"memory/pod/memory.limit_in_bytes": f"{GIB}"}, MACHINE),
        ("5:memory:/pod\n", {"memory/pod/memory.limit_in_bytes": "9223372036854771712"}, MACHINE),
        ("4:memory:/a\n0::/b\n", {"memory/a/memory.limit_in_bytes": f"{2 * GIB}", "b/memory.max": f"{GIB}"}, GIB),
        ("", {}, MACHINE),
    ],
)
def test_the_smallest_limit_counts(tmp_path: Path, membership: str, files: dict[str, str], limit: int) -> None:
    assert available(tmp_path, membership, files) == limit


def test_without_control_groups_it_is_the_machine_s(tmp_path: Path) -> None:
    assert available_bytes(tmp_path / "none", tmp_path) == MACHINE


def test_this_process_has_some() -> None:
    assert 0 < available_bytes() <= MACHINE
