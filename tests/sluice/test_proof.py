"""`sluice proof`, and the shell lines of docs/proofs.md as they are printed."""

import json
import shlex
import stat
import subprocess
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from proto.proofs import dsse
from sluice.main import main
from tests.control.approvals.proofs.made import statement
from tests.proto.proofs import shapes

from .conftest import ROOT, Start, clean_environment, command

BUNDLE: dict[str, Any] = shapes.example(shapes.LEDGER) | {"tier": "A", "verdict": "PASSED"}


def write(path: Path, value: Any) -> str:
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return str(path)


@pytest.fixture
def bundle(tmp_path: Path) -> str:
    return write(tmp_path / "bundle.json", BUNDLE | {"issuer": BUNDLE["issuer"] | {"keyId": None}})


@pytest.fixture
def signed(tmp_path: Path, bundle: str, capsys: pytest.CaptureFixture[str]) -> Path:
    """The directory with the public key and the envelope."""
    assert main(["proof", "key", "--out", str(tmp_path / "key")]) == 0
    write(tmp_path / "pub", capsys.readouterr().out)
    assert main(["proof", "sign", bundle, "--key", str(tmp_path / "key"), "--out", str(tmp_path / "signed")]) == 0
    return tmp_path


def test_the_page_can_be_followed(start: Start, tmp_path: Path) -> None:
    """From the bundle to the verification with the published key."""
    up = start("up", data=tmp_path / "data")
    text = (ROOT / "docs/proofs.md").read_text(encoding="utf-8")
    lines = "\n".join(line[4:] for line in text.split("\n") if line.startswith("    ") or not line)
    ours = f"token={up.credentials()['accessToken']} sluice={up.url}"
    script = f'set -euo pipefail\nsluice() {{ {shlex.join(command())} "$@"; }}\n{ours}\n{lines}'
    environment = clean_environment()
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "bundle.json is valid." in done.stdout
    assert "SUPPORTED    suite_green" in done.stdout
    assert done.stdout.count("is verified: bundle run-17.1 is signed with the key sha256:") == 2
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]
    key, validated, stored, page, shown = (one for one in answers if "$schema" not in one)
    assert key["status"] == "ACTIVE"
    assert (validated["valid"], validated["errors"]) == (True, [])
    assert [one["path"] for one in validated["warnings"]] == ["subject"]
    assert stored["signature"] == validated["signature"]
    assert stored["signature"]["verified"] is True
    assert [one["bundleId"] for one in page["data"]] == ["run-17.1"]
    assert shown["bundle"] == json.loads((tmp_path / "bundle.json").read_text())


def test_validate(tmp_path: Path, bundle: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["proof", "validate", bundle]) == 0
    assert capsys.readouterr().out == f"{bundle} is valid.\n"
    warned = write(tmp_path / "warned", BUNDLE | {"claims": []})
    assert main(["proof", "validate", warned]) == 0
    assert main(["proof", "validate", warned, "--strict"]) == 1
    assert "warning: claims: A bundle that PASSED has no claims." in capsys.readouterr().out
    wrong = write(tmp_path / "wrong", BUNDLE | {"tier": "D", "more": 1})
    assert main(["proof", "validate", wrong, "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["valid"] is False
    assert {(one["severity"], one["path"]) for one in answer["findings"]} >= {("error", "tier")}
    twice = write(tmp_path / "twice", json.dumps(BUNDLE)[:-1] + ', "tier": "A"}')
    assert main(["proof", "validate", twice]) == 1
    assert "error: tier: The object has this key more than once. Keep one." in capsys.readouterr().out


def test_statements_and_claims_are_looked_at_as_the_server_does(
    tmp_path: Path, signed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = statement(BUNDLE | {"claims": []})
    wrong["predicate"]["verification"] |= {"tier": "C"}
    assert main(["proof", "validate", write(tmp_path / "statement", wrong)]) == 1
    assert "error: predicate.verification.tier: Differs from tier of the bundle." in capsys.readouterr().out
    claim = shapes.example(shapes.claim("model_attribution"))
    twice = write(tmp_path / "claims", BUNDLE | {"claims": [claim, claim]})
    assert main(["proof", "validate", twice]) == 1
    assert "claims[1].claimId: An earlier claim has this id." in capsys.readouterr().out
    assert main(["proof", "sign", twice, "--key", str(signed / "key")]) == 1
    deep = statement(BUNDLE)
    deep["subject"][0]["annotations"] = {"a": json.loads("[" * 32 + "]" * 32)}
    capsys.readouterr()
    assert main(["proof", "validate", write(tmp_path / "deep", deep)]) == 1
    assert "error: subject[0].annotations: Must be nested at most 32 levels deep." in capsys.readouterr().out
    deep["subject"][0]["annotations"] = {"a": json.loads("[" * 31 + "]" * 31)}
    assert main(["proof", "validate", write(tmp_path / "less deep", deep)]) == 0


def test_what_is_signed_is_looked_at(tmp_path: Path, signed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = write(tmp_path / "empty", BUNDLE | {"claims": [], "issuer": BUNDLE["issuer"] | {"keyId": None}})
    assert main(["proof", "sign", empty, "--key", str(signed / "key"), "--out", str(tmp_path / "out")]) == 0
    assert "warning: claims: A bundle that PASSED has no claims." in capsys.readouterr().err


def test_a_key_has_the_id_that_its_owner_gives_it(signed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = write(signed / "named", BUNDLE | {"issuer": BUNDLE["issuer"] | {"keyId": "2026"}})
    out = str(signed / "out")
    assert main(["proof", "sign", named, "--key", str(signed / "key"), "--key-id", "2026", "--out", out]) == 0
    assert main(["proof", "verify", out, "--key", str(signed / "pub")]) == 0
    published = {"data": [{"keyId": "2025", "publicKey": (signed / "pub").read_text()}]}
    assert main(["proof", "verify", out, "--keys", write(signed / "keys", published)]) == 1
    assert "the bundle names the key 2026, not 2025." in capsys.readouterr().out


def test_inspect(bundle: str, signed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["proof", "inspect", bundle]) == 0
    assert "Signature none\n" in capsys.readouterr().out
    assert main(["proof", "inspect", str(signed / "signed")]) == 0
    shown = capsys.readouterr().out
    assert "Bundle    b-1, issued 2026-11-20T15:17:03Z" in shown
    assert "not checked here" in shown
    assert main(["proof", "inspect", "--json", str(signed / "signed")]) == 0
    assert json.loads(capsys.readouterr().out)["bundleId"] == "b-1"
    hostile = write(
        signed / "hostile", BUNDLE | {"bundleId": "b", "subject": BUNDLE["subject"] | {"title": "\x1b[2J\n"}}
    )
    assert main(["proof", "inspect", hostile]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_nothing_of_a_stranger_controls_the_terminal(
    bundle: str, signed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    title, key_id = "\x9b2J\x7f\u202e\U000e0001é", "\x1b[2J\u202e"
    issuer, subject = BUNDLE["issuer"] | {"keyId": key_id}, BUNDLE["subject"] | {"title": title}
    hostile = write(signed / "hostile", BUNDLE | {"issuer": issuer, "subject": subject})
    capsys.readouterr()
    assert main(["proof", "inspect", hostile, "--json"]) == 0
    shown = capsys.readouterr().out
    assert json.loads(shown)["subject"]["title"] == title
    assert "é" in shown
    assert main(["proof", "sign", hostile, "--key", str(signed / "key"), "--out", str(signed / "no")]) == 2
    shown += capsys.readouterr().err
    assert not [one for one in shown if not one.isprintable() and one != "\n"]


def test_sign_and_verify(bundle: str, signed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert stat.S_IMODE((signed / "key").stat().st_mode) == 0o600
    assert main(["proof", "verify", str(signed / "signed"), "--key", str(signed / "pub")]) == 0
    assert "is verified: bundle b-1" in capsys.readouterr().out
    assert main(["proof", "sign", bundle, "--key", str(signed / "key")]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((signed / "signed").read_text())  # Ed25519 has no chance

    other = dsse.public_pem(Ed25519PrivateKey.generate().public_key())
    assert main(["proof", "verify", str(signed / "signed"), "--key", write(signed / "other", other)]) == 1
    assert "none of its signatures was made with one of the given keys" in capsys.readouterr().out
    for unsigned in (bundle, write(signed / "empty", "")):
        assert main(["proof", "verify", unsigned, "--key", str(signed / "pub")]) == 1
        assert "is not verified: Is not a DSSE envelope" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("key", "arguments", "reason"),
    [
        ({}, [], None),
        ({"validFrom": "2026-11-20T15:17:03Z", "validUntil": "2026-11-20T15:17:03.001Z"}, [], None),
        ({"validFrom": "2026-11-20T15:17:04Z"}, [], "is valid from 2026-11-20T15:17:04Z, not at"),
        ({"validUntil": "2026-11-20T15:17:03Z"}, [], "is valid until 2026-11-20T15:17:03Z, not at"),
        ({"validUntil": "2026-11-20T15:17:03Z"}, ["--at", "2026-11-19T00:00:00Z"], None),
        ({"issuer": "x"}, [], None),
        ({"issuer": "https://ci.example.com"}, [], "belongs to the issuer https://ci.example.com, not to x."),
        ({"revokedAt": "2027-01-01T00:00:00Z"}, [], "was revoked at 2027-01-01T00:00:00Z"),
    ],
)
def test_published_keys(
    signed: Path, capsys: pytest.CaptureFixture[str], key: dict[str, str], arguments: list[str], reason: str | None
) -> None:
    published = {"data": [{"keyId": "k", "publicKey": (signed / "pub").read_text(), "name": "CI", **key}]}
    options = ["--keys", write(signed / "keys", published), *arguments]
    assert main(["proof", "verify", str(signed / "signed"), *options]) == (0 if reason is None else 1)
    assert (reason or "is verified") in capsys.readouterr().out


def test_a_key_with_a_password(
    bundle: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    pem = Ed25519PrivateKey.generate().private_bytes(*form, serialization.BestAvailableEncryption(b"pass"))
    key = write(tmp_path / "key", pem.decode())
    assert main(["proof", "sign", bundle, "--key", key]) == 2
    assert "its password is wrong" in capsys.readouterr().err
    monkeypatch.setenv("PROOF_KEY_PASSWORD", "pass")
    assert main(["proof", "sign", bundle, "--key", key]) == 0


def test_what_cannot_be_done_is_one_sentence_and_2(
    bundle: str, signed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    public = (signed / "pub").read_text()
    until = {"keyId": "k", "publicKey": public, "validUntil": "2026-02-30T00:00:00Z"}
    impossible = write(signed / "impossible", {"data": [until]})
    named = write(signed / "named", BUNDLE | {"issuer": BUNDLE["issuer"] | {"keyId": "other"}})
    for arguments, message in (
        (["validate", str(signed / "missing")], "cannot be read: No such file or directory."),
        (["validate", write(signed / "large", " " * (4 * 2**20 + 1))], "is larger than 4194304 bytes."),
        (["sign", str(signed / "signed"), "--key", str(signed / "key")], "is already signed."),
        (["sign", bundle, "--key", str(signed / "pub")], "Is not a private key in PEM"),
        (["sign", named, "--key", str(signed / "key")], "The bundle names the key other, but --key is the key sha256:"),
        (["key", "--out", str(signed / "key")], "cannot be written: File exists."),
        (
            ["verify", str(signed / "signed")],
            "Pass a public key in --key, or a file of published keys in --keys.",
        ),
        (["verify", str(signed / "signed"), "--key", str(signed / "key")], "Is a private key, which must stay secret"),
        (["verify", str(signed / "signed"), "--key", bundle], "Is not a public key in PEM"),
        (["verify", str(signed / "signed"), "--keys", bundle], "is not a list of published keys"),
        (
            ["verify", str(signed / "signed"), "--keys", impossible],
            "2026-02-30T00:00:00Z does not exist in the cal",
        ),
        (["verify", str(signed / "signed"), "--at", "yesterday"], "yesterday is not a time."),
    ):
        assert main(["proof", *arguments]) == 2
        shown = capsys.readouterr().err
        assert message in shown
        assert shown.count("\n") == 1
    assert main(["proof", "sign", write(signed / "wrong", {}), "--key", str(signed / "key")]) == 1


@pytest.mark.parametrize(
    ("shape", "value", "wrong"),
    [
        ("bundle", BUNDLE, BUNDLE | {"tier": "D"}),
        ("predicate", shapes.example(shapes.PREDICATE), {}),
        ("descriptor", {"digest": {"sha256": "0" * 64}}, {"digest": {"sha256": "0"}}),
        ("statement", None, {}),
    ],
)
def test_schemas_are_json_schema(shape: str, value: Any, wrong: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["proof", "schema", shape]) == 0
    schema = jsonschema_rs.validator_for(json.loads(capsys.readouterr().out))
    assert value is None or schema.is_valid(value)
    assert not schema.is_valid(wrong)
