"""Namespaces and identifiers of SAML 2.0 (saml-core, saml-bindings, saml-profiles) and of XML Signature."""

from typing import Final

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
