"""`sluice proof`: validates, shows, signs and verifies proof bundles, offline, without a server and settings.

A file is a bundle (JSON), an in-toto Statement with a bundle, or a DSSE envelope with either. Exit code 1: the file is
not valid, or not verified. Exit code 2: the file cannot be read, or the command line is wrong.
"""

import argparse
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TextIO

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from chassis.errors import Issue, StartupError
from chassis.http.validation import Issues, decode_json
from proto.proofs import dsse, reading
from proto.proofs.bundle import AiAuthoredChange, ProofBundle, ResourceDescriptor, Statement
from proto.proofs.dsse import Envelope, InvalidEnvelope, InvalidKey, PublicKey
from proto.proofs.primitives import IsoTimestamp
from proto.proofs.reading import KeyValidity, find_distrust, find_faults
from proto.proofs.semantics import Finding, Severity, check_payload
from proto.rfc3339 import parse_rfc3339

PASSWORD_VARIABLE: Final = "PROOF_KEY_PASSWORD"  # noqa: S105  # a name; none with SLUICE_, which are settings
MAX_KEY_BYTES: Final = 64 * 2**10
SHAPES: Final = {
    "bundle": ProofBundle,
    "predicate": AiAuthoredChange,
    "statement": Statement,
    "descriptor": ResourceDescriptor,
}
_SCHEMA_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


class _IssuerKey(msgspec.Struct, rename="camel"):
    """The fields of a published key that are read."""

    key_id: Annotated[str, msgspec.Meta(max_length=dsse.MAX_KEY_ID_LENGTH)]
    public_key: str
    issuer: Annotated[str, msgspec.Meta(max_length=300)] | None = None
    valid_from: IsoTimestamp | None = None
    valid_until: IsoTimestamp | None = None
    revoked_at: IsoTimestamp | None = None

    def validity(self) -> KeyValidity:
        """The times that decide whether the key is accepted. Raises ValueError for a time that does not exist in the
        calendar."""
        texts = (self.valid_from, self.valid_until, self.revoked_at)
        times = [None if text is None else parse_rfc3339(text) for text in texts]
        for text, time in zip(texts, times, strict=True):
            if text is not None and time is None:
                raise ValueError(f"{text} does not exist in the calendar.")
        valid_from, valid_until, revoked_at = times
        return KeyValidity(self.key_id, self.issuer, valid_from, valid_until, revoked_at)


class _KeyList(msgspec.Struct):
    """The response of `GET /orgs/{orgSlug}/proof-issuers`, or a file of the same form."""

    data: list[_IssuerKey]


class _File(NamedTuple):
    """A file that was read. `envelope` None: it is not signed. `bundle` None: `issues` has the reasons."""

    payload: bytes
    payload_type: str
    envelope: Envelope | None
    bundle: ProofBundle | None
    issues: list[Issue]
    findings: Sequence[Finding] = ()


def run(arguments: argparse.Namespace) -> int:
    """Run the action; the exit code. Raises StartupError for a file that cannot be read."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    return _ACTIONS[arguments.action](arguments)


def _validate(arguments: argparse.Namespace) -> int:
    file = _read_file(arguments.file)
    findings = file.findings
    errors = [one for one in findings if one.severity is Severity.ERROR]
    is_valid = not file.issues and not errors and not (arguments.strict and findings)
    if arguments.json:
        found = [
            {"severity": "error", "path": one.path, "message": one.message, "code": one.code} for one in file.issues
        ]
        _print_json({"valid": is_valid, "findings": [*found, *(_as_json(one) for one in findings)]})
        return 0 if is_valid else 1
    for issue in file.issues:
        print(_line(f"error: {issue.path}: {issue.message}"))
    _print_findings(findings, sys.stdout)
    print(_line(f"{arguments.file} is {'valid' if is_valid else 'not valid'}."))
    return 0 if is_valid else 1


def _inspect(arguments: argparse.Namespace) -> int:
    file = _read_file(arguments.file)
    if file.bundle is None:
        return _refuse(arguments.file, file.issues)
    bundle = file.bundle
    if arguments.json:
        _print_json(bundle)
        return 0
    subject, patch = bundle.subject, bundle.subject.patch
    print(
        _line(f"Bundle    {bundle.bundle_id}, issued {bundle.issued_at} by {bundle.issuer.name} ({bundle.issuer.id})")
    )
    print(_line(f"Result    {bundle.verdict.value}, tier {bundle.tier.value}{', billable' if bundle.billable else ''}"))
    print(_line(f"Issue     {subject.issue_short_id}: {subject.title}"))
    print(_line(f"Project   {subject.org_slug}/{subject.project_slug}, run {subject.run_id}"))
    changed = f"{len(patch.files_changed)} files, +{patch.added_lines} -{patch.removed_lines}"
    print(_line(f"Patch     {patch.diff_digest}: {changed}"))
    print(_line(f"Signature {_signature(file.envelope)}"))
    print("Claims")
    for claim in bundle.claims:
        kind = type(claim).__struct_config__.tag
        print(_line(f"  {claim.status.value:<12} {kind:<24} {claim.statement}"))
    return 0


def _sign(arguments: argparse.Namespace) -> int:
    file = _read_file(arguments.file)
    if file.bundle is None:
        return _refuse(arguments.file, file.issues)
    if file.envelope is not None:
        raise StartupError(f"{arguments.file} is already signed.", exit_code=2)
    password = os.environ.get(PASSWORD_VARIABLE)
    try:
        pem = _read_bytes(arguments.key, MAX_KEY_BYTES)
        key = dsse.load_private_key(pem, None if password is None else password.encode())
    except InvalidKey as error:
        raise StartupError(f"{arguments.key}: {error}", exit_code=2) from error
    key_id: str = arguments.key_id or dsse.default_key_id(key.public_key())
    if len(key_id) > dsse.MAX_KEY_ID_LENGTH:
        raise StartupError(f"--key-id must have at most {dsse.MAX_KEY_ID_LENGTH} characters.", exit_code=2)
    if file.bundle.issuer.key_id not in (None, key_id):
        named = _line(f"The bundle names the key {file.bundle.issuer.key_id}, but --key is the key {key_id}.")
        raise StartupError(named, exit_code=2)
    _print_findings(file.findings, sys.stderr)
    envelope = dsse.encode(dsse.sign(file.payload, file.payload_type, key, key_id)) + b"\n"
    if arguments.out is None:
        print(end="", flush=True)
        sys.stdout.write(envelope.decode())
        return 0
    try:
        Path(arguments.out).write_bytes(envelope)
    except OSError as error:
        raise StartupError(f"{arguments.out} cannot be written: {error.strerror}.", exit_code=2) from error
    print(_line(f"Signed {file.bundle.bundle_id} with the key {key_id}: {arguments.out}"))
    return 0


def _create_key(arguments: argparse.Namespace) -> int:
    key = Ed25519PrivateKey.generate()
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    try:
        descriptor = os.open(arguments.out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key.private_bytes(encoding, form, serialization.NoEncryption()))
    except OSError as error:
        raise StartupError(f"{arguments.out} cannot be written: {error.strerror}.", exit_code=2) from error
    print(dsse.public_pem(key.public_key()), end="")
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    at = None if arguments.at is None else parse_rfc3339(arguments.at)
    if arguments.at is not None and at is None:
        raise StartupError(f"{arguments.at} is not a time.", exit_code=2)
    keys = [*_public_keys(arguments.key or []), *(one for name in arguments.keys or [] for one in _published(name))]
    if not keys:
        raise StartupError("Pass a public key in --key, or a file of published keys in --keys.", exit_code=2)
    raw = _read_bytes(arguments.file, reading.MAX_BYTES)
    try:
        envelope = dsse.parse(raw)
    except InvalidEnvelope as error:
        print(_line(f"{arguments.file} is not verified: {error}"))
        return 1
    reasons = []
    for signer in dsse.find_signers(envelope, [(known.key_id, key) for known, key in keys]):
        known = keys[signer][0]
        # Parsed only now, because only a verified payload may be read.
        file = _parse(envelope.payload, envelope.payload_type, envelope)
        if file.bundle is None:
            return _refuse(arguments.file, file.issues)
        reason = find_distrust(known, file.bundle.issuer, file.bundle.issued_at, at)
        if reason is None:
            name = file.bundle.bundle_id
            print(_line(f"{arguments.file} is verified: bundle {name} is signed with the key {known.key_id}."))
            return 0
        reasons.append(reason)
    for reason in reasons or ["none of its signatures was made with one of the given keys."]:
        print(_line(f"{arguments.file} is not verified: {reason}"))
    return 1


def _schema(arguments: argparse.Namespace) -> int:
    _print_json({"$schema": _SCHEMA_DIALECT, **msgspec.json.schema(SHAPES[arguments.shape])})
    return 0


_ACTIONS: Final = {
    "key": _create_key,
    "validate": _validate,
    "inspect": _inspect,
    "sign": _sign,
    "verify": _verify,
    "schema": _schema,
}


def _read_file(name: str) -> _File:
    """A bundle, with its issues. Raises StartupError for a file that cannot be read."""
    raw = _read_bytes(name, reading.MAX_BYTES)
    if not reading.is_envelope(raw):
        payload_type = dsse.STATEMENT_MEDIA_TYPE if _is_statement(raw) else dsse.BUNDLE_TYPE
        return _parse(raw, payload_type, None)
    try:
        envelope = dsse.parse(raw)
    except InvalidEnvelope as error:
        return _File(raw, "", None, None, [Issue("envelope", str(error), "malformed")])
    return _parse(envelope.payload, envelope.payload_type, envelope)


def _parse(payload: bytes, payload_type: str, envelope: Envelope | None) -> _File:
    issues = Issues()
    value: Any = decode_json(reading.payload_shape(payload_type), payload, "bundle", issues)
    if value is None:
        return _File(payload, payload_type, envelope, None, _relative(issues))
    for fault in find_faults(value):
        issues.add(f"bundle{fault.path}", fault.message, fault.code)
    if len(issues):
        return _File(payload, payload_type, envelope, None, _relative(issues))
    return _File(payload, payload_type, envelope, reading.bundle_of(value), [], check_payload(value))


def _relative(issues: Issues) -> list[Issue]:
    """The issues with paths within the payload, as in findings."""
    return [Issue(one.path.removeprefix("bundle."), one.message, one.code) for one in issues]


def _is_statement(raw: bytes) -> bool:
    try:
        return "predicateType" in msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def _public_keys(names: Sequence[str]) -> list[tuple[KeyValidity, PublicKey]]:
    found = []
    for name in names:
        try:
            key = dsse.load_public_key(_read_bytes(name, MAX_KEY_BYTES))
        except InvalidKey as error:
            raise StartupError(f"{name}: {error}", exit_code=2) from error
        found.append((KeyValidity(dsse.default_key_id(key), is_named=False), key))
    return found


def _published(name: str) -> list[tuple[KeyValidity, PublicKey]]:
    raw = _read_bytes(name, reading.MAX_BYTES)
    try:
        known = msgspec.json.decode(raw, type=_KeyList).data
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise StartupError(f"{name} is not a list of published keys: {error}.", exit_code=2) from error
    found = []
    for one in known:
        try:
            found.append((one.validity(), dsse.load_public_key(one.public_key.encode())))
        except ValueError as error:  # also InvalidKey
            raise StartupError(_line(f"{name}: the key {one.key_id}: {error}"), exit_code=2) from error
    return found


def _read_bytes(name: str, most: int) -> bytes:
    """A file, or standard input for `-`. Raises StartupError."""
    try:
        if name == "-":
            raw = sys.stdin.buffer.read(most + 1)
        else:
            with Path(name).open("rb") as file:
                raw = file.read(most + 1)
    except (OSError, ValueError) as error:
        raise StartupError(
            f"{name} cannot be read: {getattr(error, 'strerror', None) or error}.", exit_code=2
        ) from error
    if len(raw) > most:
        raise StartupError(f"{name} is larger than {most} bytes.", exit_code=2)
    return raw


def _print_findings(findings: Sequence[Finding], stream: TextIO) -> None:
    for one in findings:
        print(_line(f"{one.severity.value}: {one.path}: {one.message}"), file=stream)


def _refuse(name: str, issues: Sequence[Issue]) -> int:
    for issue in issues:
        print(_line(f"error: {issue.path}: {issue.message}"), file=sys.stderr)
    print(_line(f"{name} is not a valid proof bundle."), file=sys.stderr)
    return 1


def _signature(envelope: Envelope | None) -> str:
    if envelope is None:
        return "none"
    names = ", ".join(each.keyid or "(no key id)" for each in envelope.signatures)
    return f"by {names}; not checked here: sluice proof verify"


def _as_json(finding: Finding) -> dict[str, str]:
    return {**finding._asdict(), "severity": finding.severity.value}


def _print_json(value: Any) -> None:
    """Print JSON; characters that control a terminal are escaped."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    print("".join(one if one.isprintable() or one == "\n" else _escape(one) for one in text))


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _line(text: str) -> str:
    """Untrusted text on one line, without characters that control a terminal."""
    return "".join(one if one.isprintable() else "\ufffd" for one in text)
