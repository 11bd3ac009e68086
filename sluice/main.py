"""`sluice`: parses the command line and runs the module of the sub-command."""

import argparse
import os
import pkgutil
import select
import signal
import sys
from collections.abc import Sequence

from chassis.errors import StartupError
from sluice import build_info, extras
from sluice.commands import COMMANDS


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command and return its exit code. 1: it failed. 2: the command line or the settings are wrong. 141:
    the reader of standard output closed it.
    """
    try:
        try:
            return _run(argv)
        finally:
            print(end="", flush=True)  # flush here, where a broken pipe can be handled, instead of at interpreter exit
    except BrokenPipeError as error:
        return _on_broken_pipe(error)


def _run(argv: Sequence[str] | None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        code: int = pkgutil.resolve_name(arguments.function)(arguments)
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
    """Handle a reader that has closed standard output, such as `head`. Discards the remaining output, because Python
    flushes again at exit, and returns the exit code of a process that SIGPIPE ends. Re-raises if another pipe broke.
    """
    output = select.poll()
    output.register(sys.stdout, 0)  # 0: poll always reports errors and a closed reader
    if not output.poll(0):
        raise error
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE


class _Version(argparse.Action):
    """Like `action="version"`, but looks for the commit only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(build_info.describe())
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sluice", description="OTLP ingestion gateway that stores spans and log records in ClickHouse."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show version, commit and decoder, and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_to(commands)
    return parser
