"""Our addresses as providers know them. They have no query: `format` is none of their business."""

from dataclasses import dataclass

from control.identity.sso.tables import Protocol


@dataclass(frozen=True, slots=True)
class SsoUrls:
    """`base`: the public base URL, without a slash at the end."""

    base: str

    def entity_id(self, org_slug: str) -> str:
        """The entity id of the service provider, one for each organization: the address of its metadata."""
        return f"{self.base}/sso/saml/{org_slug}/metadata"

    def acs(self, org_slug: str) -> str:
        """Where a SAML provider posts its response (assertion consumer service)."""
        return f"{self.base}/sso/saml/{org_slug}/acs"

    def callback(self, org_slug: str) -> str:
        """The redirect URI of an OpenID provider."""
        return f"{self.base}/sso/oidc/{org_slug}/callback"

    def start(self, protocol: Protocol, org_slug: str) -> str:
        """Where a login begins."""
        return f"{self.base}/sso/{protocol.value.lower()}/{org_slug}/start"
