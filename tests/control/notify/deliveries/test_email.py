"""E-mail through a real server (aiosmtpd), in clear, with STARTTLS, with TLS from the start, and when it will not.

Mails as they are written, whatever people typed, and what a mail server is.
"""

import asyncio
import ipaddress
import ssl
from dataclasses import replace
from datetime import UTC, datetime
from email import message_from_bytes
from email.policy import default
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import AuthResult
from hypothesis import given, settings
from msgspec import structs

from control.notify.channels.config import MAX_RECIPIENTS, EmailConfig
from control.notify.channels.tables import MAX_TAKEN_LENGTH
from control.notify.deliveries.platforms import email
from control.notify.deliveries.platforms.email import Recipients, send
from control.notify.deliveries.rules import AttemptResult, OutgoingMessage, one_line
from control.notify.message import Message
from control.outbound.egress import Egress
from control.outbound.egress_policy import EgressPolicy
from control.outbound.mail_server import MailServer
from tests.accepting import accepting
from tests.certificates import self_signed, server_context
from tests.control.mail import Office, serving
from tests.control.notify.deliveries.samples import ASK, encoded_word, messages, told

CONFIG = EmailConfig(["ada@example.org", "bob@example.org"])
TOLD = OutgoingMessage(
    "dlv_1", Message(type="a.b", subject="apr_1", title="Größe?"), datetime.now(UTC), datetime.now(UTC)
)
LOOPBACK = EgressPolicy((ipaddress.ip_network("127.0.0.0/8"),))


def operators(detail: str) -> AttemptResult:
    """A fault that the operator has to see to: it counts against no channel, and is never for good."""
    return AttemptResult(False, detail, service_fault=True)


def signed_in(_server: object, _session: object, _envelope: object, _mechanism: str, data: Any) -> AuthResult:
    return AuthResult(success=(data.login, data.password) == (b"sluice", b"pass/word"), handled=False)


async def sent(
    port: int,
    url: str = "smtp://127.0.0.1:{port}",
    policy: EgressPolicy = LOOPBACK,
    trusted: Path | None = None,
    taken: str = "",
) -> AttemptResult:
    tls = None if trusted is None else ssl.create_default_context(cafile=trusted)
    server = MailServer.parse(url.format(port=port), "sluice@example.org")
    return await send(CONFIG, replace(TOLD, recipient_progress=taken), Egress(policy, tls=tls), server)


async def test_mail_has_the_whole_message() -> None:
    async with serving(office := Office()) as port:
        outcome = await sent(port)
    assert (outcome.ok, outcome.detail) == (True, "Delivered.")
    (envelope,) = office.taken
    assert (envelope.mail_from, envelope.rcpt_tos) == ("sluice@example.org", CONFIG.to)
    mail = message_from_bytes(envelope.content or b"", policy=default)  # type: ignore[arg-type]
    assert (mail["Subject"], mail["Message-ID"]) == ("Größe?", "<dlv_1@example.org>")


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return self_signed(tmp_path_factory.mktemp("certificate"))


async def test_tls_is_used_from_the_start_or_where_it_is_offered(pem: Path) -> None:
    """If its certificate is trusted."""
    context = server_context(pem)
    ways: tuple[tuple[str, dict[str, Any]], ...] = (
        ("smtp", {"tls_context": context}),
        ("smtps", {"implicit": context}),
    )
    for scheme, how in ways:
        url = scheme + "://127.0.0.1:{port}"
        async with serving(office := Office(), **how) as port:
            assert await sent(port, url) == operators("The certificate of the mail server is not valid.")
            assert office.taken == []
            assert (await sent(port, url, trusted=pem)).ok
        assert office.encrypted == [True]


async def test_a_password_is_sent_only_over_tls(pem: Path) -> None:
    url = "smtp://sluice:pass%2Fword@127.0.0.1:{port}"
    async with serving(office := Office(), authenticator=signed_in, auth_require_tls=False) as port:
        assert await sent(port, url, trusted=pem) == operators(
            "The mail server lacks STARTTLS or a supported authentication method."
        )
    assert office.taken == []
    context = server_context(pem)
    async with serving(office, tls_context=context, authenticator=signed_in, auth_required=True) as port:
        assert (await sent(port, url, trusted=pem)).ok
        wrong = await sent(port, url.replace("pass", "wrong"), trusted=pem)
    assert wrong == operators("The mail server reported a permanent error (SMTP 535).")


async def test_smtp_5yz_is_permanent_and_4yz_is_retried() -> None:
    async with serving(office := Office()) as port:
        for said, permanent in (
            ("550 no secret", True),
            ("554 x", True),
            ("451 later secret", False),
            ("452 x", False),
        ):
            office.data = said
            outcome = await sent(port)
            assert (outcome.ok, outcome.permanent, outcome.service_fault) == (False, permanent, False)
            assert said[:3] in outcome.detail
            assert "secret" not in outcome.detail


async def test_single_recipients_may_be_rejected() -> None:
    async with serving(office := Office()) as port:
        for ada, bob, ok, permanent, detail in (
            ("550 unknown", "250 OK", True, False, "Delivered to 1 of 2 recipients."),
            ("550 unknown", "550 unknown", False, True, "The mail server rejected every recipient (SMTP 550)."),
            ("550 unknown", "450 busy", False, False, "The mail server rejected every recipient (SMTP 450)."),
        ):
            office.recipients = {"ada@example.org": ada, "bob@example.org": bob}
            outcome = await sent(port)
            assert (outcome.ok, outcome.permanent, outcome.detail) == (ok, permanent, detail)
            assert not outcome.service_fault


async def test_only_deferred_recipients_are_retried() -> None:
    """Not those that were rejected for good, or have it."""
    async with serving(office := Office(recipients={"ada@example.org": "450 greylisted"})) as port:
        first = await sent(port)
        detail = "Delivered to 1 of 2 recipients; the others are retried (SMTP 450)."
        assert (first.ok, first.permanent, first.detail) == (False, False, detail)
        assert "example" not in first.recipient_progress
        office.recipients = {"bob@example.org": "550 asked again"}
        second = await sent(port, taken=first.recipient_progress)
        assert (second.ok, second.detail) == (True, "Delivered.")
        assert (await sent(port, taken=second.recipient_progress)).ok  # nothing is left to do
        assert [envelope.rcpt_tos for envelope in office.taken] == [["bob@example.org"], ["ada@example.org"]]
        office.taken.clear()
        office.recipients = {"ada@example.org": "450 greylisted", "bob@example.org": "550 unknown"}
        first = await sent(port)
        assert (first.ok, first.permanent) == (False, False)
        office.recipients = {}
        second = await sent(port, taken=first.recipient_progress)
    assert (second.ok, second.detail) == (True, "Delivered to 1 of 2 recipients.")
    assert [envelope.rcpt_tos for envelope in office.taken] == [["ada@example.org"]]


def test_recipient_marks_fit_their_column_and_drop_former_recipients() -> None:
    addresses = [f"{number}@example.org" for number in range(MAX_RECIPIENTS)]
    outcome = Recipients("dlv_1", addresses).with_results(dict.fromkeys(addresses[1:], 550)).result()
    assert len(outcome.recipient_progress) <= MAX_TAKEN_LENGTH
    assert Recipients.restore("dlv_1", addresses, outcome.recipient_progress).pending == []
    assert Recipients.restore("dlv_2", addresses, outcome.recipient_progress).pending == addresses
    other = Recipients.restore("dlv_1", [addresses[0], "new@example.org"], outcome.recipient_progress)
    assert other.pending == ["new@example.org"]
    assert len(other.with_results({}).result().recipient_progress.split()) == 2


async def test_what_the_operator_has_to_see_to(monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int) -> None:
    """Who hangs or hangs up, what the egress guard blocks, and that there is no server."""

    async def hang_up(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None: ...

    async with accepting(hang_up) as port:
        assert await sent(port) == operators("The connection to the mail server was lost.")
    async with serving(office := Office()) as port:
        outcome = await sent(port, policy=EgressPolicy(ports=frozenset({port})))
    assert (outcome.ok, outcome.service_fault, office.taken) == (False, True, [])
    assert outcome.detail.startswith("The mail server is unreachable: ")
    assert (await sent(unused_tcp_port)).service_fault
    assert await send(CONFIG, TOLD, Egress(LOOPBACK), None) == operators("No SMTP server is configured.")
    monkeypatch.setattr("control.outbound.smtp.TOTAL_TIMEOUT_S", 0.3)
    async with serving(Office(hangs=True)) as port:
        assert await sent(port) == operators("The mail server did not respond in time.")


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
