"""Mails as they are written, whatever people typed, and what a mail server is."""

from email import message_from_bytes
from email.policy import default
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec import structs

from control.notify.channels.config import EmailConfig
from control.notify.deliveries.platforms import email
from control.notify.deliveries.platforms.outgoing_message import one_line
from control.notify.message import Message
from control.outbound.mail_server import MailServer
from tests.control.notify.deliveries.samples import ASK, encoded_word, messages, told

MAIL = EmailConfig(["ada@example.org", "bob@example.org"])


class Links(HTMLParser):
    """Tags and links of an HTML text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value for name, value in attrs if name == "href"]


def parsed(message: Message) -> Any:
    made = email.compose(MAIL, told(message), "sluice@example.org")
    return message_from_bytes(email.to_bytes(made), policy=default)


@settings(max_examples=50)
@given(messages)
def test_mail_is_well_formed_whatever_people_typed(message: Message) -> None:
    mail = parsed(message)
    assert mail["To"] == "ada@example.org, bob@example.org"
    assert mail["From"] == "Sluice <sluice@example.org>"
    assert mail["Message-ID"] == "<dlv_1@example.org>"
    assert len(mail["Subject"]) <= 200
    assert sorted({name.lower() for name in mail}) == sorted(
        ["from", "to", "subject", "date", "message-id", "references", "auto-submitted", "content-type", "mime-version"]
    )
    plain, rich = mail.iter_parts()
    assert (plain.get_content_type(), rich.get_content_type()) == ("text/plain", "text/html")
    html = Links()
    html.feed(rich.get_content())
    assert html.tags <= {"html", "body", "h1", "p", "table", "tr", "td", "a"}
    assert html.links == ([] if message.link is None else [message.link])


def test_encoded_words_in_a_subject_are_broken() -> None:
    for mark in ("=?", "==??", "=\0?", "=\r\n?"):
        words = encoded_word("\r\nBcc: eve@example.com\r\n\r\n<h1>").replace("=?", mark)
        made = email.compose(MAIL, told(structs.replace(ASK, title=words)), "sluice@example.org")
        assert "=?" not in made["Subject"]
        assert b"eve@" not in email.to_bytes(made)
        assert parsed(structs.replace(ASK, title=words))["Subject"] == one_line(words).replace("=?", "= ?")


def test_mail_with_unexpected_headers_is_not_sent() -> None:
    for name in ("Bcc", "X-A", "Auto-Submitted"):
        made = email.compose(MAIL, told(ASK), "sluice@example.org")
        made[name] = "eve@example.com"
        with pytest.raises(ValueError, match="headers"):
            email.to_bytes(made)


def test_mail_shows_the_request() -> None:
    plain, _ = parsed(ASK).iter_parts()
    assert plain.get_content().replace("\r\n", "\n") == (
        "Approve release.rollback of checkout?\n\n"
        "Errors rose <b>after</b> *v42* & <@U1> said so\n\n"
        "Requested by: deploy-bot\n"
        "Risk:         HIGH\n\n"
        "Decide: https://sluice.example.org/a\n"
    )


def test_a_mail_server_is_a_url() -> None:
    for url, server in (
        ("smtp://mail.example.org", ("mail.example.org", 587, False, None, None)),
        ("smtp://mail.example.org:25/", ("mail.example.org", 25, False, None, None)),
        ("smtps://a%40b:p%2Fq@mail.example.org", ("mail.example.org", 465, True, "a@b", "p/q")),
    ):
        found = MailServer.parse(url, "sluice@example.org")
        assert (found.host, found.port, found.implicit_tls, found.user, found.password) == server
        assert "p/q" not in repr(found)


def test_an_invalid_smtp_url_is_not_quoted() -> None:
    wrong = "mail http://mail smtp:// smtp://h:0x smtp://h:99999 smtp://h/path smtp://h?a=b smtp://u:secret#x@h"
    for url in wrong.split():
        with pytest.raises(ValueError, match="must be smtp://") as raised:
            MailServer.parse(url, "sluice@example.org")
        assert "secret" not in str(raised.value)
