"""The messages of Sluice as a service provider: the request that starts a login, AuthnRequest (saml-core 3.4.1) in the
HTTP-Redirect binding (saml-bindings 3.4), and its metadata (saml-metadata 2.4.4), which administrators import into
their identity provider.
"""

import base64
import secrets
import zlib
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, urlencode

from lxml import etree

from control.identity.sso.saml.document import (
    FORMAT_EMAIL,
    FORMAT_PERSISTENT,
    HTTP_POST,
    METADATA,
    SAML,
    SAMLP,
    VERSION,
)

MAX_RELAY_STATE_BYTES: Final = 80  # saml-bindings 3.4.3
_ID_BYTES: Final = 20  # saml-core 1.3.4: 128 to 160 random bits


def new_request_id() -> str:
    """An identifier that cannot be guessed: 160 random bits, as an XML name."""
    return "_" + secrets.token_hex(_ID_BYTES)


def redirect_url(
    idp_sso_url: str, *, request_id: str, issue_instant: datetime, issuer: str, acs_url: str, relay_state: str
) -> str:
    """The address that the browser is sent to: the provider's URL, with the request and RelayState added to its query.

    `issuer`: entity ID of Sluice for the organization. The request asks for no NameID format, because a provider that
    does not support the format answers with an error. The request is not signed: it names no user, and the response is
    bound to its ID. Raises ValueError for an instant without a time zone and a RelayState of more than 80 bytes.
    """
    if issue_instant.tzinfo is None:
        raise ValueError("The issue instant has no time zone.")
    if len(relay_state.encode()) > MAX_RELAY_STATE_BYTES:
        raise ValueError(f"The RelayState has more than {MAX_RELAY_STATE_BYTES} bytes.")
    request = etree.Element(
        f"{{{SAMLP}}}AuthnRequest",
        {
            "ID": request_id,
            "Version": VERSION,
            "IssueInstant": issue_instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "Destination": idp_sso_url,
            "AssertionConsumerServiceURL": acs_url,
            "ProtocolBinding": HTTP_POST,
        },
        nsmap={"samlp": SAMLP, "saml": SAML},
    )
    etree.SubElement(request, f"{{{SAML}}}Issuer").text = issuer
    # Without this, a provider may not create an identifier for a user who logs in for the first time.
    etree.SubElement(request, f"{{{SAMLP}}}NameIDPolicy", {"AllowCreate": "true"})
    parameters = {"SAMLRequest": _deflate(etree.tostring(request)), "RelayState": relay_state}
    return _add_query(idp_sso_url, urlencode(parameters, quote_via=quote))


def _deflate(xml: bytes) -> str:
    """The DEFLATE encoding (saml-bindings 3.4.4.1): RFC 1951 without the header of zlib, in base64."""
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return base64.b64encode(compressor.compress(xml) + compressor.flush()).decode("ascii")


def _add_query(url: str, query: str) -> str:
    """`url` with additional query parameters. Its fragment is removed, because browsers do not send it."""
    base = url.partition("#")[0]
    if "?" not in base:
        return f"{base}?{query}"
    return f"{base}{query}" if base.endswith(("?", "&")) else f"{base}&{query}"


def build_metadata(entity_id: str, acs_url: str) -> bytes:
    """An EntityDescriptor in UTF-8, with an XML declaration.

    It has no key: requests are not signed, and encrypted assertions are refused. Its NameID formats are formats that
    identify a user also at later logins, which `transient` does not.
    """
    entity = etree.Element(f"{{{METADATA}}}EntityDescriptor", {"entityID": entity_id}, nsmap={"md": METADATA})
    provider = etree.SubElement(
        entity,
        f"{{{METADATA}}}SPSSODescriptor",
        {"AuthnRequestsSigned": "false", "WantAssertionsSigned": "true", "protocolSupportEnumeration": SAMLP},
    )
    for name_id_format in (FORMAT_PERSISTENT, FORMAT_EMAIL):
        etree.SubElement(provider, f"{{{METADATA}}}NameIDFormat").text = name_id_format
    etree.SubElement(
        provider,
        f"{{{METADATA}}}AssertionConsumerService",
        {"Binding": HTTP_POST, "Location": acs_url, "index": "0", "isDefault": "true"},
    )
    return etree.tostring(entity, xml_declaration=True, encoding="UTF-8", pretty_print=True)
