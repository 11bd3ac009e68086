"""`sluice`: parses the command line and runs the module of the sub-command."""

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
from sluice import __version__, extras

# Sub-command, module with its `run(arguments) -> int`, and its line in `sluice --help`.
_COMMANDS: Final = (
    ("up", "sluice.cli.up", "runs all services in one process on one port, with embedded stores by default"),
    ("gateway", "sluice.cli.serve_one", "runs the gateway alone: receives OTLP (needs a ClickHouse server)"),
    ("query", "sluice.cli.serve_one", "runs the explore API alone (needs a ClickHouse server)"),
    ("control", "sluice.cli.serve_one", "runs the control API alone, and the page"),
    ("web", "sluice.cli.serve_one", "runs the page alone; a proxy in front of it routes to the APIs"),
    ("migrate", "sluice.cli.migrate", "migrates the relational and ClickHouse schemas to this release; idempotent"),
    ("init", "sluice.cli.init", "creates an organization with a project, a project key and an access token"),
    ("limits", "sluice.cli.limits", "shows or sets the quota of an organization and the rates of its keys"),
    ("billing", "sluice.cli.billing", "shows the subscription of an organization, or names its customer"),
    ("password", "sluice.cli.password", "resets a forgotten password"),
    ("open", "sluice.cli.open", "opens the page in a browser, logged in as an owner (docs/web.md)"),
    ("owner", "sluice.cli.recover_owner", "recovers access when every owner is locked out"),
    ("signers", "sluice.cli.signing_keys", "lists or withdraws the keys that sign session tokens"),
    ("audit", "sluice.cli.audit", "verifies the audit hash chain of every organization"),
    ("secrets", "sluice.cli.secrets", "lists, rotates or retires the keys that encrypt stored secrets"),
    ("sso", "sluice.cli.sso", "vouches for a domain of an organization, or ends its enforcement of single sign-on"),
    ("erase", "sluice.cli.erase", "erases spans and log records of a project that match filters and a time range"),
    (
        "erasures",
        "sluice.cli.erasures",
        "lists, shows, retries or exports erasures, those of deleted organizations too",
    ),
    ("config", "sluice.cli.config", "prints every setting: name, unit, default, what 0 means, current value"),
    ("doctor", "sluice.cli.doctor", "checks connections, schemas, decoder, versions and settings"),
    ("journal", "sluice.cli.journal", "shows and verifies the journals of a gateway; requeues quarantined requests"),
    ("backup", "sluice.cli.backup", "backs up the embedded stores while they are in use (docs/backup.md)"),
    ("restore", "sluice.cli.restore", "restores a backup into an empty data directory, or verifies one"),
    ("repair", "sluice.cli.repair", "rebuilds trace index, attribute keys and errors of some days from spans and logs"),
    ("release", "sluice.cli.release", "reports a release with its commits, from a git checkout (docs/releases.md)"),
    ("sourcemaps", "sluice.cli.source_maps", "uploads the source maps of a build (docs/source-maps.md)"),
    ("proof", "sluice.cli.proof", "validates, shows, signs or verifies proof bundles, offline (docs/proofs.md)"),
    ("send", "sluice.cli.send", "exports a small trace and a log record through the OpenTelemetry SDK"),
)
_FILE_HELP: Final = (
    "file with the access token, alone or as `sluice init` wrote it; default: the variable RELEASE_TOKEN"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command and return its exit code: 1: it failed; 2: the command line or the settings are wrong; 141:
    the reader of standard output closed it.
    """
    try:
        try:
            return _run(argv)
        finally:
            print(end="", flush=True)  # here, where a broken pipe can be handled, not at interpreter exit
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
    """The reader of standard output closed it, as `head` does. Discards the remaining output, because Python flushes
    once more at exit, and returns the exit code of a process that SIGPIPE ends. Re-raises if another pipe broke.
    """
    output = select.poll()
    output.register(sys.stdout, 0)  # 0: poll always reports errors and a closed reader
    if not output.poll(0):
        raise error
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sluice", description="OTLP ingestion gateway that stores spans and log records in ClickHouse."
    )
    parser.add_argument("--version", action="version", version=f"sluice {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module, summary in _COMMANDS:
        command = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        command.set_defaults(module=module)
        _add_common_options(command, default=None)
        _OPTIONS.get(name, _no_options)(command)
    return parser


def _add_common_options(command: argparse.ArgumentParser, default: str | None) -> None:
    """Add the options of every sub-command and action. `default` SUPPRESS: an action keeps values given before it."""
    command.add_argument(
        "--config", metavar="FILE", default=default, help="settings file (TOML); default: SLUICE_CONFIG"
    )
    command.add_argument(
        "--data", metavar="DIR", default=default, help="data directory; default: SLUICE_DATA, else ./data"
    )


def _no_options(_command: argparse.ArgumentParser) -> None:
    """For a sub-command that has the common options only."""


def _serving(command: argparse.ArgumentParser) -> None:
    command.add_argument("--host", metavar="H", help="address to listen on; default: SLUICE_HOST, else 127.0.0.1")
    command.add_argument(
        "--port", metavar="P", type=_port, help="port to listen on; default: SLUICE_PORT, else 4318; 0: any free port"
    )
    command.add_argument(
        "--health-port",
        metavar="P",
        type=_port,
        help="a second port on 127.0.0.1, for this command only; with --workers it covers all workers; default: none",
    )
    command.add_argument(
        "--workers", metavar="N", type=_workers, default=1, help="processes that share the port; default: 1"
    )
    command.add_argument("--share-port", help=argparse.SUPPRESS)  # set for worker processes


def _ingesting(command: argparse.ArgumentParser) -> None:
    _serving(command)
    command.add_argument(
        "--grpc-port",
        metavar="P",
        type=_grpc_port,
        help="port to listen on for OTLP/gRPC; default: SLUICE_GRPC_PORT, else 4317; empty: none",
    )


def _up(command: argparse.ArgumentParser) -> None:
    _ingesting(command)
    command.add_argument(
        "--accept-copy",
        action="store_true",
        help="start on a data directory that was copied or moved after a crash; one that was copied while it was in "
        "use has rows twice and lacks others",
    )


def _init(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--org", metavar="SLUG", default="default", help="slug of the organization; default: `default`"
    )
    command.add_argument(
        "--project", metavar="SLUG", default="default", help="slug of its first project; default: `default`"
    )
    command.add_argument(
        "--quota", metavar="N", type=_quota, default=0, help="items per calendar month; default: 0, unlimited"
    )
    command.add_argument("--out", metavar="FILE", help="secrets file, mode 0600; default: DATA/init-ORG-PROJECT.json")
    command.add_argument("--json", action="store_true", help="print the result as JSON (without the secrets)")


def _limits(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--org", metavar="SLUG", default="default", help="slug of the organization; default: `default`"
    )
    command.add_argument("--quota", metavar="N", type=_quota, help="set the items per calendar month; 0: unlimited")
    command.add_argument("--key", metavar="ID", help="id (not the secret) of the key that --rate applies to")
    command.add_argument(
        "--rate", metavar="R", type=_rate, help="requests per second; 0: no limit; `default`: SLUICE_OTLP_RATE"
    )
    command.add_argument("--json", action="store_true", help="print as JSON")


def _billing(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--org", metavar="SLUG", default="default", help="slug of the organization; default: `default`"
    )
    command.add_argument(
        "--customer",
        metavar="ID",
        type=_customer,
        help="name its customer at the payment processor, by the processor's id; empty: none",
    )
    command.add_argument(
        "--unlink", dest="customer", action="store_const", const="", help="it has no customer; it keeps its quota"
    )
    command.add_argument("--json", action="store_true", help="print as JSON")


def _password(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--email",
        metavar="ADDRESS",
        required=True,
        help="e-mail address of the user; the new password is prompted for, or read from standard input",
    )
    command.add_argument(
        "--org",
        metavar="SLUG",
        help="the account with this address in this organization; default: the one that has verified the address, else "
        "the only one",
    )
    command.add_argument("--without-factor", action="store_true", help="remove the second factor as well")


def _open(command: argparse.ArgumentParser) -> None:
    command.add_argument("--org", metavar="SLUG", help="organization to log in to; default: the first one")
    command.add_argument("--print", action="store_true", help="print the link instead of opening a browser")


def _owner(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--org", metavar="SLUG", default="default", help="slug of the organization; default: `default`"
    )
    command.add_argument("--out", metavar="FILE", help="token file, mode 0600; default: DATA/owner-ORG.json")


def _signers(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser("show", help="list all published keys, keys in use first")
    withdraw = actions.add_parser("withdraw", help="stop trusting a key permanently; this cannot be undone")
    withdraw.add_argument("kid", metavar="KID", help="id of the key, as `show` prints it")
    for action in (show, withdraw):
        _add_common_options(action, default=argparse.SUPPRESS)


def _sso(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    domain = actions.add_parser("domain", help="say that a domain of e-mail addresses belongs to an organization")
    domain.add_argument("--domain", metavar="DOMAIN", required=True, help="such as example.com; without subdomains")
    release = actions.add_parser("release", help="let passwords in again, for an organization that is locked out")
    for action in (domain, release):
        action.add_argument("--org", metavar="SLUG", required=True, help="the organization")
        _add_common_options(action, default=argparse.SUPPRESS)


def _audit(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    verify = actions.add_parser("verify", help="verify every chain of events; exit code 1 if one is broken")
    verify.add_argument(
        "--org", metavar="SLUG", help="verify the chain of this organization only (of a deleted one: its id)"
    )
    verify.add_argument("--file", metavar="FILE", help="verify an export instead of the database")
    verify.add_argument(
        "--noted",
        metavar="SEQ:HASH",
        type=_noted_event,
        help="also check that the chain still contains this event, the last one of an earlier run",
    )
    verify.add_argument("--json", action="store_true", help="print one JSON object per chain")
    _add_common_options(verify, default=argparse.SUPPRESS)


def _erase(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--org", metavar="SLUG", default="default", help="slug of the organization; default: `default`"
    )
    command.add_argument("--project", metavar="SLUG", required=True, help="slug of the project")
    command.add_argument(
        "--where", metavar="FILTERS", help="filters as in explore, such as 'user.id:4711', or a JSON array of them"
    )
    for option, target, what in (("--from", "begin", "only items from"), ("--to", "end", "only items before")):
        default = "; default: now" if target == "end" else ""
        text = f"{what} this time, such as 2026-11-20T15:17:03Z or now-15m{default}"
        command.add_argument(option, dest=target, metavar="TIME", help=text)
    command.add_argument("--dry-run", action="store_true", help="only count the rows")
    command.add_argument("--json", action="store_true", help="print as JSON")


def _erasures(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    listed = actions.add_parser("list", help="list the newest erasures of all organizations")
    listed.add_argument("--open", action="store_true", help="only those that are not completed")
    show = actions.add_parser("show", help="show one, with its rows by table and the journals that it waits for")
    retry = actions.add_parser("retry", help="restart a failed erasure, or completed ones")
    retry.add_argument("id", metavar="ID", nargs="?", help="id of a failed erasure")
    retry.add_argument(
        "--completed-since",
        metavar="TIME",
        help="those completed since the moment of a backup of ClickHouse that was restored, to erase again what came "
        "back with it",
    )
    exported = actions.add_parser(
        "export", help="print those in force as JSON lines, with their filters, for `apply` on a restored backup"
    )
    applied = actions.add_parser("apply", help="erase in a restored backup what an export contains")
    applied.add_argument("file", metavar="FILE", help="the output of `sluice erasures export`")
    journals = actions.add_parser("journals", help="list the journals that erasures wait for")
    journals.add_argument("--remove", metavar="NAME", help="stop waiting for a journal whose volume is lost for good")
    show.add_argument("id", metavar="ID", help="id of the erasure")
    for action in (listed, show):
        action.add_argument("--json", action="store_true", help="print one JSON object per erasure")
    for action in (listed, show, retry, exported, applied, journals):
        _add_common_options(action, default=argparse.SUPPRESS)


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
        help="show: lists the keys of the ring and how many secrets each encrypts; rotate: generates a new key if the "
        "ring is a file, then re-encrypts every secret with the first key; retire: removes unused keys from the file",
    )


def _journal(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    inspect = actions.add_parser(
        "inspect", help="show journals, quarantine and damage; fast, also while the gateway runs"
    )
    inspect.add_argument("--json", action="store_true", help="print as JSON")
    verify = actions.add_parser("verify", help="read every frame; exit code 1 if any is damaged or missing")
    requeue = actions.add_parser("requeue", help="requeue quarantined requests for insertion into ClickHouse")
    requeue.add_argument("names", metavar="NAME", nargs="*", help="a quarantined file, as `inspect` lists it")
    requeue.add_argument("--all", action="store_true", help="requeue everything in the quarantine")
    for action in (inspect, verify, requeue):
        _add_common_options(action, default=argparse.SUPPRESS)


def _repair(command: argparse.ArgumentParser) -> None:
    for option, target, what in (("--from", "first", "first"), ("--to", "last", "last")):
        text = f"{what} day (UTC), such as 2026-11-20"
        command.add_argument(option, dest=target, metavar="DAY", type=_day, required=True, help=text)
    command.add_argument("--dry-run", action="store_true", help="show what would change, without changing it")


def _backup(command: argparse.ArgumentParser) -> None:
    command.add_argument("--to", metavar="DIR", required=True, help="directory of backups; created with mode 0700")
    command.add_argument(
        "--without-keys", action="store_true", help="leave out the key ring, the signing keys and bootstrap.json"
    )
    command.add_argument("--json", action="store_true", help="print the result as JSON")


def _restore(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--from", dest="source", metavar="DIR", required=True, help="a backup, or a directory of backups: the newest"
    )
    command.add_argument("--to", metavar="DATA", help="empty or new data directory; default: --data")
    command.add_argument("--check", action="store_true", help="read and verify every file, and restore nothing")
    command.add_argument(
        "--erasures", metavar="FILE", help="erase what this output of `sluice erasures export` contains"
    )
    command.add_argument("--json", action="store_true", help="print the result as JSON")


def _send(command: argparse.ArgumentParser) -> None:
    command.add_argument("--file", metavar="FILE", help="credentials file; default: DATA/bootstrap.json")
    command.add_argument("--url", metavar="URL", help="URL to send to; default: the URL of the running `sluice up`")
    command.add_argument(
        "--query-url", metavar="URL", help="URL of the query service, if it runs separately; default: --url"
    )
    command.add_argument(
        "--traffic", action="store_true", help="also send an hour of a shop's traffic, with slow requests to look into"
    )


def _release(command: argparse.ArgumentParser) -> None:
    command.add_argument("version", metavar="VERSION", help="version of the release, such as 1.4.0 or checkout@1.4.0")
    command.add_argument(
        "--project", metavar="SLUG", action="append", required=True, help="slug of a project; may be repeated"
    )
    command.add_argument("--org", metavar="SLUG", default="default", help="the organization; default: `default`")
    command.add_argument("--since", metavar="REF", help="commits after it; default: the latest tag before --until")
    command.add_argument("--until", metavar="REF", default="HEAD", help="the newest commit; default: HEAD")
    command.add_argument("--directory", metavar="DIR", default=".", help="git checkout; default: .")
    command.add_argument("--repository", metavar="NAME", help="its name; default: that of its remote `origin`")
    command.add_argument("--ref", metavar="REF", help="what it was built from, as shown; default: the newest commit")
    command.add_argument("--environment", metavar="NAME", help="where it is released, such as production")
    command.add_argument("--url", metavar="URL", help="page of the release, such as that of its build")
    command.add_argument("--released-at", metavar="TIME", help="such as 2026-11-20T15:17:03Z; default: now")
    command.add_argument("--server", metavar="URL", help="URL of the control API; default: http://127.0.0.1:4318")
    command.add_argument("--token-file", metavar="FILE", help=_FILE_HELP)
    command.add_argument("--dry-run", action="store_true", help="print what would be reported, and send nothing")


def _source_maps(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    upload = actions.add_parser("upload", help="upload the source maps of the scripts beneath a directory")
    upload.add_argument(
        "directory",
        metavar="DIR",
        help="output folder of the build; paths below it must equal the paths in the scripts' URLs",
    )
    upload.add_argument("--release", metavar="R", required=True, help="the release: `service.version` of its telemetry")
    upload.add_argument("--org", metavar="SLUG", default="default", help="slug of the organization; default: `default`")
    upload.add_argument("--project", metavar="SLUG", required=True, help="slug of the project")
    upload.add_argument(
        "--url-prefix",
        metavar="URL",
        default="/",
        help="where the folder is served, such as /static or https://cdn.example/shop, or where a server runs it, such "
        "as /app/dist; default: /",
    )
    upload.add_argument("--server", metavar="URL", help="base URL of the API; default: http://127.0.0.1:4318")
    upload.add_argument("--token-file", metavar="FILE", help=_FILE_HELP)
    upload.add_argument("--dry-run", action="store_true", help="only print what would be uploaded")
    _add_common_options(upload, default=argparse.SUPPRESS)


def _proof(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    key = actions.add_parser("key", help="create an Ed25519 key: the public key to standard output")
    key.add_argument("--out", metavar="FILE", required=True, help="file for the private key, mode 0600; a new one")
    validate = actions.add_parser("validate", help="check shape and meaning; exit code 1 if it is not valid")
    validate.add_argument("--strict", action="store_true", help="warnings make it invalid")
    inspect = actions.add_parser("inspect", help="show a bundle; signatures are not checked")
    sign = actions.add_parser("sign", help="sign a bundle: a DSSE envelope, to standard output or --out")
    sign.add_argument(
        "--key",
        metavar="FILE",
        required=True,
        help="private key, Ed25519 or ECDSA P-256, in PEM (PKCS #8); its password: the variable PROOF_KEY_PASSWORD",
    )
    sign.add_argument("--key-id", metavar="ID", help="name of the key; default: the digest of its public key")
    sign.add_argument("--out", metavar="FILE", help="file to write")
    verify = actions.add_parser("verify", help="verify a signed bundle; exit code 1 if it is not")
    verify.add_argument("--key", metavar="FILE", action="append", help="public key in PEM; may be repeated")
    verify.add_argument(
        "--keys",
        metavar="FILE",
        action="append",
        help="published keys with their validity, as the API lists them; may be repeated",
    )
    verify.add_argument("--at", metavar="TIME", help="keys must be valid at this time; default: that of the bundle")
    for action in (validate, inspect, sign, verify):
        action.add_argument("file", metavar="FILE", help="bundle, statement or envelope; -: standard input")
    for action in (validate, inspect):
        action.add_argument("--json", action="store_true", help="print as JSON")
    schema = actions.add_parser("schema", help="print the JSON Schema of a shape")
    shapes = ("bundle", "predicate", "statement", "descriptor")
    schema.add_argument("shape", nargs="?", choices=shapes, default="bundle", help="default: bundle")
    for action in (key, validate, inspect, sign, verify, schema):
        _add_common_options(action, default=argparse.SUPPRESS)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError("must be a day such as 2026-11-20") from None


def _grpc_port(text: str) -> int | str:
    return _port(text) if text else ""


def _port(text: str) -> int:
    return _number(text, 0, 65_535)


def _workers(text: str) -> int:
    return _number(text, 1, 256)


def _noted_event(text: str) -> tuple[int, bytes]:
    seq, _, digest = text.partition(":")
    if re.fullmatch(r"[1-9][0-9]{0,15}", seq) is None or re.fullmatch(r"[0-9a-f]{64}", digest) is None:
        raise argparse.ArgumentTypeError("must be the number and the hash of an event, such as 17:9f86d0...")
    return int(seq), bytes.fromhex(digest)


def _quota(text: str) -> int:
    from proto.identity import MAX_MONTHLY_ITEMS  # here: the first line of `up` waits for the imports of this module

    return _number(text, 0, MAX_MONTHLY_ITEMS)


def _rate(text: str) -> int | str:
    from proto.identity import MAX_KEY_RATE

    return text if text == "default" else _number(text, 0, MAX_KEY_RATE, "`default` or ")


def _customer(text: str) -> str:
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


_OPTIONS: Final = {
    "up": _up,
    "gateway": _ingesting,
    "query": _serving,
    "control": _serving,
    "web": _serving,
    "init": _init,
    "limits": _limits,
    "billing": _billing,
    "password": _password,
    "open": _open,
    "owner": _owner,
    "signers": _signers,
    "audit": _audit,
    "sso": _sso,
    "erase": _erase,
    "erasures": _erasures,
    "secrets": _secrets,
    "config": _config,
    "doctor": _doctor,
    "journal": _journal,
    "backup": _backup,
    "restore": _restore,
    "repair": _repair,
    "release": _release,
    "sourcemaps": _source_maps,
    "proof": _proof,
    "send": _send,
}
