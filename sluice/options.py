"""The command line as data: options, actions and commands, and the types of their values. `commands` has the rows."""

import argparse
import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypedDict, Unpack


class Settings(TypedDict, total=False):
    """The keyword arguments of `ArgumentParser.add_argument` that commands use."""

    help: str
    metavar: str
    dest: str
    default: Any
    const: str
    required: bool
    type: Callable[[str], Any]
    action: Literal["store_true", "store_const", "append"]
    nargs: Literal["?", "*"]
    choices: Sequence[str]


Option: TypeAlias = tuple[str, Settings]


class Action(NamedTuple):
    """An action of a command that has several: the word after its name."""

    name: str
    summary: str
    options: Sequence[Option] = ()


class Command(NamedTuple):
    """A sub-command: its function, as `module:function` (it gets the arguments and returns the exit code), its line in
    `sluice --help`, and its options. Only one of them may be given if they are `exclusive`.
    """

    name: str
    function: str
    summary: str
    options: Sequence[Option] = ()
    actions: Sequence[Action] = ()
    exclusive: bool = False

    def add_to(self, commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
        """Add the parser of this command, with the options of every command and action."""
        summary = self.summary
        parser = commands.add_parser(self.name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        parser.set_defaults(function=self.function)
        _add_options(parser, common_options(None))
        _add_options(parser.add_mutually_exclusive_group() if self.exclusive else parser, self.options)
        if self.actions:
            actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
            for action in self.actions:
                _add_options(
                    actions.add_parser(action.name, help=action.summary),
                    (*action.options, *common_options(argparse.SUPPRESS)),
                )


def option(name: str, text: str, **settings: Unpack[Settings]) -> Option:
    """An option or a positional argument, with `text` as its help."""
    return name, {"help": text, **settings}


def flag(name: str, text: str) -> Option:
    """An option without a value."""
    return option(name, text, action="store_true")


def common_options(default: str | None) -> Sequence[Option]:
    """The options of every command and action. `default` SUPPRESS: an action keeps values given before it."""
    return (
        option("--config", "settings file (TOML); default: SLUICE_CONFIG", metavar="FILE", default=default),
        option("--data", "data directory; default: SLUICE_DATA, or ./data", metavar="DIR", default=default),
    )


def _add_options(parser: "argparse._ActionsContainer", options: Sequence[Option]) -> None:
    for name, settings in options:
        parser.add_argument(name, **settings)


def day(text: str) -> date:
    """A calendar day (UTC)."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError("must be a day such as 2026-11-20") from None


def grpc_port(text: str) -> int | str:
    """A port; empty: no port."""
    return port(text) if text else ""


def port(text: str) -> int:
    """A TCP port; 0: any free port."""
    return _number(text, 0, 65_535)


def workers(text: str) -> int:
    """A number of processes."""
    return _number(text, 1, 256)


def noted_event(text: str) -> tuple[int, bytes]:
    """Number and hash of an event of the audit log."""
    seq, _, digest = text.partition(":")
    if re.fullmatch(r"[1-9][0-9]{0,15}", seq) is None or re.fullmatch(r"[0-9a-f]{64}", digest) is None:
        raise argparse.ArgumentTypeError("must be the number and the hash of an event, such as 17:9f86d0...")
    return int(seq), bytes.fromhex(digest)


def quota(text: str) -> int:
    """Items per calendar month; 0: unlimited."""
    from proto.identity import MAX_MONTHLY_ITEMS  # here: the first line of `up` waits for the imports of this module

    return _number(text, 0, MAX_MONTHLY_ITEMS)


def rate(text: str) -> int | str:
    """Requests per second, or `default`."""
    from proto.identity import MAX_KEY_RATE

    return text if text == "default" else _number(text, 0, MAX_KEY_RATE, "`default` or ")


def customer(text: str) -> str:
    """An id of the payment processor, or empty."""
    if re.fullmatch(r"[!-~]{0,255}", text) is None:
        raise argparse.ArgumentTypeError("must be an id of at most 255 characters without blanks")
    return text


def _number(text: str, minimum: int, maximum: int, alternative: str = "") -> int:
    try:
        number = int(text)
    except ValueError:
        number = minimum - 1
    if not minimum <= number <= maximum:
        raise argparse.ArgumentTypeError(f"must be {alternative}a whole number, {minimum} to {maximum}")
    return number


JSON: Final = flag("--json", "print as JSON")
ORG: Final = option("--org", "slug of the organization; default: `default`", metavar="SLUG", default="default")
PROJECT: Final = option("--project", "slug of the project", metavar="SLUG", required=True)
