"""Addresses of SCIM resources."""

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class ScimUrls:
    """Addresses of resources, for `meta.location` and `$ref`. `public_url`: that of the API."""

    public_url: str

    def base(self, org_slug: str) -> str:
        """The organization's SCIM endpoint."""
        return f"{self.public_url}/scim/v2/{quote(org_slug)}"

    def user(self, org_slug: str, user_id: str) -> str:
        """A user's."""
        return f"{self.base(org_slug)}/Users/{user_id}"

    def group(self, org_slug: str, group_id: str) -> str:
        """A group's."""
        return f"{self.base(org_slug)}/Groups/{group_id}"
