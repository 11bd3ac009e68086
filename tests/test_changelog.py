"""The fragments of changes/, and the sections that towncrier makes of them in CHANGELOG.md."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
TYPES: Final = ("added", "changed", "fixed", "removed", "security")
NAME: Final = re.compile(rf"[a-z0-9]+(-[a-z0-9]+)*\.({'|'.join(TYPES)})\.md")


def build(directory: Path, *options: str) -> str:
    """What `towncrier build` prints in a directory with a pyproject.toml. Raises CalledProcessError if it fails."""
    command = [sys.executable, "-m", "towncrier", "build", "--version", "0.2.0", "--date", "2027-01-02", *options]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


def test_fragments_are_in_the_next_section() -> None:
    fragments = [path for path in sorted((ROOT / "changes").iterdir()) if path.name != "README.md"]
    texts = {path.name: path.read_text(encoding="utf-8").strip() for path in fragments}
    assert [name for name in texts if not NAME.fullmatch(name)] == []
    assert [name for name, text in texts.items() if not text or text.startswith(("#", "-", "*"))] == []
    assert len(set(texts.values())) == len(texts)
    section = build(ROOT, "--draft")
    assert [name for name, text in texts.items() if "\n- " + text.replace("\n", "\n  ") + "\n" not in section] == []
    assert section.count("\n- ") == len(texts)


def test_a_release_puts_its_section_above_the_others(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    changes = tmp_path / "changes"
    changes.mkdir()
    (changes / "README.md").write_text("How to write one.\n", encoding="utf-8")
    for number, kind in enumerate(TYPES):
        (changes / f"change-{number}.{kind}.md").write_text(f"Change {number},\nin two lines.\n", encoding="utf-8")
    page = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text(page, encoding="utf-8")
    build(tmp_path, "--yes")
    made = "".join(
        f"\n### {kind.capitalize()}\n\n- Change {number},\n  in two lines.\n" for number, kind in enumerate(TYPES)
    )
    head, start, before = page.partition("<!-- towncrier release notes start -->\n\n")
    expected = f"{head}{start}## 0.2.0 (2027-01-02)\n{made}\n\n{before}"
    assert (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8") == expected
    assert [path.name for path in changes.iterdir()] == ["README.md"]


def test_towncrier_knows_the_same_types() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
    assert tuple(one["name"].lower() for one in settings["type"]) == TYPES
