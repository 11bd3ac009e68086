"""A laboratory of hostile responses: what an attacker sends, and the reason for which it is refused.

The attacker has a valid response of the provider for the request at hand, for an account of his own, and wants to be
somebody else; or he sends whatever costs time. Where a form is evil, its signature is right: nothing but the form can
refuse it.
"""

import base64
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any, Final

import pytest
from lxml import etree
from signxml.algorithms import DigestAlgorithm, SignatureMethod
from signxml.signer import XMLSigner
from signxml.verifier import VerifyResult, XMLVerifier

from control.identity.sso.refusal import LoginRefused
from control.identity.sso.saml import signature
from control.identity.sso.saml.document import (
    DS,
    EXCLUSIVE_C14N,
    MAX_ATTRIBUTES,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_ELEMENTS,
    MAX_NAMESPACES,
    SAML,
    SAMLP,
    XENC,
)
from control.identity.sso.saml.response import verify_response
from tests.control.identity.sso.saml_idp import (
    EXCLUSIVE,
    IDP,
    SIGNATURE,
    SP,
    Idp,
    Signed,
    certificate_pem,
    ec_key,
    expected,
    find,
    instant,
    login,
    login_confirmed_by,
    parent,
    post,
    resign,
    rsa_key,
    sign,
)

Element = etree._Element
Build = Callable[[], Element | bytes | str]

VICTIM = "root@example.com"


def reason_of(encoded: str) -> str:
    with pytest.raises(LoginRefused) as refused:
        verify_response(encoded, expected())
    return refused.value.reason


# What is refused by the reason for which it is.
Table = dict[str, dict[str, Build]]


def check(table: Table) -> None:
    cases = [(reason, name, build) for reason, named in table.items() for name, build in named.items()]
    found = [(reason_of(post(build())), name) for _, name, build in cases]
    assert found == [(reason, name) for reason, name, _ in cases]


# What is not a response at all, or not one that is worth decoding.

ENCODED: Final[dict[str, tuple[str, ...]]] = {
    "not_xml": ("", "\r\n\n", "\n" * 300 * 1024),
    "not_base64": (
        *("<samlp:Response/>", "PD94bWw_" * 4, "PHg+PC94Pg", "PHg+ PC94 Pg==", "PHg\u212a", "PHg\udc80"),
        *(post("<x/>") + "=", post("<a></a>!") + "PHg+"),  # too much padding; something after it
    ),
    "response_too_large": (
        *(post(b" " * (MAX_BYTES + 1)), post(b" " * 300 * 1024)),
        *("\n" * 1024 * 1024, "!" * 1024 * 1024),
    ),
}


def test_a_field_that_is_no_document_is_refused() -> None:
    for reason, encoded in ENCODED.items():
        assert [(reason_of(each), each[:40]) for each in encoded] == [(reason, each[:40]) for each in encoded]


# Documents that attack the parser, or are ambiguous. Those that have a place for it are signed.

LOL = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))


def with_prolog(prolog: str) -> str:
    """A signed response after this, with the entity x if that is declared."""
    subject = "&x;" if "ENTITY x" in prolog else "&l9;" if "ENTITY l9" in prolog else "x"
    return f"{prolog}{etree.tostring(login(), encoding='unicode')}".replace("alice@example.com", subject, 1)


def with_text(old: str, new: str) -> bytes:
    """A signed response with its text replaced once."""
    xml = etree.tostring(login(), encoding="unicode")
    assert old in xml
    return xml.replace(old, new, 1).encode()


def around(inside: str) -> bytes:
    """A signed response with unsigned content, outside of the assertion."""
    return with_text("<samlp:Status>", f"<samlp:Extensions>{inside}</samlp:Extensions><samlp:Status>")


def start_tag(attribute: str, count: int) -> str:
    return f"<a {' '.join(attribute.format(number) for number in range(count))}/>"


def altered(name: str, value: str) -> Element:
    """A signed response whose assertion has got an attribute afterwards."""
    root = login()
    find(root, "saml:Assertion").set(name, value)
    return root


def each(build: Callable[..., Element | bytes | str], *values: str) -> dict[str, Build]:
    """What is built of each of them, by that."""
    return {value[:200]: partial(build, value) for value in values}


SAML_1: Final = "urn:oasis:names:tc:SAML:1.0:protocol"
NAME_ID: Final = "alice@example.com"
ATTRIBUTES: Final = "<saml:AttributeStatement>{}</saml:AttributeStatement>"

DOCUMENTS: Final[Table] = {
    "not_xml": {
        "text": lambda: "hello",
        "a document that is cut off": lambda: etree.tostring(login())[:-20],
        "two documents": lambda: etree.tostring(login()) * 2,
        "UTF-16 without a mark": lambda: etree.tostring(login(), encoding="unicode").encode("utf-16-le"),
        "UTF-7": lambda: with_prolog('<?xml version="1.0" encoding="UTF-7"?>+ADwAIQ-DOCTYPE x+AD4-'),
        **each(partial(with_text, NAME_ID), "alice\0", "&victim;"),
        "a prefix that is not declared": lambda: around("<a:b/>"),
        "very deep nesting": lambda: around("<a>" * 4_000 + "</a>" * 4_000),
    },
    "not_a_response": {
        "HTML": lambda: "<html><body>Log in</body></html>",
        "an assertion alone": lambda: etree.tostring(find(login(), "saml:Assertion")),
        "a logout response": lambda: f'<samlp:LogoutResponse xmlns:samlp="{SAMLP}" Version="2.0"/>',
    },
    "foreign_namespace": {
        "a response of SAML 1.1": lambda: f'<Response xmlns="{SAML_1}" MajorVersion="1"/>',
        **each(around, '<Assertion xmlns="urn:x"/>', "<Signature/>", f'<Response xmlns="{SAML_1}"/>'),
        "a NameID in another namespace": lambda: around(f'<NameID xmlns="{SAMLP}">{VICTIM}</NameID>'),
    },
    "not_utf8": {
        "UTF-16": lambda: etree.tostring(login(), encoding="utf-16"),
        "Latin-1": lambda: etree.tostring(login(subject="älice"), encoding="iso-8859-1"),
    },
    "doctype": {
        **each(
            with_prolog,
            '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
            '<!DOCTYPE r [<!ENTITY x SYSTEM "http://127.0.0.1:1/">]>',
            '<!DOCTYPE r SYSTEM "http://127.0.0.1:1/x.dtd">',
            '<!DOCTYPE r [<!ENTITY % p SYSTEM "file:///etc/hostname"> %p;]>',
            f'<!DOCTYPE r [<!ENTITY l0 "lol">{LOL}]>',
            '<!DOCTYPE r [<!ATTLIST samlp:Response Destination CDATA "x">]>',
            '<?xml version="1.0"?>\n<!DOCTYPE r>',
        ),
        "a billion laughs in an attribute": lambda: f'<!DOCTYPE r [<!ENTITY l0 "lol">{LOL}]><r a="&l9;"/>',
    },
    "processing_instruction": {
        "a style sheet": lambda: with_prolog('<?xml-stylesheet href="http://127.0.0.1:1/x.xsl"?>'),
        "in the NameID": lambda: with_text(NAME_ID, "root@example.com<?x?>.evil.example"),
    },
    "comment": {
        "in the NameID": lambda: with_text(NAME_ID, "alice<!-- -->@example.com"),
        "outside of the assertion": lambda: around("<!-- -->"),
    },
    "too_deep": each(around, "<a>" * MAX_DEPTH + "</a>" * MAX_DEPTH),
    "too_many_elements": {
        "a quarter of a megabyte": lambda: around("<a/>" * 60_000),
        "many": lambda: around("<a/>" * MAX_ELEMENTS),
        "signed": lambda: login(statements=ATTRIBUTES.format('<saml:Attribute Name="a"/>' * MAX_ELEMENTS)),
    },
    "response_too_large": {"attributes": lambda: login(attributes=(("groups", ("g",) * MAX_ELEMENTS),))},
    "too_many_attributes": {
        "many": lambda: around(start_tag('a{}=""', MAX_ATTRIBUTES + 1)),
        "a quarter of a megabyte": lambda: around(start_tag('a{}=""', 25_000)),
    },
    "too_many_namespaces": {
        "many": lambda: around(start_tag('xmlns:a{}="urn:a"', MAX_NAMESPACES)),
        "hidden by one another": lambda: around("<a xmlns='urn:a' xmlns:b='urn:b'>" * 16 + "</a>" * 16),
    },
    # Void canonicalization: of what is unsigned, of what is signed, by a URI with a colon, of SignedInfo.
    "relative_namespace": {
        **each(around, '<a xmlns:a="1"/>'),
        **each(partial(with_text, "<saml:Subject>"), '<saml:Subject xmlns:a="1">'),
    },
    "canonicalization_failed": {
        **each(partial(with_text, "<saml:Subject>"), '<saml:Subject xmlns:a="./a:b">'),
        **each(partial(with_text, "<ds:SignedInfo>"), '<ds:SignedInfo xmlns:a="./a:b">'),
    },
    "duplicate_id": each(around, '<a ID="_assertion1"/>', '<a id="_assertion1"/>'),
    "ambiguous_id": {
        **each(around, f'<a xmlns:b="{SAML}" b:ID="_x"/>', '<a xml:id="_x"/>'),
        "attribute pollution": lambda: altered(f"{{{SAMLP}}}ID", "_evil"),
        "two IDs of one element": lambda: altered("Id", "_evil"),
    },
    "encrypted_assertion": {
        **each(around, f'<EncryptedAssertion xmlns="{SAML}"/>', f'<EncryptedData xmlns="{XENC}"/>'),
        "a NameID": lambda: sign(etree.fromstring(etree.tostring(Idp().response()).replace(b"NameID", b"EncryptedID"))),
        "an attribute": lambda: login(statements=ATTRIBUTES.format("<saml:EncryptedAttribute/>")),
    },
}


def test_a_hostile_document_is_refused() -> None:
    check(DOCUMENTS)


# Signature wrapping: the eight forms of "On Breaking SAML" as SAML Raider numbers them. All evil copies have IDs of
# their own, so that the duplicate does not give them away.


def evil(element: Element) -> Element:
    """A copy that names the victim, and has another ID."""
    copy = deepcopy(element)
    find(copy, "saml:NameID").text = VICTIM
    for each in copy.iter():
        if each.get("ID") is not None:
            each.set("ID", "_evil" + str(each.get("ID")))
        each.attrib.pop("Id", "")
    return copy


def without_signature(element: Element) -> Element:
    copy = deepcopy(element)
    for each in copy.findall(SIGNATURE):
        copy.remove(each)
    return copy


def xsw1(root: Element) -> Element:
    """The signature is in an evil response, and has the signed response within."""
    wrapper = evil(root)
    find(wrapper, "ds:Signature").append(without_signature(root))
    return wrapper


def xsw2(root: Element) -> Element:
    """As xsw1, with the signed response before the signature."""
    wrapper = evil(root)
    find(wrapper, "ds:Signature").addprevious(without_signature(root))
    return wrapper


def xsw3(root: Element) -> Element:
    """An evil assertion before the signed one."""
    assertion = find(root, "saml:Assertion")
    assertion.addprevious(without_signature(evil(assertion)))
    return root


def replaced(root: Element, *, signed: bool) -> tuple[Element, Element]:
    """The signed assertion, and the evil one that is in its place, with its signature or without."""
    assertion = find(root, "saml:Assertion")
    wrapper = evil(assertion) if signed else without_signature(evil(assertion))
    root.replace(assertion, wrapper)
    return assertion, wrapper


def xsw4(root: Element) -> Element:
    """The signed assertion within an evil one."""
    assertion, wrapper = replaced(root, signed=False)
    wrapper.append(assertion)
    return root


def xsw5(root: Element) -> Element:
    """The evil assertion has the signature; the signed one, without it, is at the end."""
    root.append(without_signature(replaced(root, signed=True)[0]))
    return root


def xsw6(root: Element) -> Element:
    """As xsw5, with the signed assertion within the signature."""
    assertion, _ = replaced(root, signed=True)
    find(root, "ds:Signature").append(without_signature(assertion))
    return root


def xsw7(root: Element) -> Element:
    """The evil assertion within extensions."""
    extensions = etree.Element(f"{{{SAMLP}}}Extensions")
    extensions.append(without_signature(evil(find(root, "saml:Assertion"))))
    root.insert(0, extensions)
    return root


def xsw8(root: Element) -> Element:
    """The evil assertion has the signature, which has the signed one within an object."""
    assertion, _ = replaced(root, signed=True)
    etree.SubElement(find(root, "ds:Signature"), f"{{{DS}}}Object").append(without_signature(assertion))
    return root


def advised(root: Element) -> Element:
    """The evil assertion has the signed one as advice."""
    assertion, wrapper = replaced(root, signed=False)
    etree.SubElement(wrapper, f"{{{SAML}}}Advice").append(assertion)
    return root


def elsewhere(root: Element) -> Element:
    """No evil assertion at all: the signed one is not where an assertion belongs."""
    etree.SubElement(root, f"{{{SAMLP}}}Extensions").append(find(root, "saml:Assertion"))
    return root


def response_within(root: Element) -> Element:
    """The evil response has no signature; the signed response is within its extensions."""
    wrapper = find_and_remove(without_signature(evil(root)), "saml:Assertion")
    etree.SubElement(wrapper, f"{{{SAMLP}}}Extensions").append(root)
    return wrapper


WRAPPINGS: Final[Table] = {
    "assertion_count": {
        **{
            f"XSW {number}, the {place} is signed": partial(lambda wrap, place: wrap(login(place)), wrap, place)
            for number, wrap in enumerate((xsw1, xsw2, xsw3, xsw4, xsw5, xsw6, xsw7, xsw8), 1)
            for place in ("assertion", "response", "both")
        },
        "the signed assertion as advice": lambda: advised(login()),
    },
    "assertion_misplaced": {
        "the signed assertion elsewhere": lambda: elsewhere(login()),
        "the signed response within another one": lambda: response_within(login("response")),
    },
    "duplicate_id": {"two assertions, both signed": lambda: twice(login())},
}


def twice(root: Element) -> Element:
    root.append(deepcopy(find(root, "saml:Assertion")))
    return root


def test_a_wrapped_assertion_is_refused() -> None:
    check(WRAPPINGS)


# Signatures that are not what SAML allows.


def changed(change: Callable[[Element], object], place: str = "assertion") -> Element:
    """A response with a changed signature whose SignedInfo is signed again."""
    root = login(place)  # type: ignore[arg-type]
    change(find(root, "ds:Signature"))
    return resign(root)


def with_algorithm(name: str, algorithm: str) -> Element:
    return changed(lambda signature: find(signature, name).set("Algorithm", algorithm))


def with_transforms(*transforms: str) -> Element:
    elements = [
        etree.fromstring(text if text.startswith("<") else f'<Transform xmlns="{DS}" Algorithm="{text}"/>')
        for text in transforms
    ]
    return changed(lambda signature: find(signature, "ds:Transforms").__setitem__(slice(None), elements))


def with_prefixes(method: str, prefixes: str, *, of: str = "ds:CanonicalizationMethod") -> Element:
    def change(signature: Element) -> None:
        element = find(signature, of)
        element.set("Algorithm", method)
        etree.SubElement(element, f"{{{EXCLUSIVE_C14N}}}InclusiveNamespaces", {"PrefixList": prefixes})

    return changed(change)


def inserted(path: str, xml: str) -> Element:
    return changed(lambda signature: (signature if not path else find(signature, path)).append(etree.fromstring(xml)))


def find_and_remove(root: Element, name: str) -> Element:
    element = find(root, name)
    parent(element).remove(element)
    return root


def referring_to(uri: str) -> Element:
    return changed(lambda signature: find(signature, "ds:Reference").set("URI", uri))


def many_references(count: int) -> Element:
    def change(signature: Element) -> None:
        signed_info, reference = find(signature, "ds:SignedInfo"), find(signature, "ds:Reference")
        signed_info.remove(reference)
        signed_info.extend(deepcopy(reference) for _ in range(count))

    return changed(change)


class WeakSigner(XMLSigner):
    """Signs with what signxml rejects otherwise."""

    def check_deprecated_methods(self) -> None:
        """All are welcome."""


def hmac_of_the_certificate() -> Element:
    """The public certificate as the secret of an HMAC."""
    signer = XMLSigner(signature_algorithm=SignatureMethod.HMAC_SHA256, c14n_algorithm=EXCLUSIVE)
    return sign_with(signer, Idp().response(), certificate_pem(rsa_key()).encode())


def sign_with(signer: XMLSigner, root: Element, key: Any) -> Element:
    """Signs the assertion, with nothing else."""
    (assertion,) = root.iterfind(f".//{SIGNATURE}[@Id='assertion']")
    (response,) = root.iterfind(f"{SIGNATURE}[@Id='response']")
    assertion.set("Id", "placeholder")
    root.remove(response)
    return signer.sign(root, key=key, reference_uri="_assertion1", id_attribute="ID")


def weak(method: SignatureMethod, digest: DigestAlgorithm) -> Element:
    signer = WeakSigner(signature_algorithm=method, digest_algorithm=digest, c14n_algorithm=EXCLUSIVE)
    return sign_with(signer, Idp().response(), rsa_key())


def signed_by_another(*, names_its_key: bool) -> Element:
    """A response for the victim, by the attacker's key, with or without that in KeyInfo."""
    return sign(Idp(subject=VICTIM).response(), key=rsa_key(1), key_info=names_its_key)


def signed_around() -> Element:
    """A response by the attacker's key around an assertion that the provider has signed."""
    return sign(Idp().response(), "both", key=rsa_key(1), assertion_key=rsa_key())


def with_key_value() -> Element:
    """The attacker's key as a value, beside no certificate."""
    root = signed_by_another(names_its_key=False)
    numbers = rsa_key(1).public_key().public_numbers()
    modulus = base64.b64encode(numbers.n.to_bytes(256, "big")).decode()
    value = f"<RSAKeyValue><Modulus>{modulus}</Modulus><Exponent>AQAB</Exponent></RSAKeyValue>"
    key_info = f'<KeyInfo xmlns="{DS}"><KeyValue>{value}</KeyValue></KeyInfo>'
    find(root, "ds:Signature").append(etree.fromstring(key_info))
    return root


def moved_signature() -> Element:
    """The assertion's signature belongs to the subject."""
    root = login()
    find(root, "saml:Subject").append(find(root, "ds:Signature"))
    return root


def doubled_signature() -> Element:
    root = login()
    signature = find(root, "ds:Signature")
    parent(signature).append(deepcopy(signature))
    return root


def tampered(place: str, name: str, text: str) -> Element:
    root = login(place)  # type: ignore[arg-type]
    find(root, name).text = text
    return root


def nested_signature() -> Element:
    """Another signature in an unsigned place."""
    root = login()
    find(root, "samlp:Status").append(deepcopy(find(root, "ds:Signature")))
    return root


STYLE_SHEET = f"""<Transform xmlns="{DS}" Algorithm="http://www.w3.org/TR/1999/REC-xslt-19991116">
  <x:stylesheet xmlns:x="http://www.w3.org/1999/XSL/Transform" version="1.0"><x:template match="/">
  <x:for-each select="//node()"><x:for-each select="//node()"><x:copy-of select="/"/></x:for-each></x:for-each>
  </x:template></x:stylesheet></Transform>"""
XPATH = f"""<Transform xmlns="{DS}" Algorithm="http://www.w3.org/TR/1999/REC-xpath-19991116">
  <XPath>count(//. | //@* | //namespace::*) > 0</XPath></Transform>"""
ENVELOPED = f"{DS}enveloped-signature"
C14N = "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"
MORE = "http://www.w3.org/2001/04/xmldsig-more#"

W3 = "http://www.w3.org/"
METHOD, CANONICALIZATION = "ds:SignatureMethod", "ds:CanonicalizationMethod"

SIGNATURES: Final[Table] = {
    "signature_missing": {
        "no signature": lambda: sign(Idp().response(), "nothing"),
        "removed": lambda: find_and_remove(login(), "ds:Signature"),
        "moved": moved_signature,
    },
    "signature_count": {"two signatures of one element": doubled_signature},
    "signature_misplaced": {"another signature elsewhere": nested_signature},
    "signature_invalid": {
        "the key of an attacker": lambda: signed_by_another(names_its_key=False),
        "an assertion of the provider in a response of an attacker": signed_around,
        "the key of an attacker in KeyInfo": lambda: signed_by_another(names_its_key=True),
        "the key of an attacker as a value": with_key_value,
        # An RSA signature as ECDSA and as PSS.
        **each(partial(with_algorithm, METHOD), f"{MORE}ecdsa-sha256", f"{W3}2007/05/xmldsig-more#sha256-rsa-MGF1"),
        "another value": lambda: tampered("assertion", "ds:SignatureValue", "AAAA"),
        "another digest": lambda: tampered("assertion", "ds:DigestValue", "A" * 43 + "="),
    },
    "signature_algorithm": {
        "SHA-1": lambda: weak(SignatureMethod.RSA_SHA1, DigestAlgorithm.SHA256),
        "SHA-224": lambda: weak(SignatureMethod.RSA_SHA224, DigestAlgorithm.SHA256),
        "HMAC with the certificate as its key": hmac_of_the_certificate,
        **each(partial(with_algorithm, METHOD), "none", "", f"{MORE}rsa-md5", f"{W3}2009/xmldsig11#dsa-sha256"),
    },
    "digest_algorithm": {
        "SHA-1": lambda: weak(SignatureMethod.RSA_SHA256, DigestAlgorithm.SHA1),
        **each(partial(with_algorithm, "ds:DigestMethod"), f"{MORE}md5"),
    },
    "canonicalization_algorithm": each(partial(with_algorithm, CANONICALIZATION), f"{W3}2010/xml-c14n2", ""),
    "signature_form": {
        **each(partial(inserted, METHOD), f'<HMACOutputLength xmlns="{DS}">1</HMACOutputLength>'),
        **each(partial(inserted, "ds:DigestMethod"), "<a/>"),
        **each(partial(inserted, ""), f'<Object xmlns="{DS}"/>', f'<KeyInfo xmlns="{DS}"/>'),
        **each(
            with_transforms,
            f'<Transform xmlns="{DS}" Algorithm="{ENVELOPED}"><a/></Transform>',
            f'<T xmlns="{DS}" Algorithm="{ENVELOPED}"/>',
        ),
        "prefixes of the enveloped signature": lambda: with_prefixes(ENVELOPED, "a", of="ds:Transform"),
        **{
            f"no {name}": partial(lambda name: find_and_remove(login(), name), name)
            for name in ("ds:SignatureValue", "ds:SignedInfo", "ds:DigestValue")
        },
        # No value, none that is base64, an endless one.
        **each(partial(tampered, "assertion", "ds:SignatureValue"), "", "ä", "A" * 4_096),
    },
    "reference_count": {f"{count}": partial(many_references, count) for count in (0, 2, 500)},
    "reference_mismatch": {
        **each(
            referring_to,
            *("", "#_response1", "_assertion1", "##_assertion1", "http://127.0.0.1:1/#_assertion1"),
            *("file:///etc/passwd", "#xpointer(id('_assertion1'))"),
        ),
        "nothing": lambda: changed(lambda signature: find(signature, "ds:Reference").attrib.pop("URI")),
        "an XPath expression as ID": lambda: login(assertion_id="x' or '1'='1"),
    },
    "signature_transforms": {
        f"{number}: {transforms[:3]}"[:80]: partial(with_transforms, *transforms)
        for number, transforms in enumerate(
            (
                *((ENVELOPED, STYLE_SHEET), (STYLE_SHEET,), (ENVELOPED, XPATH), (ENVELOPED, f"{DS}base64")),
                *((ENVELOPED, f"{W3}2002/06/xmldsig-filter2"), (), (EXCLUSIVE_C14N,), (EXCLUSIVE_C14N, ENVELOPED)),
                *((ENVELOPED, ENVELOPED), (ENVELOPED, C14N, EXCLUSIVE_C14N), (ENVELOPED, *[C14N] * 1_000)),
            )
        )
    },
    "prefix_list": {
        **each(partial(with_prefixes, EXCLUSIVE_C14N), "a " * 17, " "),
        **each(partial(with_prefixes, C14N), "xs"),
        **each(partial(inserted, CANONICALIZATION), "<a/>"),
    },
    "digest_mismatch": {
        "another subject": lambda: tampered("assertion", "saml:NameID", VICTIM),
        "another subject in a signed response": lambda: tampered("response", "saml:NameID", VICTIM),
        "another issuer of a signed response": lambda: tampered("both", "saml:Issuer", VICTIM),
    },
}


def test_a_hostile_signature_is_refused() -> None:
    check(SIGNATURES)


def test_an_ecdsa_signature_of_another_length_is_refused() -> None:
    """Zeros are a signature of everything to some verifiers (CVE-2022-21449)."""
    what_is_expected = expected()
    for value in (b"", b"\0" * 64, b"\0" * 63, b"\xff" * 64, b"\0" * 96):
        root = login(key=ec_key())
        find(root, "ds:SignatureValue").text = base64.b64encode(value).decode()
        with pytest.raises(LoginRefused) as refused:
            verify_response(post(root), what_is_expected)
        assert refused.value.reason == ("signature_form" if not value else "signature_invalid")


# Responses that the provider has signed, and that are not for this login.

STATUS = "urn:oasis:names:tc:SAML:2.0:status:"
TRANSIENT = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"


def rebuilt(change: Callable[[Element], object]) -> Element:
    """A response that was changed before the provider signed it."""
    root = Idp().response()
    change(root)
    return sign(root)


def doubled(name: str) -> Element:
    return rebuilt(lambda root: find(root, name).addnext(deepcopy(find(root, name))))


def missing(name: str) -> Element:
    return rebuilt(lambda root: find_and_remove(root, name))


EVIL = "https://evil.example.com/acs"
# What a provider says that is not for this login: fields of its response.
SAID: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    "status_not_success": ({"status": f"{STATUS}Responder"},),
    "version": ({"version": "1.1"},),
    "issuer_mismatch": (
        *({"issuer": "https://evil.example.com"}, {"issuer": f"\u00a0{IDP}"}, {"response_issuer": EVIL}),
        {"issuer_format": "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"},
    ),
    "issuer_count": ({"issuer": None},),
    "audience_mismatch": (
        *({"audiences": (other,)} for other in (f"{SP}\u2003", SP.replace("/", " /", 1), "https://other.example.com")),
        {"audiences": ()},
        {"conditions": "<saml:AudienceRestriction><saml:Audience>x</saml:Audience></saml:AudienceRestriction>"},
    ),
    "audience_missing": ({"audiences": None},),
    "destination_mismatch": ({"destination": EVIL}, {"place": "response", "destination": ""}),
    "recipient_mismatch": ({"recipient": EVIL}, {"recipient": None}),
    "text_with_elements": ({"subject": "root@example.com<saml:x/>.evil.example"},),
    "unknown_condition": ({"conditions": "<saml:Condition/>"}, {"conditions": '<OneTimeUse xmlns="urn:x"/>'}),
    "confirmation_count": ({"method": "urn:oasis:names:tc:SAML:2.0:cm:sender-vouches"},),
    "confirmation_expired": tuple(
        {"confirmation_not_on_or_after": end} for end in (instant(-60), "0001-01-01T00:00:00Z")
    ),
    "in_response_to_mismatch": ({"in_response_to": "_other"}, {"response_in_response_to": "_other"}),
    "in_response_to_missing": ({"in_response_to": None}, {"response_in_response_to": None}),
    "idp_initiated": ({"in_response_to": None, "response_in_response_to": None},),
    "confirmation_not_yet_valid": ({"confirmation_not_before": instant(61)},),
    "instant_format": (
        {"confirmation_not_before": "now"},
        *({"not_on_or_after": f"2026-11-20T15:05:00{zone}"} for zone in ("", "+01:00", "Z ")),
        {"not_on_or_after": "２026-11-20T15:05:00Z"},  # noqa: RUF001
        {"not_before": "2026-11-20T14:59:60Z"},
        {"session_not_on_or_after": ""},
    ),
    "confirmation_unlimited": ({"confirmation_not_on_or_after": None},),
    "conditions_expired": ({"not_on_or_after": instant(-60)},),
    "not_yet_valid": ({"not_before": instant(61)},),
    "session_expired": ({"session_not_on_or_after": instant(-60)},),
    "lifetime_too_long": ({"confirmation_not_on_or_after": "9999-12-31T23:59:59Z", "not_on_or_after": None},),
    "name_id_transient": ({"subject_format": TRANSIENT},),
    "name_id_length": ({"subject": ""}, {"subject": "x" * 257}, {"subject_format": "x" * 1_025}),
    "name_id_characters": tuple({"subject": subject} for subject in (" alice ", "alice\nroot", "\u200b")),
    "attribute_name": tuple({"attributes": ((name, ("x",)),)} for name in ("", "x" * 1_025)),
    "assertion_id": ({"place": "response", "assertion_id": "x" * 257},),
}
# What there must be once, and is refused twice and not at all.
ONCE: Final = {
    "samlp:Status": "status_count",
    "saml:Conditions": "conditions_count",
    "saml:Subject": "subject_count",
    "saml:SubjectConfirmationData": "subject_confirmation_data_count",
    "saml:AuthnStatement": "authn_statement_count",
    "saml:NameID": "name_id_count",
}
STRUCTURE: Final[Table] = {
    **{reason: {"missing": partial(missing, name), "doubled": partial(doubled, name)} for name, reason in ONCE.items()},
    "status_code_count": {"missing": lambda: missing("samlp:StatusCode")},
    "assertion_count": {"missing": lambda: find_and_remove(login("nothing"), "saml:Assertion")},
    "confirmation_count": {"missing": lambda: missing("saml:SubjectConfirmation")},
    "version": {"1.1": lambda: rebuilt(lambda root: find(root, "saml:Assertion").set("Version", "1.1"))},
    "issuer_count": {"doubled": lambda: rebuilt(double_the_issuer)},
    "text_with_elements": {
        "audience": lambda: rebuilt(lambda root: etree.SubElement(find(root, "saml:Audience"), "a"))
    },
    "authn_context": {
        "doubled": lambda: doubled("saml:AuthnContextClassRef"),
        "endless": lambda: rebuilt(lambda root: setattr(find(root, "saml:AuthnContextClassRef"), "text", "x" * 1_025)),
    },
    # Several confirmations, of which none is for this login now.
    "recipient_mismatch": {"others": lambda: login_confirmed_by({"Recipient": EVIL}, {"Recipient": None})},
    "confirmation_expired": {
        "ours": lambda: login_confirmed_by({"Recipient": EVIL}, {"NotOnOrAfter": instant(-60)}),
    },
    "in_response_to_mismatch": {
        "what holds of them does not add up": lambda: login_confirmed_by(
            {"InResponseTo": "_other"}, {"Recipient": "x"}, {"NotOnOrAfter": instant(-60)}
        ),
    },
    "in_response_to_missing": {"all": lambda: login_confirmed_by({"InResponseTo": None}, {"InResponseTo": None})},
}


def double_the_issuer(root: Element) -> None:
    find(root, "saml:Assertion").insert(0, deepcopy(find(root, "saml:Issuer")))


def test_a_response_that_is_not_for_this_login_is_refused() -> None:
    check(STRUCTURE)
    for reason, said in SAID.items():
        for changes in said:
            assert reason_of(post(login(**changes))) == reason, changes


def test_signxml_decides_whatever_key_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signature, "_verifies", lambda *_: True)
    assert reason_of(post(signed_by_another(names_its_key=True))) == "signature_invalid"


def test_what_was_digested_is_read_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the two differ, as they must never do."""
    verify = XMLVerifier.verify

    def digested(verifier: XMLVerifier, *arguments: Any, **options: Any) -> Any:
        found: Any = verify(verifier, *arguments, **options)
        find(found.signed_xml, "saml:NameID").text = "digested"
        return found

    monkeypatch.setattr(XMLVerifier, "verify", digested)
    places: tuple[Signed, ...] = ("assertion", "response", "both")
    assert {verify_response(post(login(place)), expected()).subject for place in places} == {"digested"}


def test_what_is_signed_must_be_the_element(monkeypatch: pytest.MonkeyPatch) -> None:
    for xml in ("", "<x/>", f'<Assertion xmlns="{SAML}" ID="_other"/>'):
        found = VerifyResult(b"", etree.fromstring(xml) if xml else None, etree.Element("x"), b"")
        monkeypatch.setattr(XMLVerifier, "verify", lambda *_, found=found, **__: found)
        assert reason_of(post(login())) == "signature_invalid", xml
