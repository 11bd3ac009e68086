"""Which addresses, which URLs."""

import ipaddress

import pytest

from control.outbound.egress_policy import MAX_URL_LENGTH, EgressPolicy, is_public, parse_ip_literal, parse_url

UNSPECIFIED = "0.0.0.0"  # noqa: S104  # an address to refuse
PRIVATE = [
    UNSPECIFIED, "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254",
    "168.63.129.16",
    "169.254.1.1", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1",
    "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1",
    "255.255.255.255",
    "::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254",
    "::ffff:0:127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::8.8.8.8",
    "100::1", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:db8::1", "2002:7f00:1::", "2002:808:808::",
    "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "ff0e::1",
]  # fmt: skip
PUBLIC = ["1.1.1.1", "8.8.8.8", "172.32.0.1", "192.0.1.1", "2606:4700::1111", "64:ff9b::8.8.8.8", "::ffff:8.8.8.8"]


def test_addresses_of_nobody_on_the_internet_are_not_public() -> None:
    for address in PRIVATE:
        assert not EgressPolicy().permits(address, 443), address
        assert not is_public(ipaddress.ip_address(address.partition("%")[0])), address


def test_public_addresses_are_permitted_on_permitted_ports() -> None:
    for address in PUBLIC:
        assert EgressPolicy().permits(address, 443), address
        assert not EgressPolicy().permits(address, 22), address
        assert EgressPolicy(ports=frozenset({22})).permits(address, 22), address


def test_a_network_of_the_operator_is_permitted_on_any_port_in_any_notation() -> None:
    policy = EgressPolicy((ipaddress.ip_network("10.1.0.0/16"), ipaddress.ip_network("fd00::/8")))
    for address in ("10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "fd00::1"):
        assert policy.permits(address, 8_080)
    for address in ("10.2.0.1", "127.0.0.1", "fc00::1"):
        assert not policy.permits(address, 443)


def test_addresses_are_known_in_every_notation() -> None:
    for host, address in (
        ("127.0.0.1", "127.0.0.1"), ("127.1", "127.0.0.1"), ("0x7f000001", "127.0.0.1"), ("2130706433", "127.0.0.1"),
        ("017700000001", "127.0.0.1"), ("0x7f.0.0.1", "127.0.0.1"), ("0", UNSPECIFIED), ("[::1]", "::1"),
        ("::1", "::1"),
        ("fe80::1%eth0", "fe80::1"), ("example.org", None), ("localhost", None), ("1.2.3.4.example.org", None),
        ("", None), ("127.0.0.1 x", None), ("\uff11\uff12\uff17.0.0.1", None),
    ):  # fmt: skip
        found = parse_ip_literal(host)
        assert (None if found is None else str(found)) == address, host


def test_urls_that_are_none_of_ours_are_refused() -> None:
    for url in (
        "", "example.org", "//example.org/x", "http://example.org/", "ftp://example.org/", "file:///etc/passwd",
        "gopher://example.org/", "https://", "https:///x", "https://u@example.org/", "https://u:p@example.org/",
        "https://example.org:0/", "https://example.org:65536/", "https://example.org:x/", "https://example.org/\n",
        "https://example.org/ x", "https://[::1/", "https://example.org/" + "x" * MAX_URL_LENGTH,
        "https://exa\0mple.org/", "https://%00/", "https://ex%61mple.org/", "https://a..b/", "https://.a/", "https://./",
        "https://a../", "https://xn--/", "https://xn--a/", "https://*/", "https://a<b/", "https://" + "a" * 64 + "/",
        "https://" + "é" * 64 + "/", "https://" + "a." * 126 + "aa/",
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"^Must .*\.$"):
            parse_url(url, allow_http=False)


def test_urls_are_taken() -> None:
    """Those of http when the operator says so; fragments are dropped."""
    for url in (
        "https://example.org", "https://example.org:8443/a?b=c", "https://[2606:4700::1]/",
        "https://a_b.example.org./", "https://xn--bcher-kva.example/", "https://" + "a" * 63 + "/", "https://1.1.1.1/",
        "https://" + "a." * 126 + "a/",
    ):  # fmt: skip
        assert str(parse_url(url, allow_http=False)).rstrip("/") == url.rstrip("/")
    assert str(parse_url("http://example.org/a#b", allow_http=True)) == "http://example.org/a"


def test_some_address_has_to_permit_a_port() -> None:
    assert [EgressPolicy().may_permit(port) for port in (443, 8_443)] == [True, False]
    assert EgressPolicy((ipaddress.ip_network("10.0.0.0/8"),)).may_permit(8_443)
