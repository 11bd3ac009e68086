"""What an operator permits of the URLs in configs."""

import ipaddress

import msgspec

from chassis.http.validation import Issues
from control.notify.channels.config import Kind
from control.notify.channels.validation import ChannelRules, read_config
from control.outbound.egress_policy import EgressPolicy
from tests.control.receiver import SECRET

INSIDE = EgressPolicy((ipaddress.ip_network("10.0.0.0/8"),), frozenset({443}))


CASES: list[tuple[EgressPolicy, str, str | None]] = [
    (EgressPolicy(ports=frozenset({443})), "https://example.org:8443/", "Must use port 443."),
    (EgressPolicy(ports=frozenset({443, 8_443})), "https://example.org:22/", "Must use port 443 or 8443."),
    (EgressPolicy(ports=frozenset({443, 8_443})), "https://example.org:8443/", None),
    (INSIDE, "https://example.org:8443/", None),  # the name may lead there
    (INSIDE, "https://10.1.2.3:8443/", None),
    (INSIDE, "https://11.1.2.3/", None),
    (INSIDE, "https://172.16.0.1/", "Must be a public address."),
]


def test_urls_that_the_egress_policy_forbids_are_rejected() -> None:
    for policy, url, message in CASES:
        issues, sent = Issues(), msgspec.json.encode({"url": url, "secret": SECRET})
        config = read_config(Kind.WEBHOOK, sent, ChannelRules(policy), issues)
        assert (config is None) is (message is not None), url
        found = [(one.path, one.code, one.message) for one in issues]
        assert found == ([] if message is None else [("body.config.url", "not_allowed", message)]), url
