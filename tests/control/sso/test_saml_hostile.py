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
from signxml.algorithms import CanonicalizationMethod, DigestAlgorithm, SignatureMethod
from signxml.signer import XMLSigner
from signxml.verifier import VerifyResult, XMLVerifier

from control.sso.refusal import LoginRefused
from control.sso.saml import signature
from control.sso.saml.document import MAX_ATTRIBUTES, MAX_BYTES, MAX_DEPTH, MAX_ELEMENTS, MAX_NAMESPACES
from control.sso.saml.namespaces import DS, EXCLUSIVE_C14N, SAML, SAMLP, XENC
from control.sso.saml.response import verify_response
from tests.control.sso.saml_idp import (
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
    found = {name: reason_of(post(build())) for cases in table.values() for name, build in cases.items()}
    assert found == {name: reason for reason, cases in table.items() for name in cases}


# What is not a response at all, or not one that is worth decoding.

ENCODED: Final[dict[str, dict[str, Callable[[], str]]]] = {
    "not_xml": {
        "nothing": lambda: "",
        "line breaks alone": lambda: "\r\n\n",
        "300 KiB of line breaks": lambda: "\n" * 300 * 1024,
    },
    "not_base64": {
        "no base64": lambda: "<samlp:Response/>",
        "base64 of URLs": lambda: "PD94bWw_" * 4,
        "base64 without padding": lambda: "PHg+PC94Pg",
        "base64 with too much padding": lambda: post("<x/>") + "=",
        "base64 with something after it": lambda: post("<a></a>!") + "PHg+",
        "base64 with spaces": lambda: "PHg+ PC94 Pg==",
        "letters that are not ASCII": lambda: "PHg\u212a",
        "a lone surrogate": lambda: "PHg\udc80",
    },
    "response_too_large": {
        "a byte more than may be": lambda: post(b" " * (MAX_BYTES + 1)),
        "300 KiB": lambda: post(b" " * 300 * 1024),
        "a megabyte of line breaks": lambda: "\n" * 1024 * 1024,
        "a megabyte of nothing in base64": lambda: "!" * 1024 * 1024,
    },
}


def test_a_field_that_is_no_document_is_refused() -> None:
    for reason, cases in ENCODED.items():
        assert {name: reason_of(build()) for name, build in cases.items()} == dict.fromkeys(cases, reason)


# Documents that attack the parser, or are ambiguous. Those that have a place for it are signed.

LOL = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))


def with_prolog(prolog: str, subject: str = "&x;") -> str:
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


def altered(name: str, attribute: str, value: str) -> Element:
    """A signed response with one attribute set afterwards."""
    root = login()
    (root if name == "samlp:Response" else find(root, name)).set(attribute, value)
    return root


DOCUMENTS: Final[Table] = {
    "not_xml": {
        "text": lambda: "hello",
        "a document that is cut off": lambda: etree.tostring(login())[:-20],
        "two documents": lambda: etree.tostring(login()) * 2,
        "UTF-16 without a mark": lambda: etree.tostring(login(), encoding="unicode").encode("utf-16-le"),
        "UTF-7 that hides a document type": lambda: with_prolog(
            '<?xml version="1.0" encoding="UTF-7"?>+ADwAIQ-DOCTYPE x+AD4-', "x"
        ),
        "a NUL": lambda: with_text("alice@example.com", "alice\0"),
        "an entity that nobody declares": lambda: with_text("alice@example.com", "&victim;"),
        "a prefix that is not declared": lambda: around("<a:b/>"),
        "very deep nesting": lambda: around("<a>" * 4_000 + "</a>" * 4_000),
    },
    "not_a_response": {
        "HTML": lambda: "<html><body>Log in</body></html>",
        "an assertion alone": lambda: etree.tostring(find(login(), "saml:Assertion")),
        "a logout response": lambda: f'<samlp:LogoutResponse xmlns:samlp="{SAMLP}" Version="2.0"/>',
    },
    "foreign_namespace": {
        "a response of SAML 1.1": lambda: '<Response xmlns="urn:oasis:names:tc:SAML:1.0:protocol" MajorVersion="1"/>',
        "an assertion in another namespace": lambda: around('<Assertion xmlns="urn:x"/>'),
        "a signature without a namespace": lambda: around("<Signature/>"),
        "a response of another protocol within": lambda: around(
            '<Response xmlns="urn:oasis:names:tc:SAML:1.0:protocol"/>'
        ),
        "a NameID in another namespace": lambda: around(f'<NameID xmlns="{SAMLP}">{VICTIM}</NameID>'),
    },
    "not_utf8": {
        "UTF-16": lambda: etree.tostring(login(), encoding="utf-16"),
        "Latin-1": lambda: etree.tostring(login(subject="älice"), encoding="iso-8859-1"),
    },
    "doctype": {
        "an external entity": lambda: with_prolog('<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>'),
        "an external entity of the network": lambda: with_prolog(
            '<!DOCTYPE r [<!ENTITY x SYSTEM "http://127.0.0.1:1/">]>'
        ),
        "an external document type": lambda: with_prolog('<!DOCTYPE r SYSTEM "http://127.0.0.1:1/x.dtd">', "x"),
        "parameter entities": lambda: with_prolog(
            '<!DOCTYPE r [<!ENTITY % p SYSTEM "file:///etc/hostname"> %p;]>', "x"
        ),
        "a billion laughs": lambda: with_prolog(f'<!DOCTYPE r [<!ENTITY l0 "lol">{LOL}]>', "&l9;"),
        "a billion laughs in an attribute": lambda: f'<!DOCTYPE r [<!ENTITY l0 "lol">{LOL}]><r a="&l9;"/>',
        "defaults of attributes": lambda: with_prolog(
            '<!DOCTYPE r [<!ATTLIST samlp:Response Destination CDATA "x">]>', "x"
        ),
        "a document type after an XML declaration": lambda: with_prolog('<?xml version="1.0"?>\n<!DOCTYPE r>', "x"),
    },
    "processing_instruction": {
        "a style sheet": lambda: with_prolog('<?xml-stylesheet href="http://127.0.0.1:1/x.xsl"?>', "x"),
        "a processing instruction in the NameID": lambda: with_text(
            "alice@example.com", "root@example.com<?x?>.evil.example"
        ),
    },
    "comment": {
        "a comment in the NameID": lambda: with_text("alice@example.com", "alice<!-- -->@example.com"),
        "a comment outside of the assertion": lambda: around("<!-- -->"),
    },
    "too_deep": {
        "deep nesting": lambda: around("<a>" * MAX_DEPTH + "</a>" * MAX_DEPTH),
    },
    "too_many_elements": {
        "a quarter of a megabyte of elements": lambda: around("<a/>" * 60_000),
        "many elements": lambda: around("<a/>" * MAX_ELEMENTS),
        "many short signed attributes of a user": lambda: login(
            statements="<saml:AttributeStatement>"
            + '<saml:Attribute Name="a"/>' * MAX_ELEMENTS
            + "</saml:AttributeStatement>"
        ),
    },
    "response_too_large": {
        "many signed attributes of a user": lambda: login(attributes=(("groups", ("g",) * MAX_ELEMENTS),)),
    },
    "too_many_attributes": {
        "many attributes of an element": lambda: around(start_tag('a{}=""', MAX_ATTRIBUTES + 1)),
        "a start tag of a quarter of a megabyte": lambda: around(start_tag('a{}=""', 25_000)),
    },
    "too_many_namespaces": {
        "many namespaces": lambda: around(start_tag('xmlns:a{}="urn:a"', MAX_NAMESPACES)),
        "many namespaces, hidden by one another": lambda: around(
            "<a xmlns='urn:a' xmlns:b='urn:b'>" * 16 + "</a>" * 16
        ),
    },
    "relative_namespace": {
        "void canonicalization": lambda: around('<a xmlns:a="1"/>'),
        "void canonicalization of what is signed": lambda: with_text("<saml:Subject>", '<saml:Subject xmlns:a="1">'),
    },
    "canonicalization_failed": {
        "void canonicalization by a URI with a colon": lambda: with_text(
            "<saml:Subject>", '<saml:Subject xmlns:a="./a:b">'
        ),
        "void canonicalization of SignedInfo": lambda: with_text("<ds:SignedInfo>", '<ds:SignedInfo xmlns:a="./a:b">'),
    },
    "duplicate_id": {
        "two elements of one ID": lambda: around('<a ID="_assertion1"/>'),
        "two elements of one ID, spelled otherwise": lambda: around('<a id="_assertion1"/>'),
    },
    "ambiguous_id": {
        "an ID in a namespace": lambda: around(f'<a xmlns:b="{SAML}" b:ID="_x"/>'),
        "xml:id": lambda: around('<a xml:id="_x"/>'),
        "attribute pollution": lambda: altered("saml:Assertion", f"{{{SAMLP}}}ID", "_evil"),
        "two IDs of one element": lambda: altered("saml:Assertion", "Id", "_evil"),
    },
    "encrypted_assertion": {
        "an encrypted assertion": lambda: around(f'<EncryptedAssertion xmlns="{SAML}"/>'),
        "an encrypted NameID": lambda: sign(
            etree.fromstring(etree.tostring(Idp().response()).replace(b"NameID", b"EncryptedID"))
        ),
        "an encrypted attribute": lambda: login(
            statements="<saml:AttributeStatement><saml:EncryptedAttribute/></saml:AttributeStatement>"
        ),
        "encrypted data": lambda: around(f'<EncryptedData xmlns="{XENC}"/>'),
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
    signature = find(wrapper, "ds:Signature")
    parent(signature).insert(parent(signature).index(signature), without_signature(root))
    return wrapper


def xsw3(root: Element) -> Element:
    """An evil assertion before the signed one."""
    assertion = find(root, "saml:Assertion")
    root.insert(root.index(assertion), without_signature(evil(assertion)))
    return root


def xsw4(root: Element) -> Element:
    """The signed assertion within an evil one."""
    assertion = find(root, "saml:Assertion")
    wrapper = without_signature(evil(assertion))
    root.replace(assertion, wrapper)
    wrapper.append(assertion)
    return root


def xsw5(root: Element) -> Element:
    """The evil assertion has the signature; the signed one, without it, is at the end."""
    assertion = find(root, "saml:Assertion")
    root.replace(assertion, evil(assertion))
    root.append(without_signature(assertion))
    return root


def xsw6(root: Element) -> Element:
    """As xsw5, with the signed assertion within the signature."""
    assertion = find(root, "saml:Assertion")
    wrapper = evil(assertion)
    root.replace(assertion, wrapper)
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
    assertion = find(root, "saml:Assertion")
    wrapper = evil(assertion)
    root.replace(assertion, wrapper)
    etree.SubElement(find(root, "ds:Signature"), f"{{{DS}}}Object").append(without_signature(assertion))
    return root


def advised(root: Element) -> Element:
    """The evil assertion has the signed one as advice."""
    assertion = find(root, "saml:Assertion")
    wrapper = without_signature(evil(assertion))
    root.replace(assertion, wrapper)
    etree.SubElement(wrapper, f"{{{SAML}}}Advice").append(assertion)
    return root


def elsewhere(root: Element) -> Element:
    """No evil assertion at all: the signed one is not where an assertion belongs."""
    assertion = find(root, "saml:Assertion")
    extensions = etree.SubElement(root, f"{{{SAMLP}}}Extensions")
    extensions.append(assertion)
    return root


def response_within(root: Element) -> Element:
    """The evil response has no signature; the signed response is within its extensions."""
    wrapper = without_signature(evil(root))
    wrapper.remove(find(wrapper, "saml:Assertion"))
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
    def change(signature: Element) -> None:
        element = find(signature, "ds:Transforms")
        element[:] = [
            etree.fromstring(each if each.startswith("<") else f'<Transform xmlns="{DS}" Algorithm="{each}"/>')
            for each in transforms
        ]

    return changed(change)


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


def referring_to(uri: str | None) -> Element:
    def change(signature: Element) -> None:
        reference = find(signature, "ds:Reference")
        if uri is None:
            del reference.attrib["URI"]
        else:
            reference.set("URI", uri)

    return changed(change)


def many_references(count: int) -> Element:
    def change(signature: Element) -> None:
        signed_info = find(signature, "ds:SignedInfo")
        reference = find(signed_info, "ds:Reference")
        signed_info.remove(reference)
        signed_info.extend(deepcopy(reference) for _ in range(count))

    return changed(change)


class WeakSigner(XMLSigner):
    """Signs with what signxml rejects otherwise."""

    def check_deprecated_methods(self) -> None:
        """All are welcome."""


def hmac_of_the_certificate() -> Element:
    """The public certificate as the secret of an HMAC."""
    root = Idp().response()
    return sign_with(
        XMLSigner(signature_algorithm=SignatureMethod.HMAC_SHA256, c14n_algorithm=EXCLUSIVE),
        root,
        certificate_pem(rsa_key()).encode(),
    )


EXCLUSIVE = CanonicalizationMethod.EXCLUSIVE_XML_CANONICALIZATION_1_0


def sign_with(signer: XMLSigner, root: Element, key: Any) -> Element:
    """Signs the assertion, with nothing else."""
    assertion, response = (
        root.iterfind(f".//{SIGNATURE}[@Id='assertion']"),
        root.iterfind(f"{SIGNATURE}[@Id='response']"),
    )
    next(assertion).set("Id", "placeholder")
    root.remove(next(response))
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
    find(root, "ds:Signature").append(
        etree.fromstring(
            f'<KeyInfo xmlns="{DS}"><KeyValue><RSAKeyValue><Modulus>{modulus}</Modulus><Exponent>AQAB</Exponent>'
            "</RSAKeyValue></KeyValue></KeyInfo>"
        )
    )
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


def raw_ecdsa() -> Element:
    """A response signed with RSA that names ECDSA."""
    return with_algorithm("ds:SignatureMethod", "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha256")


STYLE_SHEET = f"""<Transform xmlns="{DS}" Algorithm="http://www.w3.org/TR/1999/REC-xslt-19991116">
  <x:stylesheet xmlns:x="http://www.w3.org/1999/XSL/Transform" version="1.0"><x:template match="/">
  <x:for-each select="//node()"><x:for-each select="//node()"><x:copy-of select="/"/></x:for-each></x:for-each>
  </x:template></x:stylesheet></Transform>"""
XPATH = f"""<Transform xmlns="{DS}" Algorithm="http://www.w3.org/TR/1999/REC-xpath-19991116">
  <XPath>count(//. | //@* | //namespace::*) > 0</XPath></Transform>"""
ENVELOPED = f"{DS}enveloped-signature"
C14N = "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"
MORE = "http://www.w3.org/2001/04/xmldsig-more#"

SIGNATURES: Final[Table] = {
    "signature_missing": {
        "no signature": lambda: sign(Idp().response(), "nothing"),
        "the signature was removed": lambda: find_and_remove(login(), "ds:Signature"),
        "the signature was moved": moved_signature,
    },
    "signature_count": {
        "two signatures of one element": doubled_signature,
    },
    "signature_misplaced": {
        "another signature elsewhere": nested_signature,
    },
    "signature_invalid": {
        "the key of an attacker": lambda: signed_by_another(names_its_key=False),
        "an assertion of the provider in a response of an attacker": signed_around,
        "the key of an attacker in KeyInfo": lambda: signed_by_another(names_its_key=True),
        "the key of an attacker as a value": with_key_value,
        "an RSA signature as ECDSA": raw_ecdsa,
        "an RSA signature as PSS": lambda: with_algorithm(
            "ds:SignatureMethod", "http://www.w3.org/2007/05/xmldsig-more#sha256-rsa-MGF1"
        ),
        "another value": lambda: tampered("assertion", "ds:SignatureValue", "AAAA"),
        "another digest": lambda: tampered("assertion", "ds:DigestValue", "A" * 43 + "="),
    },
    "signature_algorithm": {
        "SHA-1": lambda: weak(SignatureMethod.RSA_SHA1, DigestAlgorithm.SHA256),
        "SHA-224": lambda: weak(SignatureMethod.RSA_SHA224, DigestAlgorithm.SHA256),
        "HMAC with the certificate as its key": hmac_of_the_certificate,
        "the algorithm none": lambda: with_algorithm("ds:SignatureMethod", "none"),
        "no algorithm": lambda: with_algorithm("ds:SignatureMethod", ""),
        "MD5": lambda: with_algorithm("ds:SignatureMethod", f"{MORE}rsa-md5"),
        "DSA": lambda: with_algorithm("ds:SignatureMethod", "http://www.w3.org/2009/xmldsig11#dsa-sha256"),
    },
    "digest_algorithm": {
        "a digest by SHA-1": lambda: weak(SignatureMethod.RSA_SHA256, DigestAlgorithm.SHA1),
        "an unknown digest": lambda: with_algorithm("ds:DigestMethod", f"{MORE}md5"),
    },
    "canonicalization_algorithm": {
        "an unknown canonicalization": lambda: with_algorithm(
            "ds:CanonicalizationMethod", "http://www.w3.org/2010/xml-c14n2"
        ),
        "no canonicalization": lambda: with_algorithm("ds:CanonicalizationMethod", ""),
    },
    "signature_form": {
        "a truncated HMAC": lambda: inserted(
            "ds:SignatureMethod", f'<HMACOutputLength xmlns="{DS}">1</HMACOutputLength>'
        ),
        "parameters of a digest": lambda: inserted("ds:DigestMethod", "<a/>"),
        "parameters of the enveloped signature": lambda: with_transforms(
            f'<Transform xmlns="{DS}" Algorithm="{ENVELOPED}"><a/></Transform>'
        ),
        "a transform of another name": lambda: with_transforms(f'<T xmlns="{DS}" Algorithm="{ENVELOPED}"/>'),
        "prefixes of the enveloped signature": lambda: with_prefixes(ENVELOPED, "a", of="ds:Transform"),
        "an object": lambda: inserted("", f'<Object xmlns="{DS}"/>'),
        "two KeyInfo": lambda: inserted("", f'<KeyInfo xmlns="{DS}"/>'),
        "no value": lambda: find_and_remove(login(), "ds:SignatureValue"),
        "no SignedInfo": lambda: find_and_remove(login(), "ds:SignedInfo"),
        "no digest": lambda: find_and_remove(login(), "ds:DigestValue"),
        "an empty value": lambda: tampered("assertion", "ds:SignatureValue", ""),
        "a value that is no base64": lambda: tampered("assertion", "ds:SignatureValue", "ä"),
        "an endless value": lambda: tampered("assertion", "ds:SignatureValue", "A" * 4_096),
    },
    "reference_count": {
        "no references": lambda: many_references(0),
        "two references": lambda: many_references(2),
        "a thousand references": lambda: many_references(500),
    },
    "reference_mismatch": {
        "a reference to the whole document": lambda: referring_to(""),
        "a reference to nothing": lambda: referring_to(None),
        "a reference to another element": lambda: referring_to("#_response1"),
        "a reference without a hash": lambda: referring_to("_assertion1"),
        "a reference with two": lambda: referring_to("##_assertion1"),
        "a reference to the network": lambda: referring_to("http://127.0.0.1:1/#_assertion1"),
        "a reference to a file": lambda: referring_to("file:///etc/passwd"),
        "an XPointer": lambda: referring_to("#xpointer(id('_assertion1'))"),
        "an XPath expression as ID": lambda: login(assertion_id="x' or '1'='1"),
    },
    "signature_transforms": {
        "XSLT": lambda: with_transforms(ENVELOPED, STYLE_SHEET),
        "XSLT first": lambda: with_transforms(STYLE_SHEET),
        "XPath": lambda: with_transforms(ENVELOPED, XPATH),
        "an XPath filter": lambda: with_transforms(ENVELOPED, "http://www.w3.org/2002/06/xmldsig-filter2"),
        "base64 as a transform": lambda: with_transforms(ENVELOPED, f"{DS}base64"),
        "no transforms": with_transforms,
        "canonicalization alone": lambda: with_transforms(EXCLUSIVE_C14N),
        "canonicalization first": lambda: with_transforms(EXCLUSIVE_C14N, ENVELOPED),
        "enveloped twice": lambda: with_transforms(ENVELOPED, ENVELOPED),
        "three transforms": lambda: with_transforms(ENVELOPED, C14N, EXCLUSIVE_C14N),
        "a thousand transforms": lambda: with_transforms(ENVELOPED, *[C14N] * 1_000),
    },
    "prefix_list": {
        "many prefixes": lambda: with_prefixes(EXCLUSIVE_C14N, "a " * 17),
        "no prefixes": lambda: with_prefixes(EXCLUSIVE_C14N, " "),
        "prefixes of inclusive canonicalization": lambda: with_prefixes(C14N, "xs"),
        "something else than prefixes": lambda: inserted("ds:CanonicalizationMethod", "<a/>"),
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


def rebuilt(change: Callable[[Element], object], place: str = "assertion") -> Element:
    """A response that was changed before the provider signed it."""
    root = Idp().response()
    change(root)
    return sign(root, place)  # type: ignore[arg-type]


def doubled(name: str) -> Element:
    def change(root: Element) -> None:
        element = find(root, name)
        parent(element).insert(parent(element).index(element) + 1, deepcopy(element))

    return rebuilt(change)


def missing(name: str) -> Element:
    def change(root: Element) -> None:
        element = find(root, name)
        parent(element).remove(element)

    return rebuilt(change)


PROFILE: Final[Table] = {
    "status_not_success": {
        "a failed login": lambda: login(status=f"{STATUS}Responder"),
    },
    "status_count": {
        "no status": lambda: missing("samlp:Status"),
        "two statuses": lambda: doubled("samlp:Status"),
    },
    "status_code_count": {
        "no code": lambda: missing("samlp:StatusCode"),
    },
    "assertion_count": {
        "no assertion": lambda: find_and_remove(login("nothing"), "saml:Assertion"),
    },
    "version": {
        "SAML 1.1": lambda: login(version="1.1"),
        "an assertion of SAML 1.1": lambda: rebuilt(lambda root: find(root, "saml:Assertion").set("Version", "1.1")),
    },
    "issuer_mismatch": {
        "another issuer": lambda: login(issuer="https://evil.example.com"),
        "an issuer within other characters": lambda: login(issuer=f"\u00a0{IDP}"),
        "another issuer of the response": lambda: login(response_issuer="https://evil.example.com"),
        "an issuer that is a person": lambda: login(
            issuer_format="urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"
        ),
    },
    "audience_mismatch": {
        "an audience within other characters": lambda: login(audiences=(f"{SP}\u2003",)),
        "an audience with white space inside": lambda: login(audiences=(SP.replace("/", " /", 1),)),
        "another audience": lambda: login(audiences=("https://other.example.com",)),
        "an empty audience": lambda: login(audiences=()),
        "another audience besides": lambda: login(
            conditions="<saml:AudienceRestriction><saml:Audience>x</saml:Audience></saml:AudienceRestriction>"
        ),
    },
    "issuer_count": {
        "no issuer": lambda: login(issuer=None),
        "two issuers": lambda: rebuilt(
            lambda root: find(root, "saml:Assertion").insert(0, deepcopy(find(root, "saml:Issuer")))
        ),
    },
    "destination_mismatch": {
        "another destination": lambda: login(destination="https://evil.example.com/acs"),
        "a signed other destination": lambda: login("response", destination=""),
    },
    "recipient_mismatch": {
        "another recipient": lambda: login(recipient="https://evil.example.com/acs"),
        "no recipient": lambda: login(recipient=None),
        "several confirmations of others": lambda: login_confirmed_by(
            {"Recipient": "https://evil.example.com/acs"}, {"Recipient": None}
        ),
    },
    "audience_missing": {
        "no audience": lambda: login(audiences=None),
    },
    "text_with_elements": {
        "elements in the audience": lambda: rebuilt(lambda root: etree.SubElement(find(root, "saml:Audience"), "a")),
        "a NameID with elements": lambda: login(subject="root@example.com<saml:x/>.evil.example"),
    },
    "unknown_condition": {
        "an unknown condition": lambda: login(conditions="<saml:Condition/>"),
        "a condition of others": lambda: login(conditions='<OneTimeUse xmlns="urn:x"/>'),
    },
    "conditions_count": {
        "no conditions": lambda: missing("saml:Conditions"),
        "two conditions": lambda: doubled("saml:Conditions"),
    },
    "subject_count": {
        "no subject": lambda: missing("saml:Subject"),
        "two subjects": lambda: doubled("saml:Subject"),
    },
    "confirmation_count": {
        "no confirmation": lambda: missing("saml:SubjectConfirmation"),
        "a confirmation by the sender": lambda: login(method="urn:oasis:names:tc:SAML:2.0:cm:sender-vouches"),
    },
    "confirmation_expired": {
        "several confirmations, ours expired": lambda: login_confirmed_by(
            {"Recipient": "https://evil.example.com/acs"}, {"NotOnOrAfter": instant(-60)}
        ),
        "an expired confirmation": lambda: login(confirmation_not_on_or_after=instant(-60)),
        "the beginning of time": lambda: login(confirmation_not_on_or_after="0001-01-01T00:00:00Z"),
    },
    "in_response_to_mismatch": {
        "what holds of several confirmations does not add up": lambda: login_confirmed_by(
            {"InResponseTo": "_other"}, {"Recipient": "x"}, {"NotOnOrAfter": instant(-60)}
        ),
        "a confirmation of another request": lambda: login(in_response_to="_other"),
        "a response to another request": lambda: login(response_in_response_to="_other"),
    },
    "in_response_to_missing": {
        "several confirmations of no request": lambda: login_confirmed_by(
            {"InResponseTo": None}, {"InResponseTo": None}
        ),
        "a confirmation of no request": lambda: login(in_response_to=None),
        "a response to no request": lambda: login(response_in_response_to=None),
    },
    "subject_confirmation_data_count": {
        "two data of one confirmation": lambda: doubled("saml:SubjectConfirmationData"),
        "no data of the confirmation": lambda: missing("saml:SubjectConfirmationData"),
    },
    "confirmation_not_yet_valid": {
        "a confirmation of the future": lambda: login(confirmation_not_before=instant(61)),
    },
    "instant_format": {
        "a confirmation from a time that is none": lambda: login(confirmation_not_before="now"),
        "a time without a zone": lambda: login(not_on_or_after="2026-11-20T15:05:00"),
        "a time in another zone": lambda: login(not_on_or_after="2026-11-20T15:05:00+01:00"),
        "a time with a space": lambda: login(not_on_or_after="2026-11-20T15:05:00Z "),
        "a time with other digits": lambda: login(not_on_or_after="２026-11-20T15:05:00Z"),  # noqa: RUF001
        "a leap second": lambda: login(not_before="2026-11-20T14:59:60Z"),
        "no time": lambda: login(session_not_on_or_after=""),
    },
    "confirmation_unlimited": {
        "a confirmation for ever": lambda: login(confirmation_not_on_or_after=None),
    },
    "conditions_expired": {
        "expired conditions": lambda: login(not_on_or_after=instant(-60)),
    },
    "not_yet_valid": {
        "conditions of the future": lambda: login(not_before=instant(61)),
    },
    "session_expired": {
        "an expired session": lambda: login(session_not_on_or_after=instant(-60)),
    },
    "lifetime_too_long": {
        "an assertion for ever": lambda: login(
            confirmation_not_on_or_after="9999-12-31T23:59:59Z", not_on_or_after=None
        ),
    },
    "idp_initiated": {
        "a login that nobody has asked for": lambda: login(in_response_to=None, response_in_response_to=None),
    },
    "authn_statement_count": {
        "no statement of authentication": lambda: missing("saml:AuthnStatement"),
        "two statements of authentication": lambda: doubled("saml:AuthnStatement"),
    },
    "authn_context": {
        "two contexts": lambda: doubled("saml:AuthnContextClassRef"),
        "an endless context": lambda: rebuilt(
            lambda root: find(root, "saml:AuthnContextClassRef").__setattr__("text", "x" * 1_025)
        ),
    },
    "name_id_transient": {
        "a transient NameID": lambda: login(subject_format=TRANSIENT),
    },
    "name_id_length": {
        "an empty NameID": lambda: login(subject=""),
        "a long NameID": lambda: login(subject="x" * 257),
        "a long format": lambda: login(subject_format="x" * 1_025),
    },
    "name_id_characters": {
        "a NameID with spaces around": lambda: login(subject=" alice "),
        "a NameID with a line break": lambda: login(subject="alice\nroot"),
        "a NameID that is invisible": lambda: login(subject="\u200b"),
    },
    "name_id_count": {
        "no NameID": lambda: missing("saml:NameID"),
        "two NameIDs": lambda: doubled("saml:NameID"),
    },
    "attribute_name": {
        "an attribute without a name": lambda: login(attributes=(("", ("x",)),)),
        "an attribute with a long name": lambda: login(attributes=(("x" * 1_025, ("x",)),)),
    },
    "assertion_id": {
        "an ID that cannot be remembered": lambda: login("response", assertion_id="x" * 257),
    },
}


def test_a_response_that_is_not_for_this_login_is_refused() -> None:
    check(PROFILE)


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
