"""What is taken away while a request's body is on its way does not count any more when the body is there."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

import control
from chassis.auth.tables import access_tokens
from control.identity.organizations import organization_store
from proto.identity import Role
from proto.proofs import dsse
from tests.chassis.auth.tenants import new_member_token
from tests.control.approvals.proofs.made import KEY, bundle
from tests.control.conftest import Control

# A change of each kind that a member with all scopes of an administrator may make.
CHANGES: Final[dict[str, tuple[str, str, object]]] = {
    "token": ("POST", "/orgs/acme/tokens", {"name": "another"}),
    "project": ("POST", "/orgs/acme/projects", {"slug": "fresh", "name": "Fresh"}),
    "key": ("POST", "/orgs/acme/projects/web/keys", {"name": "another"}),
    "invitation": ("POST", "/orgs/acme/invitations", {"email": "x@example.org", "role": "MEMBER"}),
    "principal": ("POST", "/orgs/acme/principals", {"kind": "agent", "name": "helper", "role": "MEMBER"}),
    "policy": (
        "POST",
        "/orgs/acme/approval-policies",
        {"name": "p", "actionPattern": "a.b", "effect": "DENY", "riskClass": "HIGH"},
    ),
    "channel": (
        "POST",
        "/orgs/acme/projects/web/notification-channels",
        {"name": "c", "kind": "email", "config": {"to": ["ops@example.org"]}},
    ),
    "erasure": ("POST", "/orgs/acme/projects/web/erasures", {"to": "2026-01-01T00:00:00Z"}),
    "release": ("POST", "/orgs/acme/releases", {"version": "1.0.0", "projects": ["web"]}),
    "change": ("POST", "/orgs/acme/changes", {"kind": "generic", "title": "x"}),
    "proposal": (
        "PUT",
        "/orgs/acme/proposals",
        {"repository": "shop/web", "number": "1", "title": "x", "state": "open"},
    ),
    "integration": ("POST", "/orgs/acme/integrations", {"kind": "generic", "name": "x"}),
    "view": ("POST", "/orgs/acme/projects/web/views", {"name": "x", "path": "/ui/"}),
    "proof": ("POST", "/orgs/acme/projects/web/proof-bundles", bundle()),
    "issuer key": (
        "POST",
        "/orgs/acme/proof-issuers",
        {"issuer": "x", "name": "x", "publicKey": dsse.public_pem(KEY.public_key())},
    ),
    "question": (
        "POST",
        "/orgs/acme/approval-requests",
        {"action": "deploy.production", "targetType": "service", "targetId": "checkout"},
    ),
}


# What opens a write transaction itself: anonymous requests, which have no rights to lose, and background work.
BY_THEMSELVES: Final = {
    "control/approvals/notifications.py",
    "control/audit/erasing.py",
    "control/export/exporter.py",
    "control/export/streams/rollups.py",
    "control/export/task.py",
    "control/governance/billing/api.py",
    "control/governance/erasures/housekeeping.py",
    "control/governance/erasures/purge.py",
    "control/http/context.py",
    "control/identity/login/acceptance.py",
    "control/identity/login/api.py",
    "control/identity/login/authentication.py",
    "control/identity/login/credentials.py",
    "control/identity/organizations/bootstrap.py",
    "control/identity/scim/tokens.py",
    "control/identity/sso/login/completion.py",
    "control/identity/sso/login/handoff.py",
    "control/identity/sso/login/responses.py",
    "control/identity/sso/login/start.py",
    "control/identity/sso/routes.py",
    "control/inbound/chat/actor.py",
    "control/inbound/chat/update_queue.py",
    "control/inbound/webhooks/inbox.py",
    "control/inbound/webhooks/task.py",
    "control/issues/counting/follower.py",
    "control/issues/counting/task.py",
    "control/notify/deliveries/sender.py",
    "control/notify/deliveries/worker.py",
    "control/secrets/keyring.py",
}


def test_every_change_uses_the_handler_context() -> None:
    root = Path(control.__file__).parent
    found = {
        f"control/{path.relative_to(root)}" for path in root.rglob("*.py") if "atabase.write()" in path.read_text()
    }
    assert found == BY_THEMSELVES


async def sent_slowly(
    control: Control, token: str, change: tuple[str, str, object], meanwhile: Callable[[], Awaitable[None]]
) -> int:
    """The status of a request whose last byte is sent after `meanwhile`."""
    method, path, body = change
    raw = msgspec.json.encode(body)
    begun = asyncio.Event()

    async def trickle() -> AsyncIterator[bytes]:
        yield raw[:-1]
        begun.set()
        await asyncio.sleep(0.1)  # the head is checked by now
        await meanwhile()
        yield raw[-1:]

    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    async with control.client.request(method, path, data=trickle(), headers=headers) as answer:
        await answer.read()
        return answer.status


async def nothing() -> None:
    """Nothing is taken away."""


async def test_slow_body_is_accepted(control: Control) -> None:
    _, token = await new_member_token(control.checks.database, control.acme, Role.ADMIN)
    for name, change in CHANGES.items():
        assert await sent_slowly(control, token, change, nothing) in {200, 201, 202}, name


async def statuses(control: Control, take_away: Callable[[str], Awaitable[None]]) -> dict[str, int]:
    """What each change is answered when something is taken away meanwhile from the one who asks: a member each."""
    answered = {}
    for name, change in CHANGES.items():
        holder, token = await new_member_token(control.checks.database, control.acme, Role.ADMIN)
        answered[name] = await sent_slowly(control, token, change, partial(take_away, holder))
    return answered


async def test_token_revoked_during_the_request_changes_nothing(control: Control) -> None:
    """By another process, of which this one has not heard."""

    async def revoke(holder: str) -> None:
        of_holder = access_tokens.c.principal_id == holder
        await control.execute(access_tokens.update().where(of_holder).values(revoked_at=datetime.now(UTC)))

    assert await statuses(control, revoke) == dict.fromkeys(CHANGES, 401)


async def test_token_of_a_demoted_holder_changes_nothing(control: Control) -> None:
    async def demote(holder: str) -> None:
        async with control.checks.database.write() as connection:
            await organization_store.set_role(connection, control.acme.organization.id, holder, Role.BILLING)

    assert await statuses(control, demote) == dict.fromkeys(CHANGES, 403)


async def test_token_of_a_removed_member_changes_nothing(control: Control) -> None:
    async def remove(holder: str) -> None:
        async with control.checks.database.write() as connection:
            await organization_store.remove_membership(connection, control.acme.organization.id, holder)

    assert await statuses(control, remove) == dict.fromkeys(CHANGES, 404)
