"""Addresses that messages and mails lead to."""

from control.http.page_links import NO_PAGES, PageLinks

OWN = "https://ops.example.org"
PUBLIC = "https://sluice.example.org"


def every(pages: PageLinks) -> list[str | None]:
    return [
        pages.approval_request("acme", "apr_1"),
        pages.issues("acme", "web"),
        pages.issue("acme", "web", "iss_1"),
        pages.invitation("inv_x"),
        pages.verification("acme", "emv_x"),
        pages.login_link("x"),
    ]


def test_a_page_of_the_operator_is_linked_before_ours() -> None:
    for public in ("", PUBLIC):
        assert every(PageLinks(OWN, public)) == [
            f"{OWN}/orgs/acme/approval-requests/apr_1",
            f"{OWN}/orgs/acme/projects/web/issues",
            f"{OWN}/orgs/acme/projects/web/issues/iss_1",
            f"{OWN}/invitations#inviteToken=inv_x",
            f"{OWN}/email-verification#token=emv_x",
            f"{OWN}/login#linkSecret=x",
        ]


def test_the_page_of_sluice_is_linked_where_its_address_is_known() -> None:
    assert every(PageLinks("", PUBLIC)) == [
        f"{PUBLIC}/ui/acme/approvals/apr_1",
        f"{PUBLIC}/ui/acme/web/issues",
        f"{PUBLIC}/ui/acme/web/issues/iss_1",
        f"{PUBLIC}/ui/invitations#inviteToken=inv_x",
        f"{PUBLIC}/ui/acme/settings/account",
        f"{PUBLIC}/ui/#linkSecret=x",
    ]


def test_without_an_address_there_are_no_links() -> None:
    assert every(NO_PAGES) == [None] * 6
    assert not NO_PAGES.exist
    assert PageLinks("", PUBLIC).exist
