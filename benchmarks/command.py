"""The options of the benchmarks: each has one name and one meaning in all of them.

Data goes below TMPDIR, which may be on a disk that is worth measuring.
"""

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

DATABASES: Final = ("sqlite", "postgresql")


class _Settings(argparse.Action):
    """`NAME=VALUE ...` as a mapping."""

    def __call__(self, _parser: Any, namespace: argparse.Namespace, values: Any, _option: Any = None) -> None:
        setattr(namespace, self.dest, dict(values))


def command(
    package: str,
    description: str | None,
    *,
    parts: Sequence[str] = (),
    seconds: float | None = None,
    rounds: int | None = None,
    only: str | None = None,
    databases: bool = False,
    settings: bool = False,
) -> argparse.ArgumentParser:
    """The parser of `python -m package`, described by the docstring of its `__main__`, with the common options
    that have a default. `parts`: measures that can be named, all by default; `only`: names of rows.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {package}",
        description=description,
        epilog="Data goes below TMPDIR.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if parts:
        text = f"of {', '.join(parts)}; all by default"
        parser.add_argument("parts", nargs="*", type=_one_of(parts), default=list(parts), metavar="PART", help=text)
    if seconds is not None:
        parser.add_argument("--seconds", type=float, default=seconds, help="of load, for each row (%(default)g)")
    if rounds is not None:
        text = "how often each row is measured (%(default)s)"
        parser.add_argument("--rounds", "--runs", type=int, default=rounds, help=text)
    if only is not None:
        text = "rows whose name has one of these texts in it, separated by commas"
        parser.add_argument("--only", type=_listed, default=_listed(only), help=text)
    if databases:
        parser.add_argument("--database", type=_one_of((*DATABASES, "both")), default="both", help="%(default)s")
    if settings:
        text = "settings of the product"
        parser.add_argument("settings", nargs="*", type=_setting, action=_Settings, metavar="NAME=VALUE", help=text)
    return parser


def is_wanted(name: str, only: Iterable[str]) -> bool:
    """Whether `--only` leaves a row in."""
    return any(part in name for part in only)


def _listed(text: str) -> list[str]:
    return text.split(",")


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text} is not NAME=VALUE")
    return name, value


def _one_of(names: Sequence[str]) -> Callable[[str], str]:
    def known(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"{text} is none of {', '.join(names)}")
        return text

    return known
