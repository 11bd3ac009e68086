"""The oracle of return paths: the URL parser of Node.js, which follows the standard that browsers follow, in a process
that answers line by line.
"""

import json
import subprocess
from pathlib import Path
from typing import Final

from tests.programs import program

BASES: Final = ("https://sluice.example/sso/complete", "http://127.0.0.1:8080/ui/acme")
EXAMPLES: Final = (
    "/", "/x?a=1#b", "/ui/acme/explore?q=a%26b", "/x?", "/x#", "/x/..", "/x/.", "/a/%2e%2E/b", "/%2e%2e/%2E./x",
    "/a//b", "/.//evil.example", "/x/..//", "/x/..//evil.example", "/%2e//", "/%2E//evil.example",
    "/./..//evil.example", "/.%2e/\\evil.example", "/\\evil", "/\\/evil.example", "//", "//evil.example",
    "///evil.example", "/\t/evil.example", "/\n/evil.example", "/\r\\evil.example", "/.\t//evil.example",
    "/.\n/\n/evil.example", "/%\t2e//evil.example", "/\t", "//user:password@evil.example/", "/@evil.example",
    "/.//user@evil.example", "//sluice.example/x", "/x\\..\\\\evil", "/x?//evil.example", "/x#//evil.example",
    "/?/..//", "/x?a#b?c#d", "/\xe9/\xfc?\xf6#\xdf", "/\u2044/evil", "/\uff0f/evil.example", "/\u3002/",
    "/\U0001f600", "/a b?c d#e f", "/a\x00b", "/a\x7fb", "/ \t\n", " /x", "\t/x", "\\x", "x", "", "https:/x",
    "javascript:alert(1)", "/javascript:alert(1)", "/C:/..//evil.example", "/C|/..//x", "/%5cevil.example",
    "/%2f/evil", "/%252e//", "/..;//evil.example", "/.;//x", "/^`{|}<>\"'", "/x?^`{|}<>\"'", "/x#^`{|}<>\"'",
)  # fmt: skip


class UrlStandard:
    """Resolves texts against BASES. The process ends with the tests, as its standard input does."""

    def __init__(self) -> None:
        script = str(Path(__file__).with_suffix(".mjs"))
        self._process = subprocess.Popen([program("node"), script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def close(self) -> None:
        self._process.communicate()

    def resolve(self, text: str, base: str) -> tuple[str, str] | None:
        """The origin, and path with query and fragment; None for what is no URL."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([text, base]).encode() + b"\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return None if answer is None else tuple(answer)

    def return_path(self, text: str) -> str | None:
        """What a login may lead back to: of the origin of each base, with one slash at the beginning."""
        found = [self.resolve(text, base) for base in BASES]
        own = [base[: base.index("/", 8)] for base in BASES]
        if not text.startswith("/") or [each and each[0] for each in found] != own:
            return None
        (path,) = {each[1] for each in found if each is not None}
        return None if path.startswith("//") else path
