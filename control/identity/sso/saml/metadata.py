"""Metadata of Sluice as a service provider, which administrators import into their identity provider (saml-metadata
2.4.4).
"""

from lxml import etree

from control.identity.sso.saml.namespaces import FORMAT_EMAIL, FORMAT_PERSISTENT, HTTP_POST, METADATA, SAMLP


def build_metadata(entity_id: str, acs_url: str) -> bytes:
    """An EntityDescriptor in UTF-8, with an XML declaration.

    It has no key: requests are not signed, and encrypted assertions are refused. Its NameID formats are those that
    identify a user at the next login, too; `transient` does not.
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
