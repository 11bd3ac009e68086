"""Scripts find their maps."""

from pathlib import Path
from typing import Any

import pytest

from sluice import source_map_files
from sluice.source_map_files import find_scripts


def test_debug_ids_of_maps_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [f"85314830-023f-4cf1-a267-{number:012}" for number in range(4)]
    for number, one in enumerate(ids):
        (tmp_path / f"{number}.js").write_text(f"x()\n//# debugId={one.upper()}\n", encoding="utf-8")
        (tmp_path / f"of-{number}.map").write_text(f'{{"debugId": "{one}"}}', encoding="utf-8")
    read: list[Path] = []
    real = source_map_files.read_map

    def counted(file: Path) -> dict[str, Any]:
        read.append(file)
        return real(file)

    monkeypatch.setattr(source_map_files, "read_map", counted)
    found = [(one.name, one.map_file and one.map_file.name) for one in find_scripts(tmp_path)]
    assert found == [(f"{number}.js", f"of-{number}.map") for number in range(4)]
    assert len(read) == 4
