"""From the form field `SAMLResponse` to a tree of bounded size in which every ID and every name is unambiguous.

The size is checked before decoding, and everything that XML can do besides elements, attributes and text is refused
before parsing: document types and so entities, processing instructions, comments, encodings other than UTF-8. No
identity provider sends them; they are what makes one parser read something else than another one, or than what was
signed. The limits of the tree bound the time of canonicalization, which libxml2 does in time that is quadratic in the
attributes and namespace declarations of an element.
"""

import binascii
import codecs
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NoReturn

from lxml import etree

from control.identity.sso.refusal import LoginRefused
from control.identity.sso.saml.namespaces import DS, SAML, SAMLP, XENC

MAX_BYTES: Final = 256 * 1024  # of the decoded response
_MAX_ENCODED: Final = 4 * -(-MAX_BYTES // 3)  # characters of base64
_MAX_LINE_BREAKS: Final = _MAX_ENCODED // 16  # characters; MIME has two after 76

MAX_ELEMENTS: Final = 4_096  # as many groups of a user fit into 256 KiB
MAX_DEPTH: Final = 32  # a signature's PrefixList is at 8, an identifier within an attribute's value at 6
MAX_ATTRIBUTES: Final = 32  # of an element
MAX_NAMESPACES: Final = 32  # declarations in scope at one element, hidden ones included

_XML_DECLARATION: Final = re.compile(rb"<\?xml[ \t\r\n][^<>]*\?>")
_FORBIDDEN: Final = re.compile(rb"<!DOCTYPE|<\?|<!--")
_FORBIDDEN_REASONS: Final[Mapping[bytes, str]] = MappingProxyType(
    {b"<!DOCTYPE": "doctype", b"<?": "processing_instruction", b"<!--": "comment"}
)
# The only namespace that an element of the name may be in, wherever it is: a reader that looks for a local name, and
# another one that looks for a qualified name, find the same.
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
    """The bytes of a form field: strict base64, with line breaks at most. Raises LoginRefused."""
    if len(encoded) > _MAX_ENCODED + _MAX_LINE_BREAKS:
        _refuse_size()
    joined = encoded.replace("\r", "").replace("\n", "")
    if len(joined) > _MAX_ENCODED:
        _refuse_size()
    try:
        decoded = binascii.a2b_base64(joined.encode("ascii"), strict_mode=True)
    except ValueError as error:  # binascii.Error and UnicodeError are ValueErrors
        raise LoginRefused("not_base64", "SAMLResponse is not base64.") from error
    if len(decoded) > MAX_BYTES:
        _refuse_size()
    return decoded


def _refuse_size() -> NoReturn:
    raise LoginRefused("response_too_large", f"The response has more than {MAX_BYTES} bytes.")


def parse(xml: bytes) -> etree._Element:
    """The root of a document of at most MAX_BYTES. Raises LoginRefused."""
    parser = etree.XMLPullParser(
        _EVENTS,
        encoding="utf-8",  # whatever the document declares: what was scanned is what is parsed
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
    """The document without byte order mark and XML declaration. Raises LoginRefused for what it may not contain."""
    try:
        xml.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LoginRefused("not_utf8", f"The response is not UTF-8: byte {error.start}.") from error
    body = xml.removeprefix(codecs.BOM_UTF8)
    declaration = _XML_DECLARATION.match(body)
    if declaration is not None:
        body = body[declaration.end() :]
    _require_at_most(body.count(b"<"), 2 * MAX_ELEMENTS, "too_many_elements")  # before the parser makes all of them
    found = _FORBIDDEN.search(body)
    if found is not None:
        raise LoginRefused(_FORBIDDEN_REASONS[found[0]], f"The response contains {found[0].decode()}.")
    return body


def _check_tree(events: Iterable[tuple[str, Any]]) -> None:
    """Raises LoginRefused for a document that is too large in some direction, or ambiguous."""
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
                _require_at_most(elements, MAX_ELEMENTS, "too_many_elements")
                _require_at_most(depth, MAX_DEPTH, "too_deep")
                _check_name(subject.tag)
                _check_attributes(subject.attrib, ids)
            case _:
                depth -= 1


def _require_at_most(count: int, limit: int, reason: str) -> None:
    if count > limit:
        raise LoginRefused(reason, f"The limit is {limit}.")


def _check_namespace(uri: str, in_scope: int) -> None:
    _require_at_most(in_scope, MAX_NAMESPACES, "too_many_namespaces")
    if uri and ":" not in uri:  # canonicalization fails on a relative URI, for some implementations with empty output
        raise LoginRefused("relative_namespace", f"The response declares the namespace {uri!r}.")


def _check_name(tag: str) -> None:
    namespace, _, name = tag.removeprefix("{").rpartition("}")
    if _NAMESPACES.get(name, namespace) != namespace:
        raise LoginRefused("foreign_namespace", f"The response contains {name} in the namespace {namespace!r}.")
    if tag in _ENCRYPTED:
        raise LoginRefused("encrypted_assertion", f"The response contains {name}; encryption is not supported.")


def _check_attributes(attributes: Mapping[str, str], ids: set[str]) -> None:
    """`ids`: those of the elements before."""
    _require_at_most(len(attributes), MAX_ATTRIBUTES, "too_many_attributes")
    names = [name for name in attributes if name.rpartition("}")[2].lower() == "id"]
    if not names:
        return
    if len(names) > 1 or names[0].startswith("{"):
        raise LoginRefused("ambiguous_id", f"An element has the attributes {', '.join(names)}.")
    value = attributes[names[0]]
    if value in ids:
        raise LoginRefused("duplicate_id", f"Two elements have the ID {value!r}.")
    ids.add(value)
