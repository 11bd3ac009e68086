"""Decides whether a response is trusted: the checks of the Web Browser SSO profile (saml-profiles 4.1.4.3).

`verify_response` lists the checks in the order of trust. Before a signature is verified, the content of the response
can only refuse the login. Afterwards the assertion is read only from the signed element.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from lxml import etree

from control.identity.sso.refusal import LoginRefused
from control.identity.sso.saml.certificates import MAX_CERTIFICATES, IdpCertificate
from control.identity.sso.saml.document import (
    BEARER,
    FORMAT_ENTITY,
    FORMAT_TRANSIENT,
    FORMAT_UNSPECIFIED,
    SAML,
    SAMLP,
    STATUS_SUCCESS,
    VERSION,
    XSI,
    decode,
    instant_of,
    only_child,
    parse,
    quote,
    text_of,
    trimmed_text_of,
)
from control.identity.sso.saml.signature import SIGNATURE, find_signature, is_id, verify_signature

CLOCK_SKEW: Final = timedelta(seconds=60)  # between the provider's clock and the clock of Sluice, in both directions
MAX_LIFETIME: Final = timedelta(hours=24)  # of an assertion, because its ID is stored for this time
MAX_SUBJECT_LENGTH: Final = 256  # characters (saml-core 8.3.7)
MAX_URI_LENGTH: Final = 1_024  # characters (saml-core 1.3.2, 8.3.6)

_ASSERTION: Final = f"{{{SAML}}}Assertion"
_KNOWN_CONDITIONS: Final = frozenset(
    f"{{{SAML}}}{name}" for name in ("AudienceRestriction", "OneTimeUse", "ProxyRestriction")
)


@dataclass(frozen=True, slots=True)
class ExpectedResponse:
    """The values that a response must match. `certificates`: 1 to MAX_CERTIFICATES. `request_id`: id of this browser's
    open request. `now`: with a time zone. Raises ValueError otherwise.
    """

    certificates: tuple[IdpCertificate, ...]
    idp_entity_id: str
    sp_entity_id: str
    acs_url: str
    request_id: str
    now: datetime

    def __post_init__(self) -> None:
        if not 0 < len(self.certificates) <= MAX_CERTIFICATES:
            raise ValueError(f"There must be 1 to {MAX_CERTIFICATES} certificates.")
        if self.now.tzinfo is None:
            raise ValueError("The present time has no time zone.")


@dataclass(frozen=True, slots=True)
class Assertion:
    """The data that the provider has signed.

    `subject`: the NameID, 1 to MAX_SUBJECT_LENGTH printable characters, in `subject_format`, a URI. `attributes`:
    values by name, in order. A nil value is absent, an empty value is an empty text. `authn_context`: the class, a URI.
    `session_not_on_or_after`: the end of the provider's session, UTC. `id` must be stored until `not_on_or_after`
    (UTC, the clock skew included), so that the assertion is accepted once.
    """

    id: str
    subject: str
    subject_format: str
    attributes: dict[str, list[str]]
    authn_context: str | None
    session_not_on_or_after: datetime | None
    not_on_or_after: datetime


def verify_response(encoded: str, expected: ExpectedResponse) -> Assertion:
    """The assertion of a response, from the form field `SAMLResponse`. Raises LoginRefused unless the response is from
    the expected provider, answers the expected request, is signed with one of the keys, and is valid now.
    """
    root = parse(decode(encoded))
    _check_status(root)
    response, assertion = _verify_signatures(root, _find_assertion(root), expected.certificates)
    _check_issuers(response, assertion, expected.idp_entity_id)
    subject = only_child(assertion, "Subject")
    _check_destination(response, expected.acs_url)
    confirmed_until = _check_confirmations(subject, response, expected)
    valid_until = _check_conditions(only_child(assertion, "Conditions"), expected)
    statement = only_child(assertion, "AuthnStatement")
    name_id, name_id_format = _read_name_id(subject)
    return Assertion(
        id=_read_id(assertion),
        subject=name_id,
        subject_format=name_id_format,
        attributes=_read_attributes(assertion),
        authn_context=_read_authn_context(statement),
        session_not_on_or_after=_read_session_end(statement, expected.now),
        not_on_or_after=_replay_window(min(confirmed_until, valid_until or confirmed_until), expected.now),
    )


def _check_status(root: etree._Element) -> None:
    """Raises LoginRefused unless the document is a response that reports success."""
    if root.tag != f"{{{SAMLP}}}Response":
        raise LoginRefused("not_a_response", f"The document is {quote(root.tag)}, not a SAML response.")
    _check_version(root)
    status = only_child(root, "Status", SAMLP)
    code = only_child(status, "StatusCode", SAMLP).get("Value", "")
    if code != STATUS_SUCCESS:
        more = [each.get("Value", "") for each in status.iterfind(f".//{{{SAMLP}}}StatusCode/{{{SAMLP}}}StatusCode")]
        message = status.findtext(f"{{{SAMLP}}}StatusMessage") or ""
        said = ", ".join(quote(text) for text in (code, *more[:1], message) if text)
        raise LoginRefused("status_not_success", f"The provider reports {said}.")


def _find_assertion(root: etree._Element) -> etree._Element:
    """The one assertion, not verified yet. Raises LoginRefused if the document has another assertion."""
    assertions = list(root.iter(_ASSERTION))
    if len(assertions) != 1:
        raise LoginRefused("assertion_count", f"The response has {len(assertions)} assertions. It must have one.")
    if assertions[0].getparent() is not root:
        raise LoginRefused("assertion_misplaced", "The assertion is not a child of the response.")
    _check_version(assertions[0])
    return assertions[0]


def _verify_signatures(
    root: etree._Element, assertion: etree._Element, certificates: Sequence[IdpCertificate]
) -> tuple[etree._Element, etree._Element]:
    """Response and assertion, the latter as it was signed. If the response is signed, it is returned as it was signed,
    too. One of the two must be signed. A signature of the response covers the whole assertion, so if both are signed,
    the signature of the response is verified. Raises LoginRefused.
    """
    found = [(element, find_signature(element)) for element in (root, assertion)]
    signed = [(element, signature) for element, signature in found if signature is not None]
    if not signed:
        raise LoginRefused("signature_missing", "Neither the response nor its assertion is signed.")
    if len(list(root.iter(SIGNATURE))) != len(signed):
        raise LoginRefused(
            "signature_misplaced", "The response has a signature that is neither its own nor the assertion's."
        )
    outermost, signature = signed[0]
    verified = verify_signature(outermost, signature, certificates)
    if outermost is root:
        return verified, only_child(verified, "Assertion")
    return root, verified


def _check_issuers(response: etree._Element, assertion: etree._Element, entity_id: str) -> None:
    """The issuer of the response is optional (saml-core 3.2.2), the issuer of the assertion is not. Raises
    LoginRefused.
    """
    issuers = [only_child(assertion, "Issuer")]
    if response.find(f"{{{SAML}}}Issuer") is not None:
        issuers.append(only_child(response, "Issuer"))
    for issuer in issuers:
        if issuer.get("Format", FORMAT_ENTITY) != FORMAT_ENTITY or trimmed_text_of(issuer) != entity_id:
            raise LoginRefused("issuer_mismatch", f"The issuer is {quote(text_of(issuer))}, not {quote(entity_id)}.")


def _check_destination(response: etree._Element, acs_url: str) -> None:
    """Raises LoginRefused."""
    destination = response.get("Destination")
    if destination not in (None, acs_url):
        raise LoginRefused("destination_mismatch", f"The destination is {quote(destination)}, not {quote(acs_url)}.")


def _check_confirmations(subject: etree._Element, response: etree._Element, expected: ExpectedResponse) -> datetime:
    """The time until which the subject is confirmed. One bearer confirmation of this login suffices (saml-core
    2.4.1.1). Of several, the latest end counts, also of a confirmation that becomes valid later, because the assertion
    might be accepted again until then. Raises LoginRefused, with the reason of an invalid confirmation for this
    service, if there is one.
    """
    ends: list[datetime] = []
    refusals: list[LoginRefused] = []
    bearers = [each for each in subject.iterfind(f"{{{SAML}}}SubjectConfirmation") if each.get("Method") == BEARER]
    for bearer in bearers:
        try:
            _check_confirmation(bearer, response, expected, ends)
        except LoginRefused as refusal:
            refusals.append(refusal)
    if not bearers:
        raise LoginRefused("confirmation_count", "The subject has no bearer confirmation.")
    if len(refusals) == len(bearers):
        raise next((one for one in refusals if one.reason != "recipient_mismatch"), refusals[0])
    return max(ends)


def _check_confirmation(
    bearer: etree._Element, response: etree._Element, expected: ExpectedResponse, ends: list[datetime]
) -> None:
    """Add the end of a confirmation of this login. Raises LoginRefused unless the confirmation is valid now."""
    data = only_child(bearer, "SubjectConfirmationData")
    recipient, acs_url = data.get("Recipient", ""), expected.acs_url
    if recipient != acs_url:
        raise LoginRefused("recipient_mismatch", f"The recipient is {quote(recipient)}, not {quote(acs_url)}.")
    not_before, not_on_or_after = instant_of(data, "NotBefore"), instant_of(data, "NotOnOrAfter")
    if not_on_or_after is None:
        raise LoginRefused("confirmation_unlimited", "The bearer confirmation has no NotOnOrAfter.")
    _require_not_expired(not_on_or_after, expected.now, "confirmation_expired")
    _check_in_response_to(response, data, expected.request_id)
    ends.append(not_on_or_after)
    if not_before is not None and expected.now + CLOCK_SKEW < not_before:  # some send it against saml-profiles 4.1.4.2
        detail = f"The confirmation is valid from {not_before}, but the time is {expected.now}."
        raise LoginRefused("confirmation_not_yet_valid", detail)


def _check_conditions(conditions: etree._Element, expected: ExpectedResponse) -> datetime | None:
    """The time until which the conditions are valid, None without a limit. Raises LoginRefused."""
    not_before, not_on_or_after = instant_of(conditions, "NotBefore"), instant_of(conditions, "NotOnOrAfter")
    if not_before is not None and expected.now + CLOCK_SKEW < not_before:
        raise LoginRefused(
            "not_yet_valid", f"The assertion is valid from {not_before}, but the time is {expected.now}."
        )
    if not_on_or_after is not None:
        _require_not_expired(not_on_or_after, expected.now, "conditions_expired")
    for condition in conditions:
        if condition.tag not in _KNOWN_CONDITIONS:  # its validity is then unknown (saml-core 2.5.1)
            raise LoginRefused("unknown_condition", f"The condition {quote(condition.tag)} is not supported.")
    _check_audience(conditions, expected.sp_entity_id)
    return not_on_or_after


def _check_audience(conditions: etree._Element, entity_id: str) -> None:
    """Each restriction must name this service (saml-core 2.5.1.4), and there must be one. Raises LoginRefused."""
    restrictions = conditions.findall(f"{{{SAML}}}AudienceRestriction")
    if not restrictions:
        raise LoginRefused("audience_missing", "The assertion is not restricted to an audience.")
    for restriction in restrictions:
        audiences = [trimmed_text_of(audience) for audience in restriction.iterfind(f"{{{SAML}}}Audience")]
        if entity_id not in audiences:
            said = ", ".join(quote(audience) for audience in audiences[:2])
            raise LoginRefused("audience_mismatch", f"The audience is {said}, not {quote(entity_id)}.")


def _check_in_response_to(response: etree._Element, confirmation: etree._Element, request_id: str) -> None:
    """Both must name the request. The confirmation's name is always signed. Raises LoginRefused."""
    named = [element.get("InResponseTo") for element in (response, confirmation)]
    if named == [None, None]:
        raise LoginRefused("idp_initiated", "The response answers no request: the login began at the provider.")
    for request in named:
        if request is None:
            raise LoginRefused(
                "in_response_to_missing", "The response or its subject confirmation has no InResponseTo."
            )
        if request != request_id:
            raise LoginRefused("in_response_to_mismatch", f"The response answers another request: {quote(request)}.")


def _read_id(assertion: etree._Element) -> str:
    """The ID of the assertion. Raises LoginRefused for an invalid ID."""
    found = assertion.get("ID")
    if found is None or not is_id(found):
        raise LoginRefused("assertion_id", f"The ID of the assertion is not valid: {quote(found or '')}.")
    return found


def _read_name_id(subject: etree._Element) -> tuple[str, str]:
    """The subject and its format. Raises LoginRefused for a subject that does not identify the user at later logins."""
    name_id = only_child(subject, "NameID")
    text, name_format = text_of(name_id), name_id.get("Format", FORMAT_UNSPECIFIED)
    if name_format == FORMAT_TRANSIENT:
        raise LoginRefused(
            "name_id_transient", "The NameID is transient. It changes at each login, so it does not identify the user."
        )
    if len(name_format) > MAX_URI_LENGTH or not 0 < len(text) <= MAX_SUBJECT_LENGTH:
        raise LoginRefused(
            "name_id_length", f"The NameID has {len(text)} characters. It must have 1 to {MAX_SUBJECT_LENGTH}."
        )
    if text != text.strip() or not text.isprintable():
        raise LoginRefused(
            "name_id_characters", f"The NameID has spaces at an end, or unprintable characters: {quote(text)}."
        )
    return text, name_format


def _read_attributes(assertion: etree._Element) -> dict[str, list[str]]:
    """Values by name. Attributes with the same name are combined. Values that are elements are left out. Raises
    LoginRefused.
    """
    attributes: dict[str, list[str]] = {}
    for attribute in assertion.iterfind(f"{{{SAML}}}AttributeStatement/{{{SAML}}}Attribute"):
        name = attribute.get("Name", "")
        if not 0 < len(name) <= MAX_URI_LENGTH:
            raise LoginRefused(
                "attribute_name",
                f"An attribute has a name of {len(name)} characters. It must have 1 to {MAX_URI_LENGTH}.",
            )
        values = attributes.setdefault(name, [])
        for value in attribute.iterfind(f"{{{SAML}}}AttributeValue"):
            if not len(value) and value.get(f"{{{XSI}}}nil") not in ("true", "1"):
                values.append(value.text or "")
    return attributes


def _read_authn_context(statement: etree._Element) -> str | None:
    """The authentication context class, None without one. Raises LoginRefused."""
    references = statement.findall(f"{{{SAML}}}AuthnContext/{{{SAML}}}AuthnContextClassRef")
    if not references:
        return None
    text = text_of(references[0])
    if len(references) > 1 or len(text) > MAX_URI_LENGTH:
        raise LoginRefused(
            "authn_context",
            f"There are several authentication contexts, or a context is too long: {quote(text)}.",
        )
    return text


def _read_session_end(statement: etree._Element, now: datetime) -> datetime | None:
    """The end of the provider's session, None without one. Raises LoginRefused."""
    session_end = instant_of(statement, "SessionNotOnOrAfter")
    if session_end is not None:
        _require_not_expired(session_end, now, "session_expired")
    return session_end


def _replay_window(valid_until: datetime, now: datetime) -> datetime:
    """The time until which the assertion could be accepted again. Raises LoginRefused."""
    if valid_until - now > MAX_LIFETIME:
        raise LoginRefused(
            "lifetime_too_long",
            f"The assertion is valid until {valid_until}, which is more than {MAX_LIFETIME} from now.",
        )
    return valid_until + CLOCK_SKEW


def _check_version(element: etree._Element) -> None:
    """Raises LoginRefused for another version of SAML."""
    version = element.get("Version", "")
    if version != VERSION:
        raise LoginRefused("version", f"The SAML version is {quote(version)}, not {VERSION}.")


def _require_not_expired(not_on_or_after: datetime, now: datetime, reason: str) -> None:
    """Raises LoginRefused if the time is over."""
    if now - CLOCK_SKEW >= not_on_or_after:
        raise LoginRefused(reason, f"The validity ended at {not_on_or_after}, but the time is {now}.")
