"""Which of two versions is the later one, by the schemes in which releases are named."""

import itertools
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from control.issues.releases.order import ReleaseOrder, parse_version
from tests.control.issues.releases.stored import NOW

# The first is the earlier one, whenever each was seen.
BY_VERSION = [
    # Semantic Versioning
    ("1.9.0", "1.10.0"),
    ("1.9.9", "2.0.0"),
    ("v1.2.3", "v1.2.4"),
    ("1.2.3", "v1.2.4"),
    ("1.0.0-alpha", "1.0.0-alpha.1"),
    ("1.0.0-alpha.9", "1.0.0-alpha.10"),
    ("1.0.0-beta.11", "1.0.0-rc.1"),
    ("1.0.0-rc.1", "1.0.0"),
    ("1.0.0-rc.9+20", "1.0.0-rc.10+3"),
    ("1.2.3+99", "1.2.4+1"),
    ("1.2.3-1", "1.2.4-1"),
    ("1.2.3-rc9", "1.2.3-rc10"),
    ("1.2.3-RC1", "1.2.3-rc2"),
    ("1.2.3-canary.4-a1b2c3d", "1.2.3-canary.5-0f0f0f0"),
    ("1.2.3-nightly.20261127", "1.2.3-nightly.20261128"),
    ("1.2.3-alpine", "1.2.4-alpine"),
    # git describe, and what versioneer makes of it
    ("v1.2.3", "v1.2.3-4-g1234567"),
    ("v1.2.3-4-g1234567", "v1.2.3-14-gabcdef1"),
    ("v1.2.3-14-gabcdef1", "v1.2.4"),
    ("v1.2.3-14-gabcdef1", "v1.2.4-rc.1"),
    ("v1.2.3-4-g1234567-dirty", "v1.2.3-5-g89abcde"),
    ("v1.2.3-rc.1-4-g1234567", "v1.2.3-rc.2"),
    ("v1.2.3-rc.1", "v1.2.3-rc.1-4-g1234567"),
    ("v1.2.3-0-g1234567", "v1.2.3-1-g89abcde"),
    ("1.2.3+4.g1234567", "1.2.3+14.gabcdef1.dirty"),
    ("2.0-2-g1234567", "2.0-10-g89abcde"),
    # PEP 440
    ("1.2.3.dev4", "1.2.3a1"),
    ("1.2.3a2", "1.2.3b1"),
    ("1.2.3b1", "1.2.3rc1"),
    ("1.2.3rc1", "1.2.3"),
    ("1.2.3", "1.2.3.post1"),
    ("1.2.3.post1", "1.2.4.dev1"),
    ("1.2.4.dev4+g1234567", "1.2.4.dev14+gabcdef1.d20261128"),
    ("1.2.4.dev14+gabcdef1", "1.2.4"),
    # Maven
    ("1.2.3-SNAPSHOT", "1.2.3"),
    ("1.2.3-M2", "1.2.3-RC1"),
    ("5.0.0.Beta2", "5.0.0.CR1"),
    ("5.0.0.CR1", "5.0.0.Final"),
    ("5.0.0.Final", "5.0.1.Final"),
    ("2.7.17.RELEASE", "2.7.18.RELEASE"),
    # Debian and RPM
    ("1.2.3-2", "1.2.4-1"),
    ("1.2.3~rc1-1", "1.2.3-1"),
    ("1.2.3-4.el9", "1.3.0-1.el9"),
    # calendar versions
    ("2026.2.9", "2026.11.3"),
    ("2026.02.09", "2026.11.03"),
    ("2026.9", "2026.11"),
    ("20261128.9", "20261128.10"),
    ("2026.11.27-a1b2c3d", "2026.11.28-0f0f0f0"),
    # two to four numbers
    ("1.9", "1.10"),
    ("1.2", "1.2.1"),
    ("1.2.3.9", "1.2.3.10"),
    ("1.2.3", "1.2.3.1"),
    # a package before it
    ("shop@1.9.0", "shop@1.10.0"),
    ("@shop/web@1.9.0", "@shop/web@1.10.0-rc.1"),
    ("checkout-v1.9.0", "checkout-v1.10.0"),
    ("checkout/v1.9.0", "checkout/v1.10.0"),
    ("checkout-1.2.3-4-g1234567", "checkout-1.2.3-14-gabcdef1"),
    ("registry.example:5000/shop:1.9.0", "registry.example:5000/shop:1.10.0"),
]
# The one that was seen first is the earlier one.
BY_TIME = [
    ("1.2.3", "1.2.3-1"),
    ("1.2.3-1", "1.2.3-2"),
    ("1.2.3-a1b2c3d", "1.2.3-0f0f0f0"),
    ("1.2.3-1234567", "1.2.3-89abcde"),
    ("1.2.3-a123456", "1.2.3"),
    ("1.2.3", "1.2.3-alpine"),
    ("1.2.3-hotfix.1", "1.2.3"),
    ("1.2.3+10", "1.2.3+11"),
    ("1.2.3-1ubuntu2", "1.2.3-1ubuntu10"),
    ("1.2.3-4.el8", "1.2.3-4.el9"),
    ("1.2.3-20261127.101530-4", "1.2.3-20261128.101530-5"),
    ("v1.2.3-4-g1234567", "v1.2.3-4-g1234567-dirty"),
    ("v1.2.3-4-g1234567", "v1.2.3-4-gabcdef1"),
    ("v1.2.3", "v1.2.3-dirty"),
    ("1.2.3-canary.a1b2c3d", "1.2.3-canary.0f0f0f0"),
    ("v0.0.0-20261127021931-daa7c04131f5", "v0.0.0-20261128021931-0123456789ab"),
    ("1.2", "1.2.0"),
    ("1:1.2.3-4", "2:1.0.0-1"),
    ("1!1.2.3", "1.2.4"),
    ("shop@1.2.3", "web@1.0.0"),
    ("checkout-v1.2.3", "v1.0.0"),
    ("a1b2c3d", "0f0f0f0"),
    ("2026-11-27", "2026-11-28"),
    ("4711", "4712"),
    ("latest", "1.2.3"),
    ("01.2.3", "1.2.4"),
    ("1.2.x", "1.2.4"),
    ("1.2.3.4.5", "1.2.3.4.6"),
    ("shop:1.2.3@sha256:0f0f0f0", "shop:1.2.4@sha256:a1b2c3d"),
]
SCHEMES = [version for pair in (*BY_VERSION, *BY_TIME) for version in pair]


def in_turn(*versions: str) -> ReleaseOrder:
    return ReleaseOrder({version: NOW + timedelta(hours=n) for n, version in enumerate(versions)})


def test_versions_that_tell_which_is_later() -> None:
    for earlier, later in BY_VERSION:
        for order in (in_turn(earlier, later), in_turn(later, earlier), ReleaseOrder({})):
            found = order.is_later(later, earlier), order.is_later(earlier, later)
            assert found == (True, False), (earlier, later)


def test_versions_that_are_ordered_by_when_they_were_seen() -> None:
    for first, second in BY_TIME:
        for one, other in ((first, second), (second, first)):
            order = in_turn(one, other)
            assert (order.is_later(other, one), order.is_later(one, other)) == (True, False), (one, other)
        assert ReleaseOrder({}).is_later(first, second) is None, (first, second)


@given(
    st.lists(
        st.one_of(
            st.sampled_from([each for each in SCHEMES if (found := parse_version(each)) and not found.package]),
            st.builds(
                "{}{}.{}{}".format,
                st.sampled_from(["", "v"]),
                st.integers(0, 2),
                st.integers(0, 2),
                st.sampled_from(
                    ["", ".1", "-1", "-2", "-a1b2c3d", "-rc.1", "-rc.1-2-g1234567", "-2-gabcdef1", "rc1", "+b", "-x"]
                ),
            ),
        ),
        min_size=3,
        max_size=5,
        unique=True,
    ),
    st.lists(st.integers(0, 3), min_size=5, max_size=5),
)
def test_versions_of_a_package_have_a_weak_order(versions: list[str], hours: list[int]) -> None:
    """Whenever they were seen: later is transitive, and so is being of the same place and time."""
    order = ReleaseOrder({version: NOW + timedelta(hours=hour) for version, hour in zip(versions, hours, strict=False)})
    for a, b, c in itertools.permutations(versions, 3):
        if order.is_later(a, b) and order.is_later(b, c):
            assert order.is_later(a, c), (a, b, c)
        if order.is_later(a, b) is None and order.is_later(b, c) is None:
            assert order.is_later(a, c) is None, (a, b, c)


def test_other_versions_tell_nothing() -> None:
    texts = ("", "abc", "1", "1.2.3-", "1.2.3+", "1.2.3\n", "\u0661.\u0662.\u0663", "V1.2.3", "1.02.3", "-" * 201)
    assert [text for text in texts if parse_version(text) is not None] == []


@given(st.text("0123456789.-+gabvrc@/: \n", max_size=210))
def test_any_text_has_a_place_or_none(text: str) -> None:
    found = parse_version(text)
    if found is not None:
        assert len(found.numbers) == 4
        assert parse_version(text + "\n") is None
