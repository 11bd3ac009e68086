"""Addresses of views for messages and mails: on the operator's own page if there is one, otherwise on Sluice's page."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class PageLinks:
    """`own_page`: base URL of the operator's own page. `public_url`: base URL of Sluice as users see it, whose page is
    below `/ui`. Without both there are no links.
    """

    own_page: str = ""
    public_url: str = ""

    @property
    def exist(self) -> bool:
        """Whether there is a page to link to."""
        return bool(self.own_page or self.public_url)

    def approval_request(self, org_slug: str, request_id: str) -> str | None:
        """The view of an approval request."""
        return self._link(f"/orgs/{org_slug}/approval-requests/{request_id}", f"/{org_slug}/approvals/{request_id}")

    def issues(self, org_slug: str, project_slug: str) -> str | None:
        """The view of the issues of a project."""
        return self._link(f"/orgs/{org_slug}/projects/{project_slug}/issues", f"/{org_slug}/{project_slug}/issues")

    def issue(self, org_slug: str, project_slug: str, issue_id: str) -> str | None:
        """The view of an issue."""
        issues = self.issues(org_slug, project_slug)
        return None if issues is None else f"{issues}/{issue_id}"

    def invitation(self, secret: str) -> str | None:
        """The view in which an invitation is accepted. The secret is in the fragment, which no server and log sees."""
        accept = f"/invitations#inviteToken={secret}"
        return self._link(accept, accept)

    def verification(self, org_slug: str, secret: str) -> str | None:
        """The view in which an address is verified. Sluice's page asks for the secret, because the user is logged in
        there.
        """
        return self._link(f"/email-verification#token={secret}", f"/{org_slug}/settings/account")

    def login_link(self, secret: str) -> str | None:
        """The view in which a browser that asked for this link logs in without a proof of work."""
        return self._link(f"/login#linkSecret={secret}", f"/#linkSecret={secret}")

    def _link(self, own: str, ours: str) -> str | None:
        if self.own_page:
            return self.own_page + own
        return f"{self.public_url}/ui{ours}" if self.public_url else None


NO_PAGES: Final = PageLinks()
