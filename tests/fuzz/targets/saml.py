"""SAML responses as anyone may post them: whatever is believed is what the identity provider has signed.

The first byte chooses what the rest is. Mostly it chooses a response, signed when this process started, and the rest
are edits of its tree and of its bytes, four bytes each: elements are moved, copied, wrapped and renamed, as in
signature wrapping. The fuzzer cannot sign, so a response that is believed must say what was signed. More choices are a
document, a form field and a certificate as they are.
"""

import contextlib
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Final

from lxml import etree

from control.identity.sso.refusal import MAX_DETAIL_LENGTH, LoginRefused
from control.identity.sso.saml.certificates import MAX_RSA_BITS, MIN_RSA_BITS, parse_certificate
from control.identity.sso.saml.document import MAX_ELEMENTS
from control.identity.sso.saml.response import Assertion, verify_response
from tests.control.identity.sso.saml_idp import (
    ACS,
    IDP,
    REQUEST,
    SP,
    Idp,
    certificate,
    ec_key,
    expected,
    login,
    post,
    sign,
)

Element = etree._Element

MAX_EDITS: Final = 24
_EXPECTED: Final = expected(certificate(ec_key()))
# Each with what it says to us: nothing, if it is refused.
_RESPONSES: Final[tuple[Element, ...]] = (
    login("assertion", key=ec_key()),
    login("response", key=ec_key()),
    login("both", key=ec_key()),
    sign(Idp().response(), key=ec_key(), prefixes=["xs"], key_info=False),
    login("nothing"),
    login(key=ec_key(1)),
    login("both", key=ec_key(), audiences=("https://other.example.com",), subject="mallory@example.com"),
)
RESPONSES: Final = len(_RESPONSES)
DOCUMENT, FIELD, CERTIFICATE = range(RESPONSES, RESPONSES + 3)

_ATTRIBUTES: Final = (
    "ID", "Id", "xml:id", "URI", "Algorithm", "Value", "Version", "Destination", "Recipient", "InResponseTo", "Method",
    "NotBefore", "NotOnOrAfter", "SessionNotOnOrAfter", "Format", "Name", "PrefixList",
)  # fmt: skip
_MAX_NODES: Final = 2 * MAX_ELEMENTS
_TEXTS: Final = (
    "", "_assertion1", "_response1", "#_assertion1", "#_response1", "#", IDP, SP, ACS, REQUEST, "root@example.com",
    "2.0", "2026-11-20T15:05:00Z", "9999-12-31T23:59:59Z", "http://www.w3.org/2000/09/xmldsig#enveloped-signature",
    "http://www.w3.org/2001/10/xml-exc-c14n#", "http://www.w3.org/TR/2001/REC-xml-c14n-20010315",
    "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256", "http://www.w3.org/2000/09/xmldsig#hmac-sha1",
    "http://www.w3.org/TR/1999/REC-xslt-19991116", "urn:oasis:names:tc:SAML:2.0:cm:bearer", "x" * 300, "\u200b", "xs",
)  # fmt: skip
_PIECES: Final = (
    b"<!-- -->", b"<?x?>", b"<![CDATA[x]]>", b"<!DOCTYPE r>", b"&x;", b"&#10;", b"\0", b"\xff", b"<a>", b"</a>",
    b"<a/>", b' xmlns:a="1"', b' xmlns:a="urn:a"', b' xmlns="urn:a"', b' xmlns=""', b' ID="_x"', b' xml:id="_x"',
    b"\xef\xbb\xbf",
)  # fmt: skip


def check(data: bytes) -> None:
    if not data:
        return
    choice, rest = data[0] % (RESPONSES + 3), data[1:]
    if choice == DOCUMENT:
        assert believed(post(rest)) is None
    elif choice == FIELD:
        assert believed(rest.decode("latin-1")) is None
    elif choice == CERTIFICATE:
        check_certificate(rest.decode("latin-1"))
    else:
        found = believed(post(edited(_RESPONSES[choice], rest)))
        assert found in (None, _SAID[choice]), f"{found} was not signed"


def believed(encoded: str) -> Assertion | None:
    try:
        return verify_response(encoded, _EXPECTED)
    except LoginRefused as refused:
        assert len(refused.detail) <= MAX_DETAIL_LENGTH
        return None


def check_certificate(text: str) -> None:
    try:
        found = parse_certificate(text)
    except ValueError as error:
        assert str(error).startswith("Must ")
        return
    assert parse_certificate(found.pem) == found
    assert found.public_key.key_size in (256, 384, 521) or MIN_RSA_BITS <= found.public_key.key_size <= MAX_RSA_BITS


def edited(response: Element, edits: bytes) -> bytes:
    """First the tree is edited, then its bytes."""
    root = deepcopy(response)
    steps = [edits[at : at + 4] for at in range(0, min(len(edits), 4 * MAX_EDITS) - 3, 4)]
    for step in steps:
        kind = step[0] % (len(_TREE_EDITS) + 2)
        if kind < len(_TREE_EDITS):
            with contextlib.suppress(
                ValueError, TypeError
            ):  # what lxml does not do: a root's tail, an element into itself
                nodes = list(root.iter())
                if len(nodes) > _MAX_NODES:  # copies of copies: nothing more is learned from a larger document
                    break
                _TREE_EDITS[kind](nodes[step[1] % len(nodes)], nodes[step[2] % len(nodes)], step[3])
    xml = etree.tostring(root)
    for step in steps:
        kind, at = step[0] % (len(_TREE_EDITS) + 2) - len(_TREE_EDITS), int.from_bytes(step[1:3], "big") % len(xml)
        if kind == 0:
            xml = xml[:at] + bytes((xml[at] ^ step[3],)) + xml[at + 1 :]
        elif kind == 1:
            xml = xml[:at] + _PIECES[step[3] % len(_PIECES)] + xml[at:]
    return xml


def _remove(one: Element, _other: Element, _number: int) -> None:
    parent = one.getparent()
    if parent is not None:
        parent.remove(one)


def _move(one: Element, other: Element, number: int) -> None:
    if one not in other.iterancestors() and one is not other:
        other.insert(number % (len(other) + 1), one)


def _copy(one: Element, other: Element, number: int) -> None:
    other.insert(number % (len(other) + 1), deepcopy(one))


def _wrap(one: Element, other: Element, _number: int) -> None:
    """`one` becomes the child of a copy of `other`, in its place."""
    parent = one.getparent()
    if parent is not None and one not in other.iterancestors():
        wrapper = etree.Element(other.tag)
        wrapper.attrib.update(other.attrib)
        parent.replace(one, wrapper)
        wrapper.append(one)


def _swap(one: Element, other: Element, _number: int) -> None:
    """Copies in place of each other."""
    first, second = one.getparent(), other.getparent()
    if first is not None and second is not None:
        copy = deepcopy(one)
        first.replace(one, deepcopy(other))
        if other.getparent() is second:
            second.replace(other, copy)


def _rename(one: Element, other: Element, _number: int) -> None:
    one.tag = other.tag


def _set_attribute(one: Element, _other: Element, number: int) -> None:
    name, text = _ATTRIBUTES[number % len(_ATTRIBUTES)], _TEXTS[number // len(_ATTRIBUTES) % len(_TEXTS)]
    one.set(name.replace("xml:", "{http://www.w3.org/XML/1998/namespace}"), text)


def _copy_attributes(one: Element, other: Element, _number: int) -> None:
    one.attrib.update(other.attrib)


def _remove_attribute(one: Element, _other: Element, number: int) -> None:
    names = list(one.attrib)
    if names:
        del one.attrib[names[number % len(names)]]


def _set_text(one: Element, _other: Element, number: int) -> None:
    one.text = _TEXTS[number % len(_TEXTS)]


def _copy_text(one: Element, other: Element, _number: int) -> None:
    one.text = other.text


_TREE_EDITS: Final[tuple[Callable[[Element, Element, int], None], ...]] = (
    _remove, _move, _copy, _wrap, _swap, _rename, _set_attribute, _copy_attributes, _remove_attribute, _set_text,
    _copy_text,
)  # fmt: skip
_SAID: Final = tuple(believed(post(response)) for response in _RESPONSES)


def examples() -> Iterator[bytes]:
    """Inputs to begin with: every response as it is and with one edit of each kind, and documents."""
    for choice in range(RESPONSES):
        yield bytes((choice,))
        for kind in range(len(_TREE_EDITS) + 2):
            for one, other, number in ((4, 0, 0), (12, 4, 200), (25, 3, 7), (30, 25, 10)):
                yield bytes((choice, kind, one, other, number))
    for text in (
        '<r xmlns="urn:oasis:names:tc:SAML:2.0:protocol" ID="a" Version="2.0"/>', "<a><![CDATA[x]]><b c='d'/></a>",
        '<?xml version="1.0" encoding="utf-8"?>\n<a/>', "<!DOCTYPE a><a/>", "<a>&b;</a>", "<a><!-- --></a>", "PGEvPg==",
        '<a xmlns:b="1"/>', '<a ID="a"><b Id="a"/></a>', "\ufeff<a/>",
    ):  # fmt: skip
        yield bytes((DOCUMENT,)) + text.encode()
        yield bytes((FIELD,)) + text.encode()
    yield bytes((CERTIFICATE,)) + certificate(ec_key()).pem.encode()
    yield bytes((CERTIFICATE,)) + b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
