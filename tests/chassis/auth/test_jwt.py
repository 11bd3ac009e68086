"""Access tokens of sessions: signed as RFC 8037 says, and believed as long as their key is."""

import base64
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import OKPKey

from chassis.auth.cache import CacheMetrics
from chassis.auth.credential_guards import BearerGuard
from chassis.auth.jwt import (
    Claims,
    JwtSigner,
    JwtVerifier,
    PublicKey,
    StoredKey,
    find_key,
    list_all_keys,
    list_trusted_keys,
    publish_key,
    unverified_key_id,
    verify_token,
    withdraw_key,
)
from chassis.db.database import Database
from chassis.errors import Unauthorized
from tests.chassis.auth.tenants import Clock, Tenant

# RFC 8037, appendix A: the key, its public half and its thumbprint.
SEED = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
X = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
THUMBPRINT = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_a_key_has_the_name_that_the_rfc_gives_it() -> None:
    public = JwtSigner.from_seed(SEED).public
    assert public.kid == THUMBPRINT
    assert public.jwk() == {
        "kty": "OKP", "crv": "Ed25519", "x": X, "kid": THUMBPRINT, "use": "sig", "alg": "Ed25519",
    }  # fmt: skip


def test_what_was_signed_is_verified_and_nothing_else() -> None:
    signer, other = JwtSigner.from_seed(SEED), JwtSigner.from_seed(bytes(32))
    token = signer.sign("ses_1", "prn_1", "org_1", ["pwd", "otp"], NOW)
    assert unverified_key_id(token) == THUMBPRINT
    claims = verify_token(token, signer.public)
    assert claims is not None
    assert (claims.sid, claims.sub, claims.org, claims.amr) == ("ses_1", "prn_1", "org_1", ["pwd", "otp"])
    assert claims.expires_at == NOW + timedelta(minutes=15)
    assert verify_token(token, other.public) is None
    assert verify_token(token, PublicKey(THUMBPRINT, other.public.raw)) is None


@pytest.mark.parametrize(
    ("header", "claims"),
    [
        ({"typ": "JWT"}, {}),
        ({"kid": "x"}, {}),
        ({"kid": "\x00" * 43}, {}),
        ({}, {"iss": "other"}),
        ({}, {"aud": "other"}),
        ({}, {"sid": None}),
        ({}, {"exp": "soon"}),
        ({}, {"exp": 902}),
        ({}, {"exp": 1}),
        ({}, {"iat": -1, "exp": 1}),
        ({}, {"iat": 10**12, "exp": 10**12 + 1}),
        ({}, {"client_id": None}),
    ],
)
def test_a_token_of_another_kind_is_none_of_ours(header: dict[str, str], claims: dict[str, object]) -> None:
    signer = JwtSigner.from_seed(SEED)
    key = OKPKey.import_key(signer.public.jwk() | {"d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"})
    said = {
        "iss": "sluice", "aud": "sluice", "sub": "p", "client_id": "sluice", "org": "o", "sid": "s", "amr": [],
        "iat": 1, "exp": 901, "jti": "j",
    }  # fmt: skip
    whole = {"alg": "Ed25519", "typ": "at+jwt", "kid": THUMBPRINT} | header
    token = jwt.encode(whole, said | claims, key, algorithms=["Ed25519"])
    assert unverified_key_id(token) is None or verify_token(token, signer.public) is None
    good = jwt.encode({"alg": "Ed25519", "typ": "at+jwt", "kid": THUMBPRINT}, said, key, algorithms=["Ed25519"])
    assert isinstance(verify_token(good, signer.public), Claims)


def unsigned(**header: object) -> str:
    """A token with this header that nobody has signed."""
    whole = msgspec.json.encode({"alg": "Ed25519", "typ": "at+jwt", "kid": THUMBPRINT} | header)
    return base64.urlsafe_b64encode(whole).rstrip(b"=").decode() + ".e30.AAAA"


MORE_IN_IT: list[dict[str, object]] = [{"crit": 5}, {"crit": [5]}, {"crit": ["exp"], "exp": {}}, {"b64": False}]
MORE_IN_IT += [{"jwk": {}}, {"x": [[]]}]
MORE_IN_IT += [{"alg": name} for name in ("none", "EdDSA", "HS256", "RS256", "ed25519", "")]


def test_a_header_of_another_algorithm_or_with_more_in_it_is_none_of_ours_and_no_fault() -> None:
    """Whoever sends it has signed nothing: what is in a header is looked at before the signature."""
    for header in MORE_IN_IT:
        token = unsigned(**header)
        assert unverified_key_id(token) is None, header
        assert verify_token(token, JwtSigner.from_seed(SEED).public) is None, header


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
header_names = st.sampled_from(["alg", "typ", "kid", "crit", "b64", "jwk", "jku", "x5c", "cty", "exp", "x"])


@given(st.dictionaries(header_names, json_values, max_size=4), st.booleans(), json_values)
def test_nor_is_any_other_that_nobody_has_signed(header: dict[str, object], begun: bool, payload: object) -> None:
    whole = ({"alg": "Ed25519", "typ": "at+jwt", "kid": THUMBPRINT} if begun else {}) | header
    head, body = (base64.urlsafe_b64encode(msgspec.json.encode(part)).rstrip(b"=") for part in (whole, payload))
    token = f"{head.decode()}.{body.decode()}.{'A' * 86}"
    unverified_key_id(token)
    assert verify_token(token, JwtSigner.from_seed(SEED).public) is None


def test_nor_is_one_that_is_nested_deep() -> None:
    for header in (b'{"x":' + b"[" * 1_400, b'{"alg":' + b"[" * 1_400, b"[" * 1_400):
        assert unverified_key_id(base64.urlsafe_b64encode(header).rstrip(b"=").decode() + ".e30.AAAA") is None


@given(st.text(max_size=300) | st.from_regex(r"[A-Za-z0-9_-]{0,80}\.[A-Za-z0-9_-]{0,80}\.[A-Za-z0-9_-]{0,86}"))
def test_whatever_is_sent_is_answered_without_a_fault(text: str) -> None:
    unverified_key_id(text)
    assert verify_token(text, JwtSigner.from_seed(SEED).public) is None


async def test_keys_are_believed_for_a_week_after_they_were_last_heard_of(database: Database) -> None:
    first, second = JwtSigner.from_seed(SEED).public, JwtSigner.from_seed(bytes(32)).public
    async with database.write() as connection:
        await publish_key(connection, first, NOW)
        await publish_key(connection, second, NOW + timedelta(seconds=1))
        await publish_key(connection, second, NOW + timedelta(days=3))
    async with database.read() as connection:
        for later, believed in (
            (timedelta(days=7, seconds=-1), [second, first]),
            (timedelta(days=7), [second]),
            (timedelta(days=10), []),
        ):
            assert await list_trusted_keys(connection, NOW + later) == believed
            found = [await find_key(connection, key.kid, NOW + later) for key in (second, first)]
            assert [key for key in found if key is not None] == believed


async def test_of_too_many_keys_those_in_use_are_shown(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chassis.auth.jwt.MAX_SHOWN", 2)
    old, *others = (JwtSigner.from_seed(bytes([number]) * 32).public for number in range(4))
    async with database.write() as connection:
        for place, key in enumerate((old, *others, old)):
            await publish_key(connection, key, NOW + timedelta(seconds=place))
        assert await list_trusted_keys(connection, NOW) == [old, others[-1]]


async def test_keys_of_long_ago_are_removed_but_for_those_that_were_withdrawn(database: Database) -> None:
    gone, withdrawn, kept, now = (JwtSigner.from_seed(bytes([number]) * 32).public for number in range(4))
    later = NOW + timedelta(days=90)
    async with database.write() as connection:
        await publish_key(connection, gone, NOW)
        await publish_key(connection, withdrawn, NOW)
        await publish_key(connection, kept, NOW + timedelta(seconds=1))
        await withdraw_key(connection, withdrawn.kid, NOW)
        await publish_key(connection, now, later)
        assert [key.kid for key in await list_all_keys(connection, 10)] == [now.kid, kept.kid, withdrawn.kid]
        assert not await publish_key(connection, withdrawn, later), "it does not come back as a new one"


@pytest.mark.both_stores
async def test_a_withdrawn_key_is_believed_no_more_whoever_says_that_it_is_in_use(database: Database) -> None:
    first, second = JwtSigner.from_seed(SEED).public, JwtSigner.from_seed(bytes(32)).public
    async with database.write() as connection:
        assert await publish_key(connection, first, NOW)
        assert await publish_key(connection, second, NOW)
        assert not await withdraw_key(connection, "none", NOW)
        assert await withdraw_key(connection, first.kid, NOW)
        assert await withdraw_key(connection, first.kid, NOW + timedelta(days=1))
        assert not await publish_key(connection, first, NOW + timedelta(hours=1))
        assert await find_key(connection, first.kid, NOW) is None
        assert await list_trusted_keys(connection, NOW) == [second]
        known = await list_all_keys(connection, 10)
    assert known == [
        StoredKey(first.kid, NOW, NOW + timedelta(hours=1), NOW),
        StoredKey(second.kid, NOW, NOW, None),
    ]
    assert [key.trusted_at(NOW) for key in known] == [False, True]


async def test_a_token_of_a_time_to_come_is_refused(database: Database, clock: Clock) -> None:
    """Else who has a key for an hour could sign for years."""
    signer, now = JwtSigner.from_seed(SEED), clock.now().replace(microsecond=0)
    check = JwtVerifier(database, CacheMetrics(None), clock=clock, now=lambda: now)
    async with database.write() as connection:
        await publish_key(connection, signer.public, now)
    ahead = [signer.sign("ses_1", "prn_1", "org_1", ["pwd"], now + timedelta(seconds=seconds)) for seconds in (60, 61)]
    assert await check.verify_session(ahead[0]) == "ses_1"
    with pytest.raises(Unauthorized):
        await check.verify_session(ahead[1])
    await check.close()


async def test_a_key_counts_within_five_seconds_and_when_it_is_withdrawn_no_more(
    database: Database, clock: Clock
) -> None:
    signer = JwtSigner.from_seed(SEED)
    check = JwtVerifier(database, CacheMetrics(None), clock=clock, now=clock.now)
    token = signer.sign("ses_1", "prn_1", "org_1", ["pwd"], clock.now())
    with pytest.raises(Unauthorized):
        await check.verify_session(token)
    async with database.write() as connection:
        await publish_key(connection, signer.public, clock.now())
    clock.seconds += 5
    assert await check.verify_session(token) == "ses_1"
    async with database.write() as connection:
        await withdraw_key(connection, signer.public.kid, clock.now())
    clock.seconds += 5
    for again in (token, signer.sign("ses_1", "prn_1", "org_1", ["pwd"], clock.now())):
        with pytest.raises(Unauthorized):
            await check.verify_session(again)
    clock.seconds += 15 * 60
    with pytest.raises(Unauthorized):
        await check.verify_session(token)
    await check.close()


async def test_a_good_token_of_no_session_is_401(bearer: BearerGuard, database: Database, acme: Tenant) -> None:
    signer = JwtSigner.from_seed(SEED)
    async with database.write() as connection:
        await publish_key(connection, signer.public, datetime.now(UTC))
    token = signer.sign("ses_none", acme.owner_id, acme.organization.id, ["pwd"], datetime.now(UTC))
    with pytest.raises(Unauthorized):
        await bearer.authenticate(f"Bearer {token}")


async def test_a_signature_is_checked_once(database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    signer = JwtSigner.from_seed(SEED)
    check = JwtVerifier(database, CacheMetrics(None), clock=clock, now=clock.now)
    async with database.write() as connection:
        await publish_key(connection, signer.public, clock.now())
    token = signer.sign("ses_1", "prn_1", "org_1", ["pwd"], clock.now())
    assert await check.verify_session(token) == "ses_1"
    monkeypatch.setattr("chassis.auth.jwt.verify_token", None)
    assert [await check.verify_session(token) for _ in range(3)] == ["ses_1"] * 3
    monkeypatch.setattr("chassis.auth.jwt.MAX_CACHED_TOKENS", 0)
    check._cache_verified(b"other", check._verified.popitem()[1])
    assert not check._verified, "what is remembered is bounded"
    await check.close()
