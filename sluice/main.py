"""`sluice`: reads the command line and hands over to one module per sub-command."""

import argparse
import importlib
import os
import re
import select
import signal
import sys
from collections.abc import Sequence
from datetime import date
from typing import Final

from chassis.errors import StartupError
from proto.identity import MAX_KEY_RATE, MAX_MONTHLY_ITEMS
from sluice import __version__, extras

# Sub-command, module whose `run(arguments) -> int` it is, and what `sluice --help` says.
_COMMANDS: Final = (
    ("up", "sluice.cli.up", "all services in one process on one port, embedded stores by default"),
    ("gateway", "sluice.cli.serve_one", "the gateway alone: takes OTLP in (needs a ClickHouse server)"),
    ("query", "sluice.cli.serve_one", "the explore API alone (needs a ClickHouse server)"),
    ("control", "sluice.cli.serve_one", "the control API alone"),
    ("migrate", "sluice.cli.migrate", "bring both schemas to this release; does nothing when they are"),
    ("init", "sluice.cli.init", "make an organization with a project, a project key and an access token"),
    ("limits", "sluice.cli.limits", "the quota of an organization and the rates of its keys: shown, or set"),
    ("password", "sluice.cli.password", "a new password for a user who has lost his"),
    ("owner", "sluice.cli.recover_owner", "a fresh access token of an owner, where none of them gets in any more"),
    ("signers", "sluice.cli.signing_keys", "the keys that sessions are signed with: shown, withdrawn"),
    ("audit", "sluice.cli.audit", "whether the audit of every organization is what was written"),
    ("secrets", "sluice.cli.secrets", "the keys that stored secrets are encrypted with: shown, rotated, taken out"),
    ("config", "sluice.cli.config", "every setting: name, unit, default, what 0 means, current value"),
    ("doctor", "sluice.cli.doctor", "what is reachable, which schemas, which decoder, which versions"),
    (
        "journal",
        "sluice.cli.journal",
        "what the journals of a gateway hold, whether it can be read, what was set aside",
    ),
    (
        "repair",
        "sluice.cli.repair",
        "trace index, attribute keys and errors of some days, anew from their spans and logs",
    ),
    ("send", "sluice.cli.send", "send a small real trace and a log through the OpenTelemetry SDK"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command; the exit code. 2: the command line or the settings are wrong, 1: it could not be done, 141:
    nobody reads any more what it has to say.
    """
    try:
        try:
            return _run(argv)
        finally:
            print(end="", flush=True)  # here, where it can be said what becomes of it, and not while Python ends
    except BrokenPipeError as error:
        return _on_broken_pipe(error)


def _run(argv: Sequence[str] | None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        code: int = importlib.import_module(arguments.module).run(arguments)
    except StartupError as error:
        return _print_error(error)
    except ModuleNotFoundError as error:
        extra = extras.of_module(error.name or "")
        if extra is None:
            raise
        return _print_error(extras.MissingExtras(arguments.command, [error.name or ""], [extra]))
    except KeyboardInterrupt:
        return 130
    return code


def _print_error(error: StartupError) -> int:
    print(f"sluice: {error}", file=sys.stderr)
    return error.exit_code


def _on_broken_pipe(error: BrokenPipeError) -> int:
    """Standard output was closed by its reader, as by `head`: what is left of it goes nowhere, for Python tries once
    more at its end. The exit code is that of a process which SIGPIPE ends. Raises where another pipe broke.
    """
    output = select.poll()
    output.register(sys.stdout, 0)  # 0: of errors and a reader that has gone one is told always
    if not output.poll(0):
        raise error
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sluice", description="OTLP in, ClickHouse rows, spans out.")
    parser.add_argument("--version", action="version", version=f"sluice {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module, summary in _COMMANDS:
        command = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        command.set_defaults(module=module)
        _add_common_options(command, default=None)
        _OPTIONS.get(name, _no_options)(command)
    return parser


def _add_common_options(command: argparse.ArgumentParser, default: str | None) -> None:
    """What every sub-command takes, and an action of one (`default` SUPPRESS: what stood before it stays)."""
    command.add_argument(
        "--config", metavar="FILE", default=default, help="settings file (TOML); SLUICE_CONFIG otherwise"
    )
    command.add_argument("--data", metavar="DIR", default=default, help="data directory; ./data by default")


def _no_options(_command: argparse.ArgumentParser) -> None:
    """Nothing beyond what every sub-command takes."""


def _serving(command: argparse.ArgumentParser) -> None:
    command.add_argument("--host", metavar="H", help="address to listen on; 127.0.0.1 by default")
    command.add_argument("--port", metavar="P", type=_port, help="port to listen on; 4318 by default, 0: any free one")
    command.add_argument(
        "--health-port",
        metavar="P",
        type=_port,
        help="a second port on 127.0.0.1 of this command alone, with --workers for all of them; none by default",
    )
    command.add_argument(
        "--workers", metavar="N", type=_workers, default=1, help="processes that share the port; 1 by default"
    )
    command.add_argument("--share-port", help=argparse.SUPPRESS)  # one of those processes


def _init(command: argparse.ArgumentParser) -> None:
    command.add_argument("--org", metavar="SLUG", default="default", help="organization to make; `default` by default")
    command.add_argument("--project", metavar="SLUG", default="default", help="its first project; `default` by default")
    command.add_argument(
        "--quota", metavar="N", type=_quota, default=0, help="items it may send in a calendar month; 0, any, by default"
    )
    command.add_argument(
        "--out", metavar="FILE", help="where the secrets are written, mode 0600; inside DATA by default"
    )
    command.add_argument("--json", action="store_true", help="print what was made as JSON (without the secrets)")


def _limits(command: argparse.ArgumentParser) -> None:
    command.add_argument("--org", metavar="SLUG", default="default", help="organization; `default` by default")
    command.add_argument("--quota", metavar="N", type=_quota, help="set the items of a calendar month; 0: any number")
    command.add_argument("--key", metavar="ID", help="the key that --rate is for, by its id (not the secret)")
    command.add_argument("--rate", metavar="R", type=_rate, help="set its requests a second; 0: no limit, or `default`")
    command.add_argument("--json", action="store_true", help="print as JSON")


def _password(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--email", metavar="ADDRESS", required=True, help="whose; the password is read, never an option"
    )
    command.add_argument("--without-factor", action="store_true", help="take the second factor away as well")


def _owner(command: argparse.ArgumentParser) -> None:
    command.add_argument("--org", metavar="SLUG", default="default", help="organization; `default` by default")
    command.add_argument("--out", metavar="FILE", help="where the token is written, mode 0600; inside DATA by default")


def _signers(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser("show", help="all that processes have published, those in use first")
    withdraw = actions.add_parser("withdraw", help="believe no more what a key has signed; there is no way back")
    withdraw.add_argument("kid", metavar="KID", help="the key, as `show` names it")
    for action in (show, withdraw):
        _add_common_options(action, default=argparse.SUPPRESS)


def _audit(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    verify = actions.add_parser("verify", help="check every chain of events; 1 when one is broken")
    verify.add_argument("--org", metavar="SLUG", help="only the chain of this organization")
    verify.add_argument("--file", metavar="FILE", help="an export, instead of the database")
    verify.add_argument(
        "--noted",
        metavar="SEQ:HASH",
        type=_noted_event,
        help="an event that an earlier run printed as the last: is it there",
    )
    verify.add_argument("--json", action="store_true", help="print one JSON object a chain")


def _config(command: argparse.ArgumentParser) -> None:
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print as JSON")
    form.add_argument("--markdown", action="store_true", help="print as a Markdown table, without current values")


def _doctor(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print as JSON")


def _secrets(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "action",
        choices=("show", "rotate", "retire"),
        help="show: keys of the ring, and how many secrets each has encrypted; rotate: draw a new key where the ring "
        "is a file, encrypt every secret with the first one; retire: take unused keys out of the file",
    )


def _journal(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    inspect = actions.add_parser("inspect", help="journals, quarantine and damage; quick, also while the gateway runs")
    inspect.add_argument("--json", action="store_true", help="print as JSON")
    verify = actions.add_parser("verify", help="read every frame; 1 when any is damaged")
    requeue = actions.add_parser("requeue", help="put requests of the quarantine back into the way to ClickHouse")
    requeue.add_argument("names", metavar="NAME", nargs="*", help="a file of the quarantine, as `inspect` lists it")
    requeue.add_argument("--all", action="store_true", help="everything that was set aside")
    for action in (inspect, verify, requeue):
        _add_common_options(action, default=argparse.SUPPRESS)


def _repair(command: argparse.ArgumentParser) -> None:
    for option, target, what in (("--from", "first", "first"), ("--to", "last", "last")):
        text = f"{what} day (UTC), as 2026-11-20"
        command.add_argument(option, dest=target, metavar="DAY", type=_day, required=True, help=text)
    command.add_argument("--dry-run", action="store_true", help="show what would become of them and change nothing")


def _send(command: argparse.ArgumentParser) -> None:
    command.add_argument("--file", metavar="FILE", help="credentials; DATA/bootstrap.json by default")
    command.add_argument("--url", metavar="URL", help="where to send; where `sluice up` listens by default")
    command.add_argument(
        "--query-url", metavar="URL", help="where to read it, where services are apart; --url by default"
    )


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError("must be a day as 2026-11-20") from None


def _port(text: str) -> int:
    return _number(text, 0, 65_535)


def _workers(text: str) -> int:
    return _number(text, 1, 256)


def _noted_event(text: str) -> tuple[int, bytes]:
    seq, _, digest = text.partition(":")
    if re.fullmatch(r"[1-9][0-9]{0,15}", seq) is None or re.fullmatch(r"[0-9a-f]{64}", digest) is None:
        raise argparse.ArgumentTypeError("must be the number and the hash of an event, as 17:9f86d0...")
    return int(seq), bytes.fromhex(digest)


def _quota(text: str) -> int:
    return _number(text, 0, MAX_MONTHLY_ITEMS)


def _rate(text: str) -> int | str:
    return text if text == "default" else _number(text, 0, MAX_KEY_RATE, "`default` or ")


def _number(text: str, least: int, most: int, instead: str = "") -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(f"must be {instead}a whole number, {least} to {most}")
    return number


_OPTIONS: Final = {
    "up": _serving,
    "gateway": _serving,
    "query": _serving,
    "control": _serving,
    "init": _init,
    "limits": _limits,
    "password": _password,
    "owner": _owner,
    "signers": _signers,
    "audit": _audit,
    "secrets": _secrets,
    "config": _config,
    "doctor": _doctor,
    "journal": _journal,
    "repair": _repair,
    "send": _send,
}
