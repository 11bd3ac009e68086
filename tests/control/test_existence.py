"""What is of another organization and what is nowhere look the same: to everybody, on every route, byte for byte."""

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec
import pytest
from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from yarl import URL

from chassis.auth.jwt import JwtSigner, publish_key
from chassis.auth.tables import delegations, new_id, users
from chassis.runtime.key_file import load_or_create_key
from control.identity import chat_links as link_repository
from control.identity.chat_links import ChatPlatform, ChatUser, StoredChatLink
from control.identity.organizations import organization_store
from control.identity.sso import connection_store, identities
from control.identity.sso.tables import Protocol
from control.identity.users import session_store
from control.settings import ControlSettings
from proto.identity import PrincipalKind, Role, Scope
from tests.chassis.auth.tenants import Tenant, new_member_token
from tests.control.approvals.proofs.made import bundle as new_bundle
from tests.control.approvals.proofs.made import register, submit
from tests.control.code.source_maps.uploaded import document
from tests.control.conftest import Control, serving
from tests.control.inbound.webhooks.trackers.sent import new_integration, send
from tests.control.issues.releases.stored import new_issue
from tests.selection import scaled

VARIES = {"date", "x-request-id", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"}
BODIES: Final[tuple[object, ...]] = (
    None,
    {},
    [],
    {"name": "x"},
    {"role": "MEMBER"},
    {"reason": "No."},
    {"enabled": False},
    {"scopes": ["explore:read"], "name": "x"},
)
IDS: Final = {
    "keyId": "key",
    "principalId": "prn",
    "tokenId": "tok",
    "invitationId": "inv",
    "policyId": "pol",
    "requestId": "apr",
    "viewId": "viw",
    "channelId": "chn",
    "deliveryId": "dlv",
    "erasureId": "ers",
    "domainId": "dom",
    "identityId": "ssi",
    "scimTokenId": "sct",
    "releaseId": "rel",
    "issueId": "iss",
    "changeId": "chg",
    "linkId": "lnk",
    "chatLinkId": "chl",
    "integrationId": "int",
    "sinkId": "snk",
    "inboundDeliveryId": "ind",
    "issuerKeyId": "pik",
    "bundleId": "prf",
    "sourceMapId": "smp",
}
OF_PROJECTS: Final = ("channelId", "erasureId", "linkId", "viewId", "sourceMapId")
NOWHERE: Final = {name: f"{prefix}_{'0' * 26}" for name, prefix in IDS.items()}


def routes(control: Control) -> list[tuple[str, str]]:
    """Method and path of every route below an organization."""
    app: web.Application = control.client.app
    found = {
        (route.method, route.resource.canonical)
        for route in app.router.routes()
        if route.resource is not None and route.resource.canonical.startswith("/orgs/{orgSlug}")
    }
    return sorted((method, path) for method, path in found if method != "*")


async def everything_of(control: Control, tenant: Tenant) -> dict[str, str]:
    """An id of each kind of thing in the tenant's organization, some of which are made for it."""
    org, token = tenant.organization.slug, tenant.token.secret
    email = {"kind": "email", "name": "x", "config": {"to": ["a@example.org"]}}
    request = {"action": "deploy.production", "targetType": "service", "targetId": "x"} | {
        "notify": True,
        "projectTag": "web",
    }
    policy = {"name": "x", "actionPattern": "deploy.*", "effect": "ASK", "riskClass": "HIGH"}
    issue_id = await new_issue(control, 1, tenant)
    made = {"issueId": issue_id, "keyId": tenant.key.key.id, "principalId": tenant.owner_id, "tokenId": tenant.token.id}
    for name, path, body in (
        ("channelId", "notification-channels", email),
        ("policyId", "approval-policies", policy),
        ("requestId", "approval-requests", request),
        ("invitationId", "invitations", {"email": "a@example.org", "role": "VIEWER"}),
        ("erasureId", "erasures", {"to": "2026-11-20T00:00:00Z"}),
        ("domainId", "sso/domains", {"domain": f"{org}.example.com"}),
        ("scimTokenId", "scim-tokens", {"name": "x"}),
        ("releaseId", "releases", {"version": "1.0.0", "projects": ["web"]}),
        ("linkId", f"issues/{issue_id}/links", {"url": "https://example.org"}),
        ("sinkId", "warehouse/sinks", {"name": "x", "kind": "BLOBSTORE"}),
        ("changeId", "changes", {"kind": "generic", "title": "x"}),
        ("viewId", "views", {"name": "x", "path": "/ui/", "shared": True}),
        ("sourceMapId", "source-maps?release=1.0.0&url=/a.js", document()),
    ):
        below = f"projects/web/{path}" if name in OF_PROJECTS else path
        status, answer, _ = await control.call("POST", f"/orgs/{org}/{below}", body, token)
        assert status in (200, 201, 202), answer
        made[name] = (answer.get("request") or answer)["id"]
    _, page, _ = await control.call("GET", f"/orgs/{org}/deliveries", token=token)
    made["deliveryId"] = page["data"][0]["id"]
    made["identityId"] = await linked(control, tenant)
    made["chatLinkId"] = await chat_linked(control, tenant)
    integration = await new_integration(control, "generic", tenant)
    assert (await send(control, integration, {"event": "ping"}))[0] == 200
    delivered = f"/orgs/{org}/integrations/{integration['id']}/deliveries"
    _, page, _ = await control.call("GET", delivered, token=token)
    made |= {"integrationId": integration["id"], "inboundDeliveryId": page["data"][0]["id"]}
    made["issuerKeyId"] = (await register(control, org=org, token=token))["id"]
    bundled = new_bundle(subject={"orgSlug": org})
    assert (await submit(control, bundled, token=token, path=f"/orgs/{org}/projects/web/proof-bundles"))[0] == 201
    made["bundleId"] = bundled["bundleId"]
    used = {name for _, path in routes(control) for name in re.findall(r"\{(\w+Id)\}", path)}
    assert used == set(made), "of each kind there is one"
    return made


async def chat_linked(control: Control, tenant: Tenant) -> str:
    """A chat user of the owner."""
    user = ChatUser(ChatPlatform.CHAT_B, "", tenant.organization.id[-20:])
    link = StoredChatLink(new_id("chl"), tenant.organization.id, tenant.owner_id, user, False, datetime.now(UTC), None)
    async with control.checks.database.write() as connection:
        await link_repository.add(connection, link)
    return link.id


async def linked(control: Control, tenant: Tenant) -> str:
    """The owner is a user of a provider."""
    now, org_id = datetime.now(UTC), tenant.organization.id
    async with control.checks.database.write() as connection:
        new = connection_store.new_connection(org_id, Protocol.OIDC, now)
        provider = await connection_store.store(connection, None, new, now)
        return await identities.create_identity(
            connection, provider.id, org_id, "x", tenant.owner_id, "a@example.org", now
        )


def filled(path: str, org: str, project: str, ids: dict[str, str]) -> str:
    values = ids | {"orgSlug": org, "projectSlug": project, "protocol": "OIDC"}
    return re.sub(r"\{(\w+)\}", lambda found: quote(values[found[1]], safe=""), path)


async def answered(control: Control, method: str, path: str, body: object, token: str) -> Any:
    """All of the answer that may not differ."""
    sent = None if method == "GET" else body
    status, answer, headers = await control.call(method, URL(path, encoded=True), sent, token)
    if answer is not None and "error" in answer:
        answer["error"]["requestId"] = ""
    return status, msgspec.json.encode(answer), sorted((n, v) for n, v in headers.items() if n.lower() not in VARIES)


@pytest.mark.chassis_settings(api_rate=0, approval_rate=0, channel_test_rate=0)
async def test_foreign_and_missing_resources_get_the_same_response(control: Control) -> None:
    theirs = await everything_of(control, control.globex)
    for role in Role:
        _, token = await new_member_token(control.checks.database, control.acme, role)
        for method, path in routes(control):
            for body in (None, {"name": "x"}) if role is Role.MEMBER and method != "GET" else ({"name": "x"},):
                await check_existence(control, method, path, theirs, body, token)


async def check_existence(
    control: Control, method: str, path: str, theirs: dict[str, str], body: object, token: str
) -> None:
    """What is theirs and what is nowhere are the same to who has this token."""

    async def ask(org: str, project: str, ids: dict[str, str]) -> Any:
        return await answered(control, method, filled(path, org, project, ids), body, token)

    foreign = await ask("globex", "web", theirs)
    assert foreign[0] == 404, path
    places = [("nowhere", "none"), *([("globex", "none"), ("nowhere", "web")] if "{projectSlug}" in path else ())]
    for org, project in places:
        assert await ask(org, project, NOWHERE) == foreign, path
    if "Id}" in path:
        assert await ask("globex", "web", NOWHERE) == foreign, path
        assert await ask("acme", "web", theirs) == await ask("acme", "web", NOWHERE), path


async def test_reject_without_read_scope_does_not_reveal_existence(control: Control) -> None:
    ours = await everything_of(control, control.acme)
    scopes = frozenset({Scope.APPROVALS_WRITE})
    _, token = await new_member_token(control.checks.database, control.acme, Role.MEMBER, scopes)
    path = "/orgs/{orgSlug}/approval-requests/{requestId}/reject"
    for body in BODIES:
        missing = await answered(control, "POST", filled(path, "acme", "web", NOWHERE), body, token)
        assert missing[0] == 404
        assert await answered(control, "POST", filled(path, "acme", "web", ours), body, token) == missing, body


class Served(NamedTuple):
    """A service that many examples ask."""

    runner: asyncio.Runner
    control: Control
    theirs: dict[str, str]  # everything of globex
    signer: JwtSigner


@pytest.fixture
def served(migrated_url: str, tmp_path: Path) -> Iterator[Served]:
    with asyncio.Runner() as runner:
        context = serving(migrated_url, tmp_path, ControlSettings(), api_rate=0)
        control = runner.run(context.__aenter__())
        signer = JwtSigner.from_seed(load_or_create_key(tmp_path / "signing.key", "signing key"))
        yield Served(runner, control, runner.run(everything_of(control, control.globex)), signer)
        runner.run(context.__aexit__(None, None, None))


class Caller(NamedTuple):
    """Somebody of acme. `scopes`: of his token, None for all that his role has. `both`: he is in globex, too."""

    kind: str
    role: Role
    scopes: frozenset[Scope] | None
    both: bool


async def credential(served: Served, caller: Caller) -> str:
    """A good one of a new principal."""
    org_id, now = served.control.acme.organization.id, datetime.now(UTC)
    async with served.control.checks.database.write() as connection:
        person = await organization_store.create_principal(connection, PrincipalKind.USER, "Person")
        holder = person
        if caller.kind in ("agent", "delegated"):
            holder = await organization_store.create_principal(connection, PrincipalKind.AGENT, "Agent", person.id)
        for member in {person.id, holder.id}:
            await organization_store.add_membership(connection, org_id, member, caller.role)
            if caller.both:
                await organization_store.add_membership(
                    connection, served.control.globex.organization.id, member, Role.OWNER
                )
        if caller.kind == "session":
            return await new_session(served, connection, person.id, now)
        token = await organization_store.create_token(connection, org_id, holder.id, "t", scopes=caller.scopes)
        if caller.kind == "delegated":
            row = {"token_id": token.id, "org_id": org_id, "created_at": now}
            row |= {"subject_id": person.id, "chain": [holder.id]}
            await connection.execute(delegations.insert().values(row))
    return token.secret


async def new_session(served: Served, connection: Any, user_id: str, now: datetime) -> str:
    row = {"principal_id": user_id, "email": f"{user_id}@example.org", "email_verified": True, "password_hash": "x"}
    row |= {"locale": "en", "theme": "dark", "created_at": now}
    await connection.execute(users.insert().values(row))
    await publish_key(connection, served.signer.public, now)
    org_id = served.control.acme.organization.id
    session = (await session_store.start(connection, org_id, user_id, ("pwd",), now)).session
    return served.signer.sign(session.id, user_id, org_id, ["pwd"], now)


CALLERS = st.builds(
    Caller,
    st.sampled_from(["user", "agent", "delegated", "session"]),
    st.sampled_from(list(Role)),
    st.none() | st.frozensets(st.sampled_from(list(Scope))),
    st.booleans(),
)
# aiohttp takes no braces for a variable of a path: unrouted, which comes before everything.
_CHARACTERS = st.characters(codec="utf-8", exclude_characters="{}")
SEGMENTS = st.text(_CHARACTERS, min_size=1, max_size=40).filter(lambda text: text not in {".", ".."})
MISSING = st.fixed_dictionaries({name: st.just(known) | SEGMENTS for name, known in NOWHERE.items()})


@pytest.mark.sized
@settings(
    max_examples=scaled(25, 300),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(caller=CALLERS, body=st.sampled_from(BODIES), missing=MISSING, place=SEGMENTS, pick=st.integers(0, 10**6))
def test_foreign_and_missing_match_for_every_caller_and_route(
    served: Served, caller: Caller, body: object, missing: dict[str, str], place: str, pick: int
) -> None:
    every = routes(served.control)
    method, path = every[pick % len(every)]

    async def compare() -> None:
        token = await credential(served, caller)
        foreign = await answered(served.control, method, filled(path, "globex", "web", served.theirs), body, token)
        nowhere = await answered(served.control, method, filled(path, place, place, missing), body, token)
        assert nowhere == foreign
        assert foreign[0] == 404
        if "Id}" in path:
            theirs = await answered(served.control, method, filled(path, "acme", "web", served.theirs), body, token)
            assert await answered(served.control, method, filled(path, "acme", "web", missing), body, token) == theirs
            assert theirs[0] in {403, 404}

    served.runner.run(compare())


@pytest.mark.both_stores
async def test_not_found_precedes_forbidden(control: Control) -> None:
    """To who may read; who may not is told of his scope, whether it is there or not."""
    ours = await everything_of(control, control.acme)
    _, reader = await new_member_token(
        control.checks.database, control.acme, Role.OWNER, frozenset(s for s in Scope if s.endswith(":read"))
    )
    _, blind = await new_member_token(control.checks.database, control.acme, Role.OWNER, frozenset())
    to_one = [(method, path) for method, path in routes(control) if "Id}" in path and "{tokenId}" not in path]
    assert len(to_one) > 15
    for method, path in to_one:
        there, nowhere = (filled(path, "acme", "web", ids) for ids in (ours, NOWHERE))
        statuses = [(await answered(control, method, where, None, reader))[0] for where in (there, nowhere)]
        assert statuses in ([200, 404], [403, 404]), (method, path)
        statuses = [(await answered(control, method, where, None, blind))[0] for where in (there, nowhere)]
        assert statuses == [403, 403], (method, path)


async def test_projects_are_not_revealed_without_the_read_scope(control: Control) -> None:
    """He is told of the scope that he lacks, whether there is such a project or not; who may read them, of that."""
    acme, database = control.acme, control.checks.database
    _, blind = await new_member_token(database, acme, Role.OWNER, frozenset({Scope.APPROVALS_READ}))
    _, reader = await new_member_token(database, acme, Role.OWNER, frozenset({Scope.PROJECTS_READ}))
    _, writer = await new_member_token(database, acme, Role.OWNER, frozenset({Scope.KEYS_READ}))
    for project, status in (("web", 403), ("none", 404), ("No-slug", 404)):
        path = f"/orgs/acme/projects/{project}/keys"
        assert (await control.call("GET", path, token=blind))[0] == 403
        assert (await control.call("GET", path, token=reader))[0] == status
        assert (await control.call("GET", path, token=writer))[0] == (200 if status == 403 else 404)
    below = [(method, path) for method, path in routes(control) if "{projectSlug}" in path]
    for method, path in below:
        there, nowhere = (filled(path, "acme", project, NOWHERE) for project in ("web", "none"))
        answers = [await answered(control, method, where, {}, blind) for where in (there, nowhere)]
        assert answers[0] == answers[1], (method, path)
        assert answers[0][0] == 403
