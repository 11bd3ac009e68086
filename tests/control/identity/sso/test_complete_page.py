"""The page on which a login ends: what its script asks, and what it shows."""

import json
import subprocess
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from tests.programs import program

HANDOFF: dict[str, Any] = {
    "user": {"name": "Ada", "email": "ada@example.com"},
    "role": "ADMIN",
    "tokens": {"accessToken": "t", "expiresIn": 900},
    "next": "/orgs",
}


def show(hash_: str = "#code=abc", **responses: tuple[int, str]) -> Any:
    """What the page shows and asks, with these responses of the server to `handoff` and `organizations`."""
    paths = {"handoff": "handoff", "organizations": "../auth/organizations"}
    given = {
        "html": resources.files("control.identity.sso.login").joinpath("complete.html").read_text(encoding="utf-8"),
        "responses": {paths[name]: {"status": status, "body": body} for name, (status, body) in responses.items()},
        "hash": hash_,
    }
    script = Path(__file__).with_name("complete_page.mjs")
    ran = subprocess.run([program("node"), script], input=json.dumps(given).encode(), capture_output=True, check=True)
    return json.loads(ran.stdout)


@pytest.mark.parametrize(("status", "title", "hint"), [(200, "Signed in", False), (401, "Second factor needed", True)])
def test_it_spends_the_code_and_says_who_is_signed_in(status: int, title: str, hint: bool) -> None:
    shown = show(handoff=(200, json.dumps(HANDOFF)), organizations=(status, "{}"))
    assert shown["asked"] == [["handoff", '{"code":"abc"}', None], ["../auth/organizations", None, "Bearer t"]]
    elements = shown["elements"]
    assert elements["title"]["textContent"] == title
    assert "You are Ada (ada@example.com), role ADMIN" in elements["text"]["textContent"]
    assert ("/auth/totp/verify" in elements["text"]["textContent"]) is hint
    link = elements["link"]["href"]
    assert (link, elements["more"]["hidden"], elements["next"]["hidden"]) == (
        "https://sluice.example/orgs",
        False,
        False,
    )


@pytest.mark.parametrize(
    "next_path", ["https://evil.example/", "//evil.example", "/.//evil.example", "/x/..//", "/\\\\evil.example"]
)
def test_it_links_to_no_other_origin(next_path: str) -> None:
    shown = show(handoff=(200, json.dumps(HANDOFF | {"next": next_path})), organizations=(200, "{}"))
    assert shown["elements"]["title"]["textContent"] == "Signed in"
    assert "link" not in shown["elements"]


@pytest.mark.parametrize(
    ("hash_", "handoff", "text"),
    [
        ("", (200, "{}"), "This address has no code. Begin at your organization's sign-in address."),
        ("#code=abc", (400, '{"error": {"message": "No."}}'), "No."),
        ("#code=abc", (502, "<html>"), "The server answers 502."),
    ],
)
def test_it_says_why_nobody_is_signed_in(hash_: str, handoff: tuple[int, str], text: str) -> None:
    elements = show(hash_, handoff=handoff)["elements"]
    assert (elements["title"]["textContent"], elements["text"]["textContent"]) == ("Not signed in", text)
    assert "more" not in elements
