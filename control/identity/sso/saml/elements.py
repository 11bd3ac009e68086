"""Reading elements of SAML so that there is one reading: exactly one child, the whole text, times in UTC."""

import re
from datetime import UTC, datetime
from typing import Final

from lxml import etree

from control.identity.sso.refusal import LoginRefused
from control.identity.sso.saml.namespaces import SAML

# UTC alone (saml-core 1.3.3). Providers send up to nine digits of a second.
_INSTANT: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?Z")
_WORD: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WHITE_SPACE: Final = " \t\r\n"  # of XML
_QUOTED_LENGTH: Final = 80  # characters of what came, in a message


def instant_of(element: etree._Element, name: str) -> datetime | None:
    """An attribute in UTC, None if it is absent. Digits beyond microseconds are cut. Raises LoginRefused."""
    text = element.get(name)
    if text is None:
        return None
    found = _INSTANT.fullmatch(text)
    try:
        if found is None:
            raise ValueError("another form")
        return datetime.fromisoformat(found[1]).replace(microsecond=int((found[2] or "")[:6].ljust(6, "0")), tzinfo=UTC)
    except ValueError as error:
        raise LoginRefused("instant_format", f"{name} is {quote(text)}, not a time in UTC.") from error


def only_child(parent: etree._Element, name: str, namespace: str = SAML) -> etree._Element:
    """The one child of the name. Raises LoginRefused for none or several."""
    children = parent.findall(f"{{{namespace}}}{name}")
    if len(children) != 1:
        reason = _WORD.sub("_", name).lower() + "_count"
        raise LoginRefused(reason, f"{etree.QName(parent).localname} has {len(children)} elements {name}.")
    return children[0]


def text_of(element: etree._Element) -> str:
    """The whole text. Raises LoginRefused for an element with child elements: readers differ in what its text is."""
    if len(element):
        raise LoginRefused("text_with_elements", f"{etree.QName(element).localname} has child elements.")
    return element.text or ""


def trimmed_text_of(element: etree._Element) -> str:
    """The whole text without the white space around it, which providers that indent their documents add. Raises
    LoginRefused as `text_of`.
    """
    return text_of(element).strip(_WHITE_SPACE)


def quote(text: str) -> str:
    """For messages: what came, without control characters, cut."""
    return repr(text[:_QUOTED_LENGTH])
