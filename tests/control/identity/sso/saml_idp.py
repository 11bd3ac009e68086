"""An identity provider of tests: builds responses as providers send them, and signs them with signxml.

`login()` is a good response, `login(audiences=("x",))` one that says something else, and is signed all the same. What
an attacker does is done to the tree afterwards. `resign` signs a changed `ds:SignedInfo` again, so that a forbidden
form of a signature is refused for its form alone.
"""

import base64
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final, Literal
from xml.sax.saxutils import escape, quoteattr

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding
from lxml import etree
from signxml.algorithms import CanonicalizationMethod, DigestAlgorithm, SignatureMethod
from signxml.signer import SignatureReference, XMLSigner

from control.identity.sso.saml.certificates import IdpCertificate, parse_certificate
from control.identity.sso.saml.document import DS, EXCLUSIVE_C14N, SAML, SAMLP, XSI
from control.identity.sso.saml.response import ExpectedResponse

NOW: Final = datetime(2026, 11, 20, 15, 0, tzinfo=UTC)
IDP: Final = "https://idp.example.com/metadata"
SP: Final = "https://sluice.example.com/sso/saml/shop/metadata"
ACS: Final = "https://sluice.example.com/sso/saml/shop/acs"
REQUEST: Final = "_request1"

ASSERTION: Final = f"{{{SAML}}}Assertion"
SIGNATURE: Final = f"{{{DS}}}Signature"
AUTHN_CONTEXT: Final = "urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport"
EXCLUSIVE: Final = CanonicalizationMethod.EXCLUSIVE_XML_CANONICALIZATION_1_0

Signed = Literal["assertion", "response", "both", "nothing"]
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


@cache
def rsa_key(number: int = 0, bits: int = 2_048) -> rsa.RSAPrivateKey:
    """The same key for the same number."""
    return rsa.generate_private_key(public_exponent=65_537, key_size=bits)


@cache
def ec_key(number: int = 0, curve: type[ec.EllipticCurve] = ec.SECP256R1) -> ec.EllipticCurvePrivateKey:
    """The same key for the same number."""
    return ec.generate_private_key(curve())


@cache
def certificate_pem(
    key: Any, *, public_key: Any = None, not_after: datetime = NOW + timedelta(days=365), for_issuing: bool = False
) -> str:
    """A certificate that `key` has signed, of itself unless there is a `public_key`. `for_issuing`: its key usage is to
    issue certificates, nothing else.
    """
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "idp.example.com")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public_key or key.public_key())
        .serial_number(1)
        .not_valid_before(not_after - timedelta(days=730))
        .not_valid_after(not_after)
    )
    if for_issuing:
        bits = dict.fromkeys(
            ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False
        )
        key_usage = x509.KeyUsage(**bits, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False)
        builder = builder.add_extension(key_usage, critical=True)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def certificate(key: PrivateKey | None = None, **options: Any) -> IdpCertificate:
    return parse_certificate(certificate_pem(key or rsa_key(), **options))


def expected(*certificates: IdpCertificate, **changes: Any) -> ExpectedResponse:
    """What the good response matches, with the provider's certificate unless others are given."""
    good = ExpectedResponse(certificates or (certificate(),), IDP, SP, ACS, REQUEST, NOW)
    return replace(good, **changes)


def instant(seconds: float = 0) -> str:
    """As providers write times: NOW and so many seconds."""
    return (NOW + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


@dataclass(frozen=True)
class Idp:
    """Says what a response contains: `None` leaves an attribute or element out. Times are seconds from NOW."""

    issuer: str | None = IDP
    response_issuer: str | None = IDP
    issuer_format: str | None = None
    destination: str | None = ACS
    recipient: str | None = ACS
    audiences: tuple[str, ...] | None = (SP,)
    in_response_to: str | None = REQUEST
    response_in_response_to: str | None = REQUEST
    subject: str = "alice@example.com"
    subject_format: str | None = "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"
    confirmation_not_before: str | None = None
    confirmation_not_on_or_after: str | None = field(default_factory=lambda: instant(300))
    not_before: str | None = field(default_factory=lambda: instant(-300))
    not_on_or_after: str | None = field(default_factory=lambda: instant(600))
    session_not_on_or_after: str | None = field(default_factory=lambda: instant(28_800))
    method: str = "urn:oasis:names:tc:SAML:2.0:cm:bearer"
    status: str = "urn:oasis:names:tc:SAML:2.0:status:Success"
    version: str = "2.0"
    assertion_id: str = "_assertion1"
    response_id: str = "_response1"
    attributes: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("email", ("alice@example.com",)),
        ("groups", ("staff", "admins")),
    )
    conditions: str = ""  # more of them, as XML
    statements: str = ""  # likewise
    extra: str = ""  # in the response, after the assertion

    def response(self) -> etree._Element:
        """Unsigned, with places for both signatures where the schema has them."""
        return etree.fromstring(
            f"""<samlp:Response xmlns:samlp="{SAMLP}" xmlns:saml="{SAML}" ID="{self.response_id}" Version="{
                self.version
            }"
 IssueInstant="{instant()}"{_attribute("Destination", self.destination)}{
                _attribute("InResponseTo", self.response_in_response_to)
            }>{_element("saml:Issuer", self.response_issuer)}<ds:Signature xmlns:ds="{DS}" Id="response"/>
  <samlp:Status><samlp:StatusCode Value="{self.status}"/></samlp:Status>{self.assertion()}{self.extra}
</samlp:Response>"""
        )

    def assertion(self) -> str:
        format_of_issuer = _attribute("Format", self.issuer_format)
        return f"""
  <saml:Assertion xmlns:saml="{SAML}" xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:xsi="{XSI}" Version="2.0"
   ID="{self.assertion_id}" IssueInstant="{instant()}">{
            _element("saml:Issuer", self.issuer, format_of_issuer)
        }<ds:Signature
    xmlns:ds="{DS}" Id="assertion"/>
   <saml:Subject>
    <saml:NameID{_attribute("Format", self.subject_format)}>{self.subject}</saml:NameID>
    <saml:SubjectConfirmation Method="{self.method}">
     <saml:SubjectConfirmationData{_attribute("InResponseTo", self.in_response_to)}{
            _attribute("Recipient", self.recipient)
        }{_attribute("NotBefore", self.confirmation_not_before)}{
            _attribute("NotOnOrAfter", self.confirmation_not_on_or_after)
        }/>
    </saml:SubjectConfirmation>
   </saml:Subject>
   <saml:Conditions{_attribute("NotBefore", self.not_before)}{_attribute("NotOnOrAfter", self.not_on_or_after)}>{
            _audience(self.audiences)
        }{self.conditions}</saml:Conditions>
   <saml:AuthnStatement AuthnInstant="{instant(-5)}" SessionIndex="_session1"{
            _attribute("SessionNotOnOrAfter", self.session_not_on_or_after)
        }><saml:AuthnContext><saml:AuthnContextClassRef>{AUTHN_CONTEXT}</saml:AuthnContextClassRef></saml:AuthnContext>
   </saml:AuthnStatement>
   <saml:AttributeStatement>{"".join(_saml_attribute(*each) for each in self.attributes)}</saml:AttributeStatement>{
            self.statements
        }
  </saml:Assertion>"""


def _attribute(name: str, value: str | None) -> str:
    return "" if value is None else f" {name}={quoteattr(value)}"


def _element(name: str, text: str | None, attributes: str = "") -> str:
    return "" if text is None else f"<{name}{attributes}>{escape(text)}</{name}>"


def _audience(audiences: tuple[str, ...] | None) -> str:
    if audiences is None:
        return ""
    named = "".join(_element("saml:Audience", each) for each in audiences)
    return f"<saml:AudienceRestriction>{named}</saml:AudienceRestriction>"


def _saml_attribute(name: str, values: tuple[str, ...]) -> str:
    inside = "".join(_element("saml:AttributeValue", each, ' xsi:type="xs:string"') for each in values)
    return f"<saml:Attribute Name={quoteattr(name)}>{inside}</saml:Attribute>"


def login(place: Signed = "assertion", *, key: PrivateKey | None = None, **changes: Any) -> etree._Element:
    """A signed response that differs from the good one by `changes`, fields of `Idp`."""
    return sign(Idp(**changes).response(), place, key=key)


def login_confirmed_by(*confirmations: Mapping[str, str | None] | None, place: Signed = "assertion") -> etree._Element:
    """A signed response with bearer confirmations that differ from the good one: attributes of its data by name, and
    `Method`. None: one without data.
    """
    root = Idp().response()
    (good,) = root.iter(f"{{{SAML}}}SubjectConfirmation")
    for changes in confirmations:
        added = deepcopy(good)
        (data,) = added
        for name, value in (changes or {}).items():
            element = added if name == "Method" else data
            if value is not None:
                element.set(name, value)
            elif name in element.attrib:
                del element.attrib[name]
        if changes is None:
            added.remove(data)
        good.addprevious(added)
    parent(good).remove(good)
    return sign(root, place)


def sign(
    root: etree._Element,
    place: Signed = "assertion",
    *,
    key: PrivateKey | None = None,
    assertion_key: PrivateKey | None = None,
    method: SignatureMethod | None = None,
    digest: DigestAlgorithm = DigestAlgorithm.SHA256,
    c14n: CanonicalizationMethod = EXCLUSIVE,
    prefixes: list[str] | None = None,
    key_info: bool = True,
) -> etree._Element:
    """The response with the signatures, where it has places for them. `assertion_key`: of the assertion, if it is not
    `key` that signs it.
    """
    key = key or rsa_key()
    if method is None:
        is_rsa = isinstance(key, rsa.RSAPrivateKey)
        method = SignatureMethod.RSA_SHA256 if is_rsa else SignatureMethod.ECDSA_SHA256
    signer = XMLSigner(signature_algorithm=method, digest_algorithm=digest, c14n_algorithm=c14n)
    for name in ("assertion", "response"):  # in this order: the response's signature covers the other one
        (signature,) = root.iterfind(f".//{SIGNATURE}[@Id='{name}']")
        element = signature.getparent()
        assert element is not None
        if place not in (name, "both"):
            element.remove(signature)
            continue
        signature.set("Id", "placeholder")
        signing_key = assertion_key or key if name == "assertion" else key
        reference = SignatureReference(str(element.get("ID")), c14n_method=c14n, inclusive_ns_prefixes=prefixes)
        root = signer.sign(
            root,
            key=signing_key,
            cert=certificate_pem(signing_key),
            reference_uri=[reference],
            id_attribute="ID",
            inclusive_ns_prefixes=prefixes,
        )
        if prefixes:  # signxml digests with them, but does not say so in an enveloped signature
            transform = root.findall(f".//{{{DS}}}Transform[@Algorithm='{c14n.value}']")[-1]
            etree.SubElement(transform, f"{{{EXCLUSIVE_C14N}}}InclusiveNamespaces", {"PrefixList": " ".join(prefixes)})
            resign(root, key, prefixes)
        if not key_info:
            (info,) = root.iterfind(f".//{SIGNATURE}/{{{DS}}}KeyInfo")
            parent(info).remove(info)
    return root


def resign(root: etree._Element, key: PrivateKey | None = None, prefixes: list[str] | None = None) -> etree._Element:
    """Signs the SignedInfo of the first signature again, whatever it has become, with SHA-256."""
    signed_info = find(root, "ds:SignedInfo")
    canonical = etree.tostring(signed_info, method="c14n", exclusive=True, inclusive_ns_prefixes=prefixes)
    find(parent(signed_info), "ds:SignatureValue").text = base64.b64encode(_sign(key or rsa_key(), canonical)).decode()
    return root


def _sign(key: PrivateKey, data: bytes) -> bytes:
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(data, padding.PKCS1v15(), hashes.SHA256())
    size = (key.key_size + 7) // 8
    r, s = decode_dss_signature(key.sign(data, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(size, "big") + s.to_bytes(size, "big")


def find(root: etree._Element, name: str) -> etree._Element:
    """The first element of a name with a usual prefix, anywhere."""
    found = root.find(f".//{name}", namespaces={"saml": SAML, "samlp": SAMLP, "ds": DS})
    assert found is not None, name
    return found


def parent(element: etree._Element) -> etree._Element:
    found = element.getparent()
    assert found is not None
    return found


def post(response: etree._Element | bytes | str) -> str:
    """The form field that a browser sends."""
    if isinstance(response, etree._Element):
        response = etree.tostring(response)
    return base64.b64encode(response.encode() if isinstance(response, str) else response).decode()
