"""XML Signature as SAML uses it (saml-core 5.4): one enveloped signature over the element that contains it.

The form is checked before anything is computed, because XML Signature permits far more than SAML needs: several
references, transforms that run programs, keys in the message. Then the pinned key that verifies the signature is found
over `ds:SignedInfo`, which is small, so the number of certificates hardly matters. signxml makes the decision, once per
signature. It gets only the signed element, without `ds:KeyInfo`, so that it cannot use anything outside of the element.
It returns the digested bytes, parsed again. Callers must read only this result.
"""

import binascii
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from lxml import etree
from signxml.algorithms import CanonicalizationMethod, DigestAlgorithm, SignatureMethod
from signxml.exceptions import InvalidDigest, SignXMLException
from signxml.verifier import SignatureConfiguration, VerifyResult, XMLVerifier

from control.identity.sso.refusal import LoginRefused
from control.identity.sso.saml.certificates import IdpCertificate, IdpKey
from control.identity.sso.saml.document import DS, EXCLUSIVE_C14N, quote

SIGNATURE: Final = f"{{{DS}}}Signature"
MAX_ID_LENGTH: Final = 256
_ID: Final = re.compile(rf"[A-Za-z0-9_.:-]{{1,{MAX_ID_LENGTH}}}")  # xs:ID, and ids that begin with a digit
_MAX_PREFIXES: Final = 16  # per PrefixList; each prefix is searched for at every element
_MAX_TRANSFORMS: Final = 2  # the enveloped signature, then canonicalization
_MAX_VALUE_LENGTH: Final = 2_048  # characters of a signature or digest; RSA with 8192 bits has 1368

_ENVELOPED: Final = f"{DS}enveloped-signature"
_EXCLUSIVE: Final = frozenset({EXCLUSIVE_C14N, f"{EXCLUSIVE_C14N}WithComments"})
# There are no comments (`document`), so the methods that keep comments give the same result.
_CANONICALIZATIONS: Final = _EXCLUSIVE | {
    f"http://www.w3.org/{version}{suffix}"
    for version in ("TR/2001/REC-xml-c14n-20010315", "2006/12/xml-c14n11")
    for suffix in ("", "#WithComments")
}
_DIGESTS: Final = frozenset(
    {
        "http://www.w3.org/2001/04/xmlenc#sha256",
        "http://www.w3.org/2001/04/xmldsig-more#sha384",
        "http://www.w3.org/2001/04/xmlenc#sha512",
    }
)


@dataclass(frozen=True, slots=True)
class _Method:
    """A signature algorithm. `padding`: the padding of RSA, None for ECDSA."""

    digest: hashes.HashAlgorithm
    padding: padding.AsymmetricPadding | None


def _methods() -> Mapping[str, _Method]:
    """The methods by identifier: RFC 9231, sections 2.3.2, 2.3.6 and 2.3.10."""
    methods = {}
    for name, digest in (("sha256", hashes.SHA256()), ("sha384", hashes.SHA384()), ("sha512", hashes.SHA512())):
        methods[f"http://www.w3.org/2001/04/xmldsig-more#rsa-{name}"] = _Method(digest, padding.PKCS1v15())
        methods[f"http://www.w3.org/2001/04/xmldsig-more#ecdsa-{name}"] = _Method(digest, None)
        pss = padding.PSS(padding.MGF1(digest), salt_length=digest.digest_size)
        methods[f"http://www.w3.org/2007/05/xmldsig-more#{name}-rsa-MGF1"] = _Method(digest, pss)
    return MappingProxyType(methods)


_METHODS: Final = _methods()
_EXPECTED: Final = SignatureConfiguration(
    location="./",
    expect_references=1,
    signature_methods=frozenset(map(SignatureMethod, _METHODS)),
    digest_algorithms=frozenset(map(DigestAlgorithm, _DIGESTS)),
    default_reference_c14n_method=CanonicalizationMethod.CANONICAL_XML_1_0,
)


def is_id(value: str | None) -> bool:
    """Whether the value identifies an element: a name of 1 to MAX_ID_LENGTH ASCII characters."""
    return value is not None and _ID.fullmatch(value) is not None


def find_signature(element: etree._Element) -> etree._Element | None:
    """The signature that is a child of the element, unverified. Raises LoginRefused for several."""
    signatures = element.findall(SIGNATURE)
    if len(signatures) > 1:
        raise LoginRefused("signature_count", f"{_name(element)} has {len(signatures)} signatures.")
    return signatures[0] if signatures else None


def verify_signature(
    element: etree._Element, signature: etree._Element, certificates: Sequence[IdpCertificate]
) -> etree._Element:
    """The element that `signature`, a child of `element`, covers. It is parsed again from the bytes that were digested,
    without that signature. Removes the `ds:KeyInfo` of the signature. Raises LoginRefused.
    """
    key_info = signature.find(_ds("KeyInfo"))
    if key_info is not None:
        signature.remove(key_info)  # only configured keys are used
    signed = _check_form(element, signature)
    return _verify(element, _find_certificate(signed, certificates))


@dataclass(frozen=True, slots=True)
class _SignedInfo:
    """The input of a signature value: canonical bytes, and the algorithm."""

    canonical: bytes
    method: _Method
    value: bytes


def _check_form(element: etree._Element, signature: etree._Element) -> _SignedInfo:
    """Check the form. Raises LoginRefused for a signature in any form but the one that SAML needs."""
    signed_info, value = _children(signature, "SignedInfo", "SignatureValue")
    references = len(signed_info.findall(_ds("Reference")))
    if references != 1:
        raise LoginRefused(
            "reference_count", f"The signature of {_name(element)} has {references} references. It must have one."
        )
    canonicalization, method, reference = _children(
        signed_info, "CanonicalizationMethod", "SignatureMethod", "Reference"
    )
    _check_reference(element, reference)
    return _SignedInfo(
        canonical=_canonicalize(signed_info, canonicalization),
        method=_METHODS[_algorithm(method, _METHODS, "signature_algorithm")],
        value=_value(value),
    )


def _check_reference(element: etree._Element, reference: etree._Element) -> None:
    """Raises LoginRefused unless the reference is to the element, with the permitted transforms."""
    if not is_id(element.get("ID")) or reference.get("URI") != f"#{element.get('ID')}":
        raise LoginRefused("reference_mismatch", f"The signature of {_name(element)} does not refer to this element.")
    transforms, digest_method, digest_value = _children(reference, "Transforms", "DigestMethod", "DigestValue")
    _algorithm(digest_method, _DIGESTS, "digest_algorithm")
    _value(digest_value)
    if not 0 < len(transforms) <= _MAX_TRANSFORMS:
        raise LoginRefused(
            "signature_transforms",
            f"The signature of {_name(element)} has {len(transforms)} transforms. It must have 1 to {_MAX_TRANSFORMS}.",
        )
    enveloped, *canonicalization = _children(transforms, *["Transform"] * len(transforms))
    _algorithm(enveloped, (_ENVELOPED,), "signature_transforms")
    for transform in canonicalization:
        _algorithm(transform, _CANONICALIZATIONS, "signature_transforms", parameters=True)
        _prefixes(transform)


def _canonicalize(signed_info: etree._Element, canonicalization: etree._Element) -> bytes:
    """The canonical bytes of `ds:SignedInfo`. Raises LoginRefused."""
    algorithm = _algorithm(canonicalization, _CANONICALIZATIONS, "canonicalization_algorithm", parameters=True)
    prefixes = _prefixes(canonicalization)
    try:
        return etree.tostring(
            signed_info,
            method="c14n",
            exclusive=algorithm in _EXCLUSIVE,
            with_comments=False,
            inclusive_ns_prefixes=prefixes,
        )
    except etree.C14NError as error:
        raise LoginRefused("canonicalization_failed", str(error)) from error


def _prefixes(canonicalization: etree._Element) -> list[str] | None:
    """The PrefixList of exclusive canonicalization, None without one. Raises LoginRefused."""
    if not len(canonicalization):
        return None
    namespaces = canonicalization.findall(f"{{{EXCLUSIVE_C14N}}}InclusiveNamespaces")
    prefixes = namespaces[0].get("PrefixList", "").split() if namespaces else []
    is_exclusive = canonicalization.get("Algorithm") in _EXCLUSIVE
    if not is_exclusive or len(canonicalization) != 1 or not 0 < len(prefixes) <= _MAX_PREFIXES:
        raise LoginRefused("prefix_list", f"A PrefixList must have 1 to {_MAX_PREFIXES} prefixes.")
    return prefixes


def _algorithm(element: etree._Element, allowed: Collection[str], reason: str, *, parameters: bool = False) -> str:
    """The algorithm of a method or transform, which may have parameters in child elements. Raises LoginRefused."""
    algorithm = element.get("Algorithm", "")
    if algorithm not in allowed:
        raise LoginRefused(reason, f"{_name(element)} has an algorithm that is not permitted: {quote(algorithm)}.")
    if len(element) and not parameters:
        raise LoginRefused("signature_form", f"{_name(element)} has parameters.")
    return algorithm


def _children(parent: etree._Element, *names: str) -> list[etree._Element]:
    """The children of `parent`, which must have exactly these names. Raises LoginRefused."""
    children = list(parent)
    if [child.tag for child in children] != [_ds(name) for name in names]:
        raise LoginRefused(
            "signature_form", f"{_name(parent)} must have exactly these child elements: {', '.join(names)}."
        )
    return children


def _value(element: etree._Element) -> bytes:
    """The bytes of a digest or signature. Raises LoginRefused."""
    text = "".join((element.text or "").split())
    try:
        if len(element) or not 0 < len(text) <= _MAX_VALUE_LENGTH:
            raise ValueError("no text, or too long")
        return binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except ValueError as error:  # binascii.Error and UnicodeError are ValueErrors
        raise LoginRefused("signature_form", f"{_name(element)} is not base64.") from error


def _find_certificate(signed: _SignedInfo, certificates: Sequence[IdpCertificate]) -> IdpCertificate:
    """The first certificate whose key verifies the signature. Raises LoginRefused."""
    for certificate in certificates:
        if _verifies(certificate.public_key, signed):
            return certificate
    raise LoginRefused("signature_invalid", "The signature does not match the key of any configured certificate.")


def _verifies(key: IdpKey, signed: _SignedInfo) -> bool:
    method = signed.method
    try:
        if isinstance(key, rsa.RSAPublicKey):
            if method.padding is None:
                return False
            key.verify(signed.value, signed.canonical, method.padding, method.digest)
        else:
            size = (key.key_size + 7) // 8  # bytes of r and of s, one after the other (RFC 9231, section 2.3.6)
            if method.padding is not None or len(signed.value) != 2 * size:
                return False
            r, s = (int.from_bytes(half, "big") for half in (signed.value[:size], signed.value[size:]))
            key.verify(encode_dss_signature(r, s), signed.canonical, ec.ECDSA(method.digest))
    except InvalidSignature:
        return False
    return True


def _verify(element: etree._Element, certificate: IdpCertificate) -> etree._Element:
    """The signed element, verified by signxml. Raises LoginRefused."""
    try:
        result = XMLVerifier().verify(
            etree.tostring(element, with_tail=False),
            x509_cert=certificate.pem,
            id_attribute="ID",
            # A pinned key is valid regardless of the dates of its certificate (`certificates`).
            expect_config=replace(_EXPECTED, verification_time=certificate.not_after),
            validate_schema=False,  # `_check_form` is stricter
        )
    except InvalidDigest as error:
        raise LoginRefused("digest_mismatch", f"{_name(element)} was changed after it was signed.") from error
    except etree.C14NError as error:
        raise LoginRefused("canonicalization_failed", str(error)) from error
    except (SignXMLException, etree.LxmlError) as error:
        raise LoginRefused("signature_invalid", str(error)) from error
    signed = result.signed_xml if isinstance(result, VerifyResult) else None  # several references give a list
    if signed is None or signed.tag != element.tag or signed.get("ID") != element.get("ID"):
        raise LoginRefused("signature_invalid", f"The signature does not cover {_name(element)}.")
    return signed


def _ds(name: str) -> str:
    return f"{{{DS}}}{name}"


def _name(element: etree._Element) -> str:
    """The name without its namespace, for messages."""
    return etree.QName(element).localname
