"""The sub-commands of `sluice`, as `main` parses them and `sluice COMMAND --help` shows them."""

from argparse import SUPPRESS
from typing import Final

from sluice.client_commands import CLIENT_COMMANDS
from sluice.options import (
    JSON,
    ORG,
    PROJECT,
    Action,
    Command,
    customer,
    day,
    flag,
    grpc_port,
    noted_event,
    option,
    port,
    quota,
    rate,
    workers,
)

_JSON_RESULT: Final = flag("--json", "print the result as JSON")
_ERASURE_JSON: Final = flag("--json", "print one JSON object per erasure")
_SSO_ORG: Final = option("--org", "the organization", metavar="SLUG", required=True)
_TIME: Final = "this time, such as 2026-11-20T15:17:03Z or now-15m"
_SERVING: Final = (
    option("--host", "address to listen on; default: SLUICE_HOST, or 127.0.0.1", metavar="H"),
    option("--port", "port to listen on; default: SLUICE_PORT, or 4318; 0: any free port", metavar="P", type=port),
    option(
        "--health-port",
        "a second port on 127.0.0.1, for health checks and metrics of this command and all its workers; default: none",
        metavar="P",
        type=port,
    ),
    option("--workers", "processes that share the port; default: 1", metavar="N", type=workers, default=1),
    option("--share-port", SUPPRESS),  # set for worker processes
)
_INGESTING: Final = (
    *_SERVING,
    option(
        "--grpc-port",
        "port to listen on for OTLP/gRPC; default: SLUICE_GRPC_PORT, or 4317; empty: none",
        metavar="P",
        type=grpc_port,
    ),
)

COMMANDS: Final = (
    Command(
        "up",
        "sluice.cli.up:run",
        "runs all services in one process on one port, with embedded stores by default",
        (
            *_INGESTING,
            flag(
                "--accept-copy",
                "start on a data directory that was copied or moved after a crash; a directory that was copied while "
                "it was in use has some rows twice and lacks other rows",
            ),
        ),
    ),
    Command(
        "gateway",
        "sluice.cli.serve_one:run",
        "runs only the gateway, which receives OTLP (needs a ClickHouse server)",
        _INGESTING,
    ),
    Command("query", "sluice.cli.serve_one:run", "runs only the explore API (needs a ClickHouse server)", _SERVING),
    Command("control", "sluice.cli.serve_one:run", "runs only the control API and the page", _SERVING),
    Command(
        "web", "sluice.cli.serve_one:run", "runs only the page; a proxy in front of it routes to the APIs", _SERVING
    ),
    Command(
        "migrate",
        "sluice.cli.migrate:run",
        "migrates the relational and ClickHouse schemas to this release; can be repeated",
    ),
    Command(
        "init",
        "sluice.cli.init:run",
        "creates an organization with a project, a project key and an access token",
        (
            ORG,
            option("--project", "slug of its first project; default: `default`", metavar="SLUG", default="default"),
            option("--quota", "items per calendar month; default: 0, unlimited", metavar="N", type=quota, default=0),
            option("--out", "secrets file, mode 0600; default: DATA/init-ORG-PROJECT.json", metavar="FILE"),
            flag("--json", "print the result as JSON (without the secrets)"),
        ),
    ),
    Command(
        "limits",
        "sluice.cli.organization:run_limits",
        "shows or sets the quota of an organization and the rates of its keys",
        (
            ORG,
            option("--quota", "set the items per calendar month; 0: unlimited", metavar="N", type=quota),
            option("--key", "id (not the secret) of the key that --rate applies to", metavar="ID"),
            option("--rate", "requests per second; 0: no limit; `default`: SLUICE_OTLP_RATE", metavar="R", type=rate),
            JSON,
        ),
    ),
    Command(
        "billing",
        "sluice.cli.organization:run_billing",
        "shows the subscription of an organization, or links its customer",
        (
            ORG,
            option(
                "--customer",
                "link the customer with this id at the payment processor; empty: unlink",
                metavar="ID",
                type=customer,
            ),
            option(
                "--unlink",
                "unlink its customer; the quota does not change",
                dest="customer",
                action="store_const",
                const="",
            ),
            JSON,
        ),
    ),
    Command(
        "password",
        "sluice.cli.accounts:run_password",
        "resets a forgotten password",
        (
            option(
                "--email",
                "e-mail address of the user; the new password is prompted for, or read from standard input",
                metavar="ADDRESS",
                required=True,
            ),
            option(
                "--org",
                "use the account in this organization; default: the account that has verified the address, or the only "
                "account",
                metavar="SLUG",
            ),
            flag("--without-factor", "remove the second factor as well"),
        ),
    ),
    Command(
        "open",
        "sluice.cli.accounts:run_open",
        "opens the page in a browser, logged in as an owner (docs/web.md)",
        (
            option("--org", "organization to log in to; default: the first one", metavar="SLUG"),
            flag("--print", "print the link instead of opening a browser"),
        ),
    ),
    Command(
        "owner",
        "sluice.cli.organization:run_owner",
        "recovers access when every owner is locked out",
        (ORG, option("--out", "token file, mode 0600; default: DATA/owner-ORG.json", metavar="FILE")),
    ),
    Command(
        "signers",
        "sluice.cli.signing_keys:run",
        "lists or withdraws the keys that sign session tokens",
        actions=(
            Action("show", "list all published keys, keys in use first"),
            Action(
                "withdraw",
                "stop trusting a key; this cannot be undone",
                (option("kid", "id of the key, as `show` prints it", metavar="KID"),),
            ),
        ),
    ),
    Command(
        "audit",
        "sluice.cli.audit:run",
        "verifies the audit hash chain of every organization",
        actions=(
            Action(
                "verify",
                "verify every chain of events; exit code 1 if a chain is broken",
                (
                    option(
                        "--org",
                        "verify only the chain of this organization; for a deleted organization, give its id",
                        metavar="SLUG",
                    ),
                    option("--file", "verify an export instead of the database", metavar="FILE"),
                    option(
                        "--noted",
                        "also check that the chain still contains this event, which an earlier run printed as the last "
                        "event",
                        metavar="SEQ:HASH",
                        type=noted_event,
                    ),
                    flag("--json", "print one JSON object per chain"),
                ),
            ),
        ),
    ),
    Command(
        "secrets",
        "sluice.cli.secrets:run",
        "lists, rotates or retires the keys that encrypt stored secrets",
        (
            option(
                "action",
                "show: lists the keys of the ring and how many secrets each encrypts; rotate: generates a new key if "
                "the ring is a file, then re-encrypts every secret with the first key of the ring; retire: removes "
                "unused keys from the file",
                choices=("show", "rotate", "retire"),
            ),
        ),
    ),
    Command(
        "sso",
        "sluice.cli.organization:run_sso",
        "confirms a domain of an organization, or ends its enforcement of single sign-on",
        actions=(
            Action(
                "domain",
                "confirm that a domain of e-mail addresses belongs to an organization",
                (
                    option(
                        "--domain",
                        "domain such as example.com; does not include subdomains",
                        metavar="DOMAIN",
                        required=True,
                    ),
                    _SSO_ORG,
                ),
            ),
            Action("release", "allow passwords again, for an organization that is locked out", (_SSO_ORG,)),
        ),
    ),
    Command(
        "erase",
        "sluice.cli.erasures:run_erase",
        "erases spans and log records of a project that match filters and a time range",
        (
            ORG,
            PROJECT,
            option(
                "--where", "filters as in explore, such as 'user.id:4711', or a JSON array of them", metavar="FILTERS"
            ),
            option("--from", f"only items from {_TIME}", dest="begin", metavar="TIME"),
            option("--to", f"only items before {_TIME}; default: now", dest="end", metavar="TIME"),
            flag("--dry-run", "only count the rows"),
            JSON,
        ),
    ),
    Command(
        "erasures",
        "sluice.cli.erasures:run",
        "lists, shows, retries or exports erasures, also of deleted organizations",
        actions=(
            Action(
                "list",
                "list the newest erasures of all organizations",
                (flag("--open", "only erasures that are not completed"), _ERASURE_JSON),
            ),
            Action(
                "show",
                "show an erasure, with its rows by table and the journals that it waits for",
                (option("id", "id of the erasure", metavar="ID"), _ERASURE_JSON),
            ),
            Action(
                "retry",
                "restart a failed erasure, or completed erasures",
                (
                    option("id", "id of a failed erasure", metavar="ID", nargs="?"),
                    option(
                        "--completed-since",
                        "restart erasures that were completed since this time; after a restore of ClickHouse, use the "
                        "moment of the restored backup",
                        metavar="TIME",
                    ),
                ),
            ),
            Action(
                "export",
                "print erasures with their filters as JSON lines; `apply` applies them to a restored backup",
            ),
            Action(
                "apply",
                "apply the erasures of an export to a restored backup",
                (option("file", "the output of `sluice erasures export`", metavar="FILE"),),
            ),
            Action(
                "journals",
                "list the journals that erasures wait for",
                (option("--remove", "stop waiting for a journal whose volume is lost permanently", metavar="NAME"),),
            ),
        ),
    ),
    Command(
        "config",
        "sluice.cli.config:run",
        "prints every setting: name, unit, default, what 0 means, current value",
        (JSON, flag("--markdown", "print as a Markdown table, without current values")),
        exclusive=True,
    ),
    Command("doctor", "sluice.cli.doctor:run", "checks connections, schemas, decoder, versions and settings", (JSON,)),
    Command(
        "journal",
        "sluice.cli.journal:run",
        "shows and verifies the journals of a gateway; requeues quarantined requests",
        actions=(
            Action("inspect", "show journals, quarantine and damage; fast, also while the gateway runs", (JSON,)),
            Action("verify", "read every frame of the journals; exit code 1 if a frame is damaged or missing"),
            Action(
                "requeue",
                "requeue quarantined requests for insertion into ClickHouse",
                (
                    option(
                        "names", "name of a quarantined file, from the output of `inspect`", metavar="NAME", nargs="*"
                    ),
                    flag("--all", "requeue all quarantined requests"),
                ),
            ),
        ),
    ),
    Command(
        "backup",
        "sluice.cli.backup:run_backup",
        "backs up the embedded stores while they are in use (docs/backup.md)",
        (
            option("--to", "directory of backups; created with mode 0700", metavar="DIR", required=True),
            flag("--without-keys", "leave out the key ring, the signing keys and bootstrap.json"),
            _JSON_RESULT,
        ),
    ),
    Command(
        "restore",
        "sluice.cli.backup:run_restore",
        "restores a backup into an empty data directory, or only verifies the backup",
        (
            option(
                "--from",
                "a backup, or a directory of backups, of which the newest is used",
                dest="source",
                metavar="DIR",
                required=True,
            ),
            option("--to", "empty or new data directory; default: --data", metavar="DATA"),
            flag("--check", "only read and verify every file"),
            option(
                "--erasures", "apply the erasures in this file, the output of `sluice erasures export`", metavar="FILE"
            ),
            _JSON_RESULT,
        ),
    ),
    Command(
        "repair",
        "sluice.cli.repair:run",
        "rebuilds trace index, attribute keys and errors of some days from spans and logs",
        (
            option(
                "--from", "first day (UTC), such as 2026-11-20", dest="first", metavar="DAY", type=day, required=True
            ),
            option("--to", "last day (UTC), such as 2026-11-20", dest="last", metavar="DAY", type=day, required=True),
            flag("--dry-run", "show what would change, without changing it"),
        ),
    ),
    *CLIENT_COMMANDS,
)
