"""`/sluice ...` on both platforms: whole answers."""

from datetime import timedelta

from control.approvals.tables import approval_requests, approval_votes
from control.identity.chat_links import ChatPlatform
from control.inbound.chat.commands import HELP, NO_ISSUE, NO_PROJECT, NO_REASON, NO_REQUEST
from control.inbound.chat.replies import CHAT_A_MARKUP, CHAT_B_MARKUP
from proto.identity import Role
from tests.control.inbound.chat.platforms import Chat, interaction, subcommand
from tests.control.issues.releases.stored import NOW, issue, new_issue

HOSTILE = "<!channel> @everyone <https://evil.example|x> *b* `c` www.evil.example & | a\nb"


async def test_help_is_for_everybody(chat: Chat) -> None:
    shown = [await chat.slash(text) for text in ("help", "", "  ", "what is this", "HELP x y", "errors-")]
    assert all(one == shown[0] for one in shown)
    status, answer = shown[0]
    lines = ["*Commands of Sluice*", *(f"`/sluice {usage}` {meaning}" for usage, meaning in HELP)]
    text = "\n".join(lines)
    section = {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}
    assert (status, answer) == (200, {"response_type": "ephemeral", "text": text, "blocks": [section]})
    _, other = await chat.interact(interaction(2, subcommand("help")))
    assert other["type"] == 4
    assert other["data"]["flags"] == 64
    assert other["data"]["content"].startswith("**Commands of Sluice**\n`/sluice errors [PROJECT]` list unresolved")


async def test_errors_are_the_unresolved_ones_seen_last(chat: Chat) -> None:
    await chat.linked(await chat.member(Role.VIEWER))
    assert await chat.says("errors") == "No unresolved errors."
    first = await new_issue(chat.control, 1, title="Boom")
    second = await new_issue(chat.control, 2, title=HOSTILE, last_seen=NOW + timedelta(minutes=1))
    await new_issue(chat.control, 3, status="resolved", resolved_at=NOW)
    await new_issue(chat.control, 4, status="ignored", ignored_until=NOW + timedelta(days=36_500))

    def line(issue_id: str, number: int, title: str, seen: str) -> str:
        url = f"https://sluice.example.org/ui/acme/web/issues/{issue_id}"
        return f"`WEB-{number}` <{url}|{title}>, 1 times, last 2026-11-20 {seen} UTC"

    escaped = "&lt;!channel&gt; @\u200beveryone &lt;https:\u200b//evil.example/x&gt; *b* `c`"
    escaped += " www\u200b.evil.example &amp; / a b"
    lines = [line(second, 2, escaped, "15:01"), line(first, 1, "Boom", "15:00")]
    assert await chat.says("errors") == "\n".join(lines)
    assert await chat.says("errors WEB") == "\n".join(lines)
    for other in ("shop", "../x", "a\u0000"):
        assert await chat.says(f"errors {other}") == NO_PROJECT
    await chat.linked(await chat.member(tenant=chat.control.globex), "U2", tenant=chat.control.globex)
    assert await chat.says("errors", "U2") == "No unresolved errors."


async def test_status_shows_what_waits_and_who_may_decide_gets_a_button(chat: Chat) -> None:
    ada, bob = await chat.member(), await chat.member()
    await chat.linked(ada, "U1")
    await chat.linked(bob, "U2")
    await chat.linked(await chat.member(Role.VIEWER), "U3")
    request_id = await chat.ask(ada, summary=HOSTILE)
    asked = await chat.request(request_id)
    until = asked["expiresAt"][:16].replace("T", " ")
    page = f"<https://sluice.example.org/ui/acme/approvals/{request_id}|deploy.production on service checkout>"
    line = f"`{request_id}` {page}, {asked['riskClass']}, until {until} UTC"
    assert await chat.says("status", "U2") == line
    lines = [line, CHAT_A_MARKUP.text(HOSTILE), "Status: PENDING. Requested by Member."]
    reject = f"To reject it: `/sluice reject {request_id} REASON`"
    _, answer = await chat.slash(f"status {request_id.upper()}", "U2")
    text = "\n".join([*lines, reject])
    button = {
        "type": "button",
        "text": {"type": "plain_text", "text": "Approve"},
        "style": "primary",
        "action_id": "sluice_approve",
        "value": request_id,
    }
    assert answer == {
        "response_type": "ephemeral",
        "text": text,
        "blocks": [
            {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}},
            {"type": "actions", "elements": [button]},
        ],
    }
    for user in ("U1", "U3"):  # the requester; a role that may not
        _, answer = await chat.slash(f"status {request_id}", user)
        assert answer["text"] == "\n".join(lines)
        assert len(answer["blocks"]) == 1
    assert await chat.says("status nothing", "U2") == CHAT_A_MARKUP.text(NO_REQUEST)
    _, other = await chat.interact(interaction(2, subcommand("status", id=request_id), "77"))
    assert "not linked" in other["data"]["content"]
    await chat.linked(bob, "77", platform=ChatPlatform.CHAT_B)
    _, other = await chat.interact(interaction(2, subcommand("status", id=request_id), "77"))
    assert CHAT_B_MARKUP.text(HOSTILE) in other["data"]["content"]
    assert "@everyone" not in other["data"]["content"]


async def test_votes_are_cast_under_the_rules_of_the_api(chat: Chat) -> None:
    ada, bob = await chat.member(), await chat.member()
    await chat.linked(ada, "U1")
    link_id = await chat.linked(bob, "U2")
    await chat.linked(await chat.member(Role.VIEWER), "U3")
    await chat.linked(await chat.member(tenant=chat.control.globex), "U4", tenant=chat.control.globex)
    request_id = await chat.ask(ada)
    refused = [await chat.says(f"approve {request_id}", user) for user in ("U1", "U3", "U4", "U5")]
    assert refused[:3] == [
        "You cannot approve your own request.",
        CHAT_A_MARKUP.text("Your role in acme lacks approvals:decide."),
        CHAT_A_MARKUP.text(NO_REQUEST),
    ]
    assert "not linked" in refused[3]
    assert await chat.count(approval_votes) == 0
    assert await chat.says(f"approve {request_id}", "U2") == "Approved: *deploy.production on service checkout*"
    assert (await chat.request(request_id))["deciderPrincipalId"] == bob.id
    assert await chat.says(f"reject {request_id} late", "U2") == "The request is already APPROVED."
    votes = await chat.audited("approval_request.vote", "approval_request.approve")
    assert [(action, token_id) for action, token_id, _ in votes] == [
        ("approval_request.vote", link_id),
        ("approval_request.approve", link_id),
    ]

    second = await chat.ask(ada)
    for text in (
        "reject",
        f"reject {second}",
        f"reject {second}   ",
        f"reject {second} \u202ex",
        f"reject {second} a\0b",
    ):
        answer = await chat.says(text, "U2")
        assert answer in (CHAT_A_MARKUP.text(NO_REASON), CHAT_A_MARKUP.text(NO_REQUEST)), text
    assert (await chat.request(second))["status"] == "PENDING"
    said = "reject {} not &lt;now&gt; &amp; *never*"
    assert await chat.says(said.format(second), "U2") == "Rejected: *deploy.production on service checkout*"
    assert (await chat.request(second))["reason"] == "not <now> & *never*"

    third = await chat.ask(ada)
    assert await chat.says(f"reject {third} mine", "U1") == "Rejected: *deploy.production on service checkout*"


async def test_a_vote_of_several_says_how_many_are_missing(chat: Chat) -> None:
    await chat.two_must_approve()
    await chat.linked(await chat.member(), "U1")
    await chat.linked(await chat.member(), "U2", platform=ChatPlatform.CHAT_A)
    request_id = await chat.ask()
    waits = "Your approval counts: *deploy.production on service checkout*\n1 of 2 approvals, 1 more needed."
    assert [await chat.says(f"approve {request_id}", "U1") for _ in range(2)] == [waits] * 2
    assert (await chat.says(f"approve {request_id}", "U2")).startswith("Approved")


async def test_an_error_is_resolved_by_its_name(chat: Chat) -> None:
    await chat.linked(await chat.member(), "U1")
    await chat.linked(await chat.member(Role.VIEWER), "U2")
    issue_id = await new_issue(chat.control, 7)
    assert "issues:" in (await chat.says("resolve WEB-7", "U2")).replace("\u200b", "")
    for text in ("", " x", " WEB-999", " SHOP-7", " WEB-99999999999999999999"):
        answer = await chat.says(f"resolve{text}", "U1")
        assert answer in (NO_ISSUE, NO_PROJECT), text
    for _ in range(2):
        assert (await chat.says("resolve web-7", "U1")).startswith("Resolved: `WEB-7` <")
    assert (await issue(chat.control, issue_id)).status == "resolved"
    assert len(await chat.audited("issue.change")) == 1


async def test_a_repeated_vote_changes_nothing_and_gets_the_same_answer(chat: Chat) -> None:
    await chat.linked(await chat.member())
    await chat.linked(await chat.member(), "88", platform=ChatPlatform.CHAT_B)
    for _ in range(2):
        request_id = await chat.ask()
        answers = [await chat.slash(f"reject {request_id} no", trigger=f"t.{request_id}") for _ in range(3)]
        assert answers[0][1]["text"].startswith("Rejected")
        assert answers == [answers[0]] * 3
    request_id = await chat.ask()
    sent = interaction(2, subcommand("approve", id=request_id), "88", "1234567890")
    interactions = [await chat.interact(sent) for _ in range(3)]
    content = "Approved: **deploy.production on service checkout**"
    assert interactions == [(200, {"type": 4, "data": {"content": content, "flags": 64}})] * 3
    assert await chat.count(approval_requests) == 3
    assert len(await chat.audited("approval_request.vote")) == 1
