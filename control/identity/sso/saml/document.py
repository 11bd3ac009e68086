"""Parses the form field `SAMLResponse` into a tree of bounded size, in which every ID and every name is unambiguous.
Its elements have one reading: exactly one child, the whole text, times in UTC.

The size is checked before decoding. XML features other than elements, attributes and text are refused before parsing:
document types and so entities, processing instructions, comments, encodings other than UTF-8. No identity provider
sends them, and they make one parser read something other than another parser, or than what was signed. The limits of
the tree bound the time of canonicalization in libxml2, which is quadratic in the attributes and namespace declarations
of an element.
"""

import binascii
import codecs
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

from lxml import etree

from control.identity.sso.refusal import LoginRefused

SAML: Final = "urn:oasis:names:tc:SAML:2.0:assertion"
SAMLP: Final = "urn:oasis:names:tc:SAML:2.0:protocol"
METADATA: Final = "urn:oasis:names:tc:SAML:2.0:metadata"
DS: Final = "http://www.w3.org/2000/09/xmldsig#"
XENC: Final = "http://www.w3.org/2001/04/xmlenc#"
XSI: Final = "http://www.w3.org/2001/XMLSchema-instance"
EXCLUSIVE_C14N: Final = "http://www.w3.org/2001/10/xml-exc-c14n#"

VERSION: Final = "2.0"
HTTP_POST: Final = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST"
STATUS_SUCCESS: Final = "urn:oasis:names:tc:SAML:2.0:status:Success"
BEARER: Final = "urn:oasis:names:tc:SAML:2.0:cm:bearer"

FORMAT_UNSPECIFIED: Final = "urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified"
FORMAT_EMAIL: Final = "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"
FORMAT_PERSISTENT: Final = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"
FORMAT_TRANSIENT: Final = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"
FORMAT_ENTITY: Final = "urn:oasis:names:tc:SAML:2.0:nameid-format:entity"


# Only UTC (saml-core 1.3.3). Providers send up to nine digits of a second.
_INSTANT: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?Z")
_WORD: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WHITE_SPACE: Final = " \t\r\n"  # of XML
_QUOTED_LENGTH: Final = 80  # characters of received text in a message


def instant_of(element: etree._Element, name: str) -> datetime | None:
    """An attribute as a time in UTC, None if it is absent. Digits beyond microseconds are cut. Raises LoginRefused."""
    text = element.get(name)
    if text is None:
        return None
    match = _INSTANT.fullmatch(text)
    try:
        if match is None:
            raise ValueError("another form")
        return datetime.fromisoformat(match[1]).replace(microsecond=int((match[2] or "")[:6].ljust(6, "0")), tzinfo=UTC)
    except ValueError as error:
        raise LoginRefused("instant_format", f"{name} is {quote(text)}, not a time in UTC.") from error


def only_child(parent: etree._Element, name: str, namespace: str = SAML) -> etree._Element:
    """The only child with this name. Raises LoginRefused for none or several."""
    children = parent.findall(f"{{{namespace}}}{name}")
    if len(children) != 1:
        reason = _WORD.sub("_", name).lower() + "_count"
        raise LoginRefused(
            reason, f"{etree.QName(parent).localname} has {len(children)} elements {name}. It must have one."
        )
    return children[0]


def text_of(element: etree._Element) -> str:
    """The whole text. Raises LoginRefused for an element with child elements, whose text parsers read differently."""
    if len(element):
        raise LoginRefused(
            "text_with_elements", f"{etree.QName(element).localname} has child elements. It must have only text."
        )
    return element.text or ""


def trimmed_text_of(element: etree._Element) -> str:
    """The whole text without the white space around it, which providers that indent their documents add. Raises the
    errors of `text_of`.
    """
    return text_of(element).strip(_WHITE_SPACE)


def quote(text: str) -> str:
    """Received text in the form of messages: without control characters, and cut."""
    return repr(text[:_QUOTED_LENGTH])


MAX_BYTES: Final = 256 * 1024  # size of the decoded response
_MAX_ENCODED: Final = 4 * -(-MAX_BYTES // 3)  # characters of base64
_MAX_LINE_BREAKS: Final = _MAX_ENCODED // 16  # characters; MIME has two after every 76

MAX_ELEMENTS: Final = 4_096  # 256 KiB have room for about as many groups of a user
MAX_DEPTH: Final = 32  # a signature's PrefixList is at 8, an identifier within an attribute's value at 6
MAX_ATTRIBUTES: Final = 32  # per element
MAX_NAMESPACES: Final = 32  # declarations in scope at one element, hidden ones included

_XML_DECLARATION: Final = re.compile(rb"<\?xml[ \t\r\n][^<>]*\?>")
_FORBIDDEN: Final = re.compile(rb"<!DOCTYPE|<\?|<!--")
_FORBIDDEN_REASONS: Final[Mapping[bytes, str]] = MappingProxyType(
    {b"<!DOCTYPE": "doctype", b"<?": "processing_instruction", b"<!--": "comment"}
)
# The only permitted namespace of elements with these names. So a reader that searches for a local name finds the same
# elements as a reader that searches for a qualified name.
_NAMESPACES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Response": SAMLP,
        "Assertion": SAML,
        "Subject": SAML,
        "NameID": SAML,
        "Signature": DS,
        "SignedInfo": DS,
    }
)
_ENCRYPTED: Final = frozenset(
    {f"{{{SAML}}}Encrypted{name}" for name in ("Assertion", "ID", "Attribute")} | {f"{{{XENC}}}EncryptedData"}
)
_EVENTS: Final = ("start", "end", "start-ns", "end-ns")


def decode(encoded: str) -> bytes:
    """The bytes of a form field: strict base64, in which only line breaks are permitted. Raises LoginRefused."""
    _require_size(len(encoded), _MAX_ENCODED + _MAX_LINE_BREAKS)
    joined = encoded.replace("\r", "").replace("\n", "")
    _require_size(len(joined), _MAX_ENCODED)
    try:
        decoded = binascii.a2b_base64(joined.encode("ascii"), strict_mode=True)
    except ValueError as error:  # binascii.Error and UnicodeError are ValueErrors
        raise LoginRefused("not_base64", "SAMLResponse is not base64.") from error
    _require_size(len(decoded), MAX_BYTES)
    return decoded


def _require_size(size: int, limit: int) -> None:
    if size > limit:
        raise LoginRefused("response_too_large", f"The response has more than {MAX_BYTES} bytes.")


def parse(xml: bytes) -> etree._Element:
    """The root of a document of at most MAX_BYTES. Raises LoginRefused."""
    parser = etree.XMLPullParser(
        _EVENTS,
        encoding="utf-8",  # also if the document declares another one, so that the scanned text is parsed
        # `resolve_entities` stays at "internal": nothing declares any, and with False lxml accepts undeclared ones.
        load_dtd=False,
        no_network=True,
        huge_tree=False,
    )
    try:
        parser.feed(_scan(xml))
        root = parser.close()
    except etree.XMLSyntaxError as error:
        raise LoginRefused("not_xml", f"The response is not well-formed XML: {error.msg}") from error
    _check_tree(parser.read_events())
    return root


def _scan(xml: bytes) -> bytes:
    """The document without byte order mark and XML declaration. Raises LoginRefused for forbidden content."""
    try:
        xml.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LoginRefused("not_utf8", f"The response is not UTF-8 at byte {error.start}.") from error
    body = xml.removeprefix(codecs.BOM_UTF8)
    declaration = _XML_DECLARATION.match(body)
    if declaration is not None:
        body = body[declaration.end() :]
    # Before the parser builds all elements.
    _require_at_most(body.count(b"<"), 2 * MAX_ELEMENTS, "too_many_elements", "tags")
    match = _FORBIDDEN.search(body)
    if match is not None:
        raise LoginRefused(
            _FORBIDDEN_REASONS[match[0]], f"The response contains {match[0].decode()}, which is not permitted."
        )
    return body


def _check_tree(events: Iterable[tuple[str, Any]]) -> None:
    """Raises LoginRefused for a document that exceeds a limit, or is ambiguous."""
    elements = depth = namespaces = 0
    ids: set[str] = set()
    for event, subject in events:
        match event:
            case "start-ns":
                namespaces += 1
                _check_namespace(subject[1], namespaces)
            case "end-ns":
                namespaces -= 1
            case "start":
                elements, depth = elements + 1, depth + 1
                _require_at_most(elements, MAX_ELEMENTS, "too_many_elements", "elements")
                _require_at_most(depth, MAX_DEPTH, "too_deep", "levels of elements")
                _check_name(subject.tag)
                _check_attributes(subject.attrib, ids)
            case _:
                depth -= 1


def _require_at_most(count: int, limit: int, reason: str, counted: str) -> None:
    """Raises LoginRefused with `reason` for more than `limit` things. `counted`: what they are."""
    if count > limit:
        raise LoginRefused(reason, f"The response has more than {limit} {counted}.")


def _check_namespace(uri: str, in_scope: int) -> None:
    _require_at_most(in_scope, MAX_NAMESPACES, "too_many_namespaces", "namespaces in scope")
    if uri and ":" not in uri:  # canonicalization fails on a relative URI, in some implementations with empty output
        raise LoginRefused(
            "relative_namespace", f"The response declares the namespace {uri!r}, which is not an absolute URI."
        )


def _check_name(tag: str) -> None:
    namespace, _, name = tag.removeprefix("{").rpartition("}")
    if _NAMESPACES.get(name, namespace) != namespace:
        raise LoginRefused("foreign_namespace", f"The response contains {name} in a wrong namespace: {namespace!r}.")
    if tag in _ENCRYPTED:
        raise LoginRefused("encrypted_assertion", f"The response contains {name}. Encryption is not supported.")


def _check_attributes(attributes: Mapping[str, str], ids: set[str]) -> None:
    """Check the attributes of an element. `ids`: the IDs of the elements before."""
    _require_at_most(len(attributes), MAX_ATTRIBUTES, "too_many_attributes", "attributes in an element")
    names = [name for name in attributes if name.rpartition("}")[2].lower() == "id"]
    if not names:
        return
    if len(names) > 1 or names[0].startswith("{"):
        raise LoginRefused(
            "ambiguous_id",
            f"An element must have only one ID attribute, without a namespace. This element has {', '.join(names)}.",
        )
    value = attributes[names[0]]
    if value in ids:
        raise LoginRefused("duplicate_id", f"Two elements have the ID {value!r}.")
    ids.add(value)
