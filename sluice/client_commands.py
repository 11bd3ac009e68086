"""The sub-commands that need no data directory: they call a running Sluice, or work on files."""

from typing import Final

from sluice.options import JSON, ORG, PROJECT, Action, Command, flag, option

_TOKEN_FILE: Final = option(
    "--token-file",
    "file with nothing but the access token, or a file from `sluice init`; default: the variable RELEASE_TOKEN",
    metavar="FILE",
)
_BUNDLE: Final = option("file", "bundle, statement or envelope; -: standard input", metavar="FILE")

CLIENT_COMMANDS: Final = (
    Command(
        "release",
        "sluice.cli.release:run",
        "reports a release with its commits, from a git checkout (docs/releases.md)",
        (
            option("version", "version of the release, such as 1.4.0 or checkout@1.4.0", metavar="VERSION"),
            option("--project", "slug of a project; may be repeated", metavar="SLUG", action="append", required=True),
            option("--org", "the organization; default: `default`", metavar="SLUG", default="default"),
            option("--since", "report commits after this ref; default: the latest tag before --until", metavar="REF"),
            option("--until", "the newest commit to report; default: HEAD", metavar="REF", default="HEAD"),
            option("--directory", "git checkout; default: .", metavar="DIR", default="."),
            option("--repository", "name of the repository; default: the name in its remote `origin`", metavar="NAME"),
            option("--ref", "branch, tag or commit to show for the release; default: the newest commit", metavar="REF"),
            option("--environment", "environment of the release, such as production", metavar="NAME"),
            option("--url", "page about the release, such as the page of its build", metavar="URL"),
            option("--released-at", "time of the release, such as 2026-11-20T15:17:03Z; default: now", metavar="TIME"),
            option("--server", "URL of the control API; default: http://127.0.0.1:4318", metavar="URL"),
            _TOKEN_FILE,
            flag("--dry-run", "only print the report, without sending it"),
        ),
    ),
    Command(
        "sourcemaps",
        "sluice.cli.source_maps:run",
        "uploads the source maps of a build (docs/source-maps.md)",
        actions=(
            Action(
                "upload",
                "upload the source maps of the scripts beneath a directory",
                (
                    option(
                        "directory",
                        "output folder of the build; paths below it must equal the paths in the scripts' URLs",
                        metavar="DIR",
                    ),
                    option("--release", "the release: `service.version` of its telemetry", metavar="R", required=True),
                    ORG,
                    PROJECT,
                    option(
                        "--url-prefix",
                        "where browsers load the folder from, such as /static or https://cdn.example/shop; for scripts "
                        "that run on a server, their folder there, such as /app/dist; default: /",
                        metavar="URL",
                        default="/",
                    ),
                    option("--server", "base URL of the API; default: http://127.0.0.1:4318", metavar="URL"),
                    _TOKEN_FILE,
                    flag("--dry-run", "only print what would be uploaded"),
                ),
            ),
        ),
    ),
    Command(
        "proof",
        "sluice.cli.proof:run",
        "validates, shows, signs or verifies proof bundles, offline (docs/proofs.md)",
        actions=(
            Action(
                "key",
                "create an Ed25519 key; prints the public key",
                (option("--out", "new file for the private key, mode 0600", metavar="FILE", required=True),),
            ),
            Action(
                "validate",
                "check the schema and the rules of a bundle; exit code 1 if it is not valid",
                (flag("--strict", "a bundle with warnings is not valid"), _BUNDLE, JSON),
            ),
            Action("inspect", "show a bundle; signatures are not checked", (_BUNDLE, JSON)),
            Action(
                "sign",
                "sign a bundle; writes a DSSE envelope to standard output or --out",
                (
                    option(
                        "--key",
                        "private key (Ed25519 or ECDSA P-256) in PEM (PKCS #8); the variable for its password: "
                        "PROOF_KEY_PASSWORD",
                        metavar="FILE",
                        required=True,
                    ),
                    option("--key-id", "name of the key; default: the digest of its public key", metavar="ID"),
                    option("--out", "file to write", metavar="FILE"),
                    _BUNDLE,
                ),
            ),
            Action(
                "verify",
                "verify a signed bundle; exit code 1 if it is not verified",
                (
                    option("--key", "public key in PEM; may be repeated", metavar="FILE", action="append"),
                    option(
                        "--keys",
                        "file of published keys with their validity, as in the response of the API; may be repeated",
                        metavar="FILE",
                        action="append",
                    ),
                    option("--at", "keys must be valid at this time; default: the time of the bundle", metavar="TIME"),
                    _BUNDLE,
                ),
            ),
            Action(
                "schema",
                "print a JSON Schema",
                (
                    option(
                        "shape",
                        "default: bundle",
                        nargs="?",
                        choices=("bundle", "predicate", "statement", "descriptor"),
                        default="bundle",
                    ),
                ),
            ),
        ),
    ),
    Command(
        "send",
        "sluice.cli.send:run",
        "exports a small trace and a log record through the OpenTelemetry SDK",
        (
            option("--file", "credentials file; default: DATA/bootstrap.json", metavar="FILE"),
            option("--url", "URL to send to; default: the URL of the running `sluice up`", metavar="URL"),
            option("--query-url", "URL of the query service, if it runs separately; default: --url", metavar="URL"),
            flag("--traffic", "also send an hour of a shop's traffic, with slow requests to investigate"),
        ),
    ),
)
