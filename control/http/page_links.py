"""Addresses of views, for messages and mails: of the operator's own page, else of the page of Sluice."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class PageLinks:
    """`own_page`: base URL of the operator's own page. `public_url`: base URL of Sluice, whose page is below `/ui`; it
    is linked only where the operator has said which address users see. Without both there are no links.
    """

    own_page: str = ""
    public_url: str = ""

    @property
    def exist(self) -> bool:
        """Whether there is a page to link to."""
        return bool(self.own_page or self.public_url)

    def approval_request(self, org_slug: str, request_id: str) -> str | None:
        """The view of a request."""
        return self._link(f"/orgs/{org_slug}/approval-requests/{request_id}", f"/{org_slug}/approvals/{request_id}")

    def issues(self, org_slug: str, project_slug: str) -> str | None:
        """The view of the issues of a project."""
        return self._link(f"/orgs/{org_slug}/projects/{project_slug}/issues", f"/{org_slug}/{project_slug}/issues")

    def issue(self, org_slug: str, project_slug: str, issue_id: str) -> str | None:
        """The view of an issue."""
        issues = self.issues(org_slug, project_slug)
        return None if issues is None else f"{issues}/{issue_id}"

    def invitation(self, secret: str) -> str | None:
        """Where an invitation is accepted. The secret is in the fragment, which reaches no server and no log."""
        accept = f"/invitations#inviteToken={secret}"
        return self._link(accept, accept)

    def verification(self, org_slug: str, secret: str) -> str | None:
        """Where an address is verified. Our own page asks for the secret: the user is logged in there."""
        return self._link(f"/email-verification#token={secret}", f"/{org_slug}/settings/account")

    def login_link(self, secret: str) -> str | None:
        """Where a browser that has asked for it logs in without a proof of work."""
        return self._link(f"/login#linkSecret={secret}", f"/#linkSecret={secret}")

    def _link(self, own: str, ours: str) -> str | None:
        if self.own_page:
            return self.own_page + own
        return f"{self.public_url}/ui{ours}" if self.public_url else None


NO_PAGES: Final = PageLinks()
