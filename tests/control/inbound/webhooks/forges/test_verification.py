"""What is signed counts, and nothing else."""

import base64
from random import Random
from typing import Any

import pytest
import sqlalchemy as sa

from control.inbound.integrations.tables import IntegrationKind, inbound_deliveries
from control.issues.releases.tables import commits, proposals
from tests.control.inbound.webhooks.forges import payloads
from tests.control.inbound.webhooks.forges.sending import SECRET, SIGNERS, Scm, encoded, hex_of, result, standard
from tests.selection import scaled

PING: dict[str, Any] = {"zen": "Keep it simple"}
NAMES = {
    IntegrationKind.GITHUB: "star",
    IntegrationKind.GITLAB: "Wiki Page Hook",
    IntegrationKind.BITBUCKET: "repo:fork",
    IntegrationKind.GITEA: "wiki",
    IntegrationKind.FORGEJO: "wiki",
}


def with_bit_changed(text: bytes, bit: int) -> bytes:
    return text[: bit // 8] + bytes((text[bit // 8] ^ 1 << bit % 8,)) + text[bit // 8 + 1 :]


def printable(raw: bytes) -> bool:
    return all(0x21 <= byte <= 0x7E for byte in raw)


@pytest.mark.sized
async def test_every_changed_bit_is_refused(scm: Scm) -> None:
    """Of the body, and of what signs it; a sample of them."""
    for kind, signer in SIGNERS.items():
        integration, body, random = await scm.integrate(kind), encoded(PING), Random(kind.value)
        signed = signer(body, SECRET)
        for bit in random.sample(range(8 * len(body)), scaled(3, 100)):
            altered = with_bit_changed(body, bit)
            assert (await scm.send(integration, NAMES[kind], altered, headers=signed))[0] == 401
        for name, value in signed.items():
            for bit in random.sample(range(8 * len(value)), scaled(3, 100)):
                other = with_bit_changed(value.encode(), bit)
                if printable(other):
                    headers = signed | {name: other.decode()}
                    assert (await scm.send(integration, NAMES[kind], body, headers=headers))[0] == 401, (name, other)
        assert (await scm.send(integration, NAMES[kind], body, headers=signed))[1] == result(NAMES[kind])


async def test_a_signature_counts_in_its_own_header_only(scm: Scm) -> None:
    body = encoded(PING)
    good, bad = hex_of(body), hex_of(b"other")
    for kind, headers, status in (
        (IntegrationKind.GITHUB, {}, 401),
        (IntegrationKind.GITHUB, {"X-Hub-Signature": f"sha256={good}"}, 401),
        (IntegrationKind.GITHUB, {"X-Hub-Signature-256": good}, 401),
        (IntegrationKind.BITBUCKET, {"X-Hub-Signature-256": f"sha256={good}"}, 401),
        (IntegrationKind.GITEA, {"X-Gitea-Signature": f"sha256={good}"}, 401),
        (IntegrationKind.GITEA, {"X-Forgejo-Signature": good}, 401),
        (IntegrationKind.GITEA, {"X-Forgejo-Signature": bad, "X-Gitea-Signature": good}, 200),
        (IntegrationKind.FORGEJO, {"X-Gitea-Signature": good}, 200),
        (IntegrationKind.FORGEJO, {"X-Forgejo-Signature": bad, "X-Gitea-Signature": good}, 401),
        (IntegrationKind.FORGEJO, {"X-Forgejo-Signature": "", "X-Gitea-Signature": good}, 401),
    ):
        integration = await scm.integrate(kind)
        assert (await scm.send(integration, NAMES[kind], body, headers=headers))[0] == status, (kind, headers)


async def test_tokens_of_gitlab(scm: Scm) -> None:
    """The secret token signs nothing: it counts where the integration allows it, and never beside a signature."""
    key = "whsec_" + base64.b64encode(b"k" * 32).decode()
    strict, lenient = (
        await scm.integrate(IntegrationKind.GITLAB),
        await scm.integrate(IntegrationKind.GITLAB, allow_plain_token=True),
    )
    decoded = await scm.integrate(IntegrationKind.GITLAB, secret=key)
    body, event = encoded(PING), "Wiki Page Hook"
    token = {"X-Gitlab-Token": SECRET}
    for integration, headers, status in (
        (strict, token, 401),
        (lenient, token, 200),
        (lenient, {"X-Gitlab-Token": "x"}, 401),
        (lenient, token | standard(body, "another"), 401),
        (lenient, token | {"webhook-signature": ""}, 401),
        (lenient, token | {"webhook-timestamp": "1"}, 401),
        (strict, standard(body, at=0), 401),
        (strict, standard(body, SECRET) | {"webhook-id": "another"}, 401),
        (decoded, standard(body, "k" * 32), 200),
        (decoded, standard(body, key), 200),
        (decoded, standard(body, "whsec_" + base64.b64encode(key.encode()).decode()), 401),
    ):
        assert (await scm.send(integration, event, body, headers=headers))[0] == status, headers
    for number in range(2):  # the same id is the same delivery, whatever it says
        push = encoded(payloads.gitlab_push(number, f"f{number}", "x"))
        answer = await scm.send(strict, "Push Hook", push, headers=standard(push, message_id="one"))
        assert answer[:2] == (200, result("Push Hook", commitsUpserted=1))
    keys = await scm.rows(
        sa.select(inbound_deliveries.c.delivery_key).where(inbound_deliveries.c.integration_id == strict.id)
    )
    assert [row.delivery_key for row in keys] == ["one"]


async def test_a_body_under_the_name_of_another_event_is_refused(scm: Scm) -> None:
    """And it stays to be applied under its own."""
    push, pull = (
        payloads.github_push(1, payloads.github_commit("f1", "x")),
        payloads.gitea_pull_request(1, "opened", 1, ""),
    )
    cases: list[tuple[IntegrationKind, str, dict[str, Any], list[str]]] = [
        (IntegrationKind.GITHUB, "push", push, ["ping", "star", "pull_request", "issues", "release", "meta"]),
        (IntegrationKind.GITHUB, "release", payloads.github_release(1, "1"), ["push", "ping"]),
        (IntegrationKind.GITHUB, "star", {"action": "created"}, ["push", "deployment_status", "meta"]),
        (IntegrationKind.GITLAB, "Push Hook", payloads.gitlab_push(1, "f2", "x"), ["Issue Hook", "Job Hook"]),
        (IntegrationKind.GITLAB, "Job Hook", {"object_kind": "build"}, ["Push Hook", "Release Hook"]),
        (IntegrationKind.BITBUCKET, "repo:push", payloads.bitbucket_push(1, "f3", "x"),
         ["repo:fork", "repo:refs_changed", "pullrequest:created"]),
        (IntegrationKind.BITBUCKET, "repo:refs_changed", payloads.data_center_push(1, "f4", "x"),
         ["repo:push", "pr:x"]),
        (IntegrationKind.GITEA, "pull_request", pull, ["push", "issues", "wiki"]),
    ]  # fmt: skip
    for kind, event, body, others in cases:
        integration = await scm.integrate(kind)
        for other in others:
            status, answer, _ = await scm.send(integration, other, body)
            assert (status, answer["error"]["code"]) == (400, "bad_request"), (kind, event, other)
        counts = await scm.rows(sa.select(sa.func.count()).select_from(commits))
        await scm.accepted(integration, event, body)
        assert event not in ("push", "Push Hook", "repo:push") or (
            await scm.rows(sa.select(sa.func.count()).select_from(commits)) != counts
        )
    for name in ("", "x" * 101, "p\tush", "<b>"):
        assert (await scm.send(await scm.integrate(IntegrationKind.GITHUB), name, PING))[0] == 400


@pytest.mark.both_stores
async def test_no_signed_body_is_an_error_of_ours(scm: Scm) -> None:
    """It is refused, or cleaned: never a 500, and nothing of it is quoted."""
    integration = await scm.integrate(IntegrationKind.GITHUB)
    commit, huge = payloads.github_commit("f1", "x"), 10**400
    push = payloads.github_push(1, commit)
    text = encoded(push)
    canary = "canary-of-the-body"
    pull = payloads.github_pull_request(1, "opened", 1, "x")
    refused: list[tuple[str, object]] = [
        *(("push", raw) for raw in (b"", b"[]", b"null", b"{", b'{"ref"', b"\xff\xfe", b"payload=%7B%7D", b'"x"')),
        ("push", b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}"),
        ("push", text.replace(b'"Ada"', b'"\\ud800"')),
        ("push", text.replace(b'"ref":"refs/heads/main"', b'"ref":["canary-of-the-body"]')),
        ("push", push | {"commits": {canary: 1}}),
        ("push", push | {"commits": [commit | {"id": canary}]}),
        ("push", push | {"commits": [commit | {"id": "a" * 100_000}]}),
        ("push", push | {"repository": {"full_name": "x" * 201}}),
        ("push", push | {"repository": {"full_name": "a b"}}),
        ("push", push | {"repository": {"full_name": "a\x00b"}}),
        ("pull_request", pull | {"pull_request": pull["pull_request"] | {"number": -1}}),
        ("pull_request", encoded(pull).replace(b'"number":1', b'"number":' + str(huge).encode())),
        ("pull_request", pull | {"pull_request": pull["pull_request"] | {"updated_at": canary}}),
        ("release", payloads.github_release(1, "x" * 201)),
        ("release", payloads.github_release(1, " \n")),
        ("deployment_status", payloads.github_deployment(1, 1) | {"deployment": None}),
    ]
    for event, body in refused:
        status, answer, _ = await scm.send(integration, event, body)
        assert (status, answer["error"]["code"]) == (400, "bad_request"), (event, encoded(body)[:200])
        assert canary not in str(answer)
    odd = "\x00\u202e\u2028\x1b \U0001f98a" * 200
    long = "x" * 100_000
    authors = [{"name": text, "email": text} for text in (odd, long, "", None)]
    cleaned: list[tuple[str, object]] = [
        *(("push", payloads.github_push(
            2, payloads.github_commit(
                f"a{number}", text, author=author, url=text, added=[text, "a/b"], timestamp=text)))
          for number, (author, text) in enumerate(zip(authors, (odd, long, "", "\x00"), strict=True))),
        *(("pull_request", payloads.github_pull_request(
            3, "opened", number, text,
            title=text, html_url=text, user={"login": text}, head={"ref": text, "sha": text}))
          for number, text in enumerate((odd, long, "", "\x00"))),
        ("pull_request", payloads.github_pull_request(9**6, "opened", 9, None)),
        ("issues", payloads.github_issue(1, "closed", 2**62, "closed", odd)),
        ("release", payloads.github_release(9**6, "2.0") | {"x": [{}] * 1_000}),
        ("deployment_status", payloads.github_deployment(-(9**5), 2**62)),
        ("push", text.replace(b'"ref"', b'"ref":"refs/heads/x","ref"')),
        ("push", push | {"commits": [payloads.github_commit(f"{number:07x}", "x") for number in range(3_000)]}),
        ("push", payloads.github_push(4, payloads.github_commit(
            "abc", "x", added=[f"f{number}" for number in range(2_000)]))),
    ]  # fmt: skip
    for event, body in cleaned:
        status, answer, _ = await scm.send(integration, event, body)
        assert status == 200, (event, answer, encoded(body)[:200])
    assert (await scm.rows(sa.select(sa.func.max(proposals.c.changed_at))))[0][0] < payloads.at(24 * 60)
    stored = (await scm.rows(sa.select(commits).where(commits.c.sha == payloads.full_sha("abc"))))[0]
    assert (len(stored.files), stored.files_truncated) == (1_000, True)
    count = await scm.rows(sa.select(sa.func.count()).where(commits.c.message == "x", commits.c.sha != stored.sha))
    assert count[0][0] == 2_048 + 1
