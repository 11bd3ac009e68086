"""Name the version, the commit and the decoder that this installation of Sluice was built from."""

import subprocess
from importlib import import_module
from pathlib import Path
from typing import Final

from sluice import __version__

COMMIT_FILE: Final = Path(__file__).with_name("commit.txt")  # setup.py writes it into wheels and archives of the source
_SHOWN_DIGITS: Final = 12


def commit() -> str | None:
    """The Git commit, in 40 hexadecimal digits; None if it is not known, for example in a copy without `.git`."""
    if COMMIT_FILE.exists():
        return COMMIT_FILE.read_text(encoding="ascii").strip()
    checkout = Path(__file__).parents[1]
    if not (checkout / ".git").exists():
        return None
    command = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def describe() -> str:
    """One line for `sluice --version`."""
    known = commit()
    return f"sluice {__version__} ({f'commit {known[:_SHOWN_DIGITS]}' if known else 'commit unknown'}, {_decoder()})"


def _decoder() -> str:
    """The decoder that this installation uses. Imports the kernel, because one for another Python does not load."""
    try:
        import_module("proto.otlp.kernel")
    except ImportError:
        return "decoder in Python"
    return "decoder kernel"
