"""Pairs that are made, because their traces are long or differ in one name."""

from collections.abc import Iterator, Sequence
from typing import Final

from tests.proto.grouping.pairs import Pair, Raised


def python_trace(*frames: tuple[str, str], error: str = "E: b") -> str:
    """A traceback of (file, function), outermost first."""
    lines = (f'  File "{file}", line {line}, in {name}\n' for line, (file, name) in enumerate(frames, 1))
    return f"Traceback (most recent call last):\n{''.join(lines)}{error}\n"


def java_trace(head: str, *frames: str) -> str:
    """A stack trace below its first line, innermost frame first."""
    return head + "".join(f"\n\tat {frame}" for frame in frames)


def _task_group(name: str, error: str) -> Raised:
    message = "unhandled errors in a TaskGroup (1 sub-exception)"
    trace = (
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "/app/main.py", line 3, in handle\n'
        '  |   File "/usr/lib/python3.12/asyncio/taskgroups.py", line 1, in __aexit__\n'
        f"  | ExceptionGroup: {message}\n"
        "  +-+---------------- 1 ----------------\n"
        "    | Traceback (most recent call last):\n"
        f'    |   File "/app/{name}.py", line 4, in {name}\n'
        f"    | {error}\n"
        "    +------------------------------------\n"
    )
    return Raised("ExceptionGroup", message, trace)


def _completion(cause: str, frame: str) -> Raised:
    kind = "java.util.concurrent.CompletionException"
    outer = java_trace(
        f"{kind}: {cause}",
        "java.base/java.util.concurrent.CompletableFuture.encodeThrowable(CompletableFuture.java:315)",
        "java.base/java.lang.Thread.run(Thread.java:840)",
    )
    return Raised(kind, cause, f"{outer}\n{java_trace(f'Caused by: {cause}', frame)}")


def _go_json(source: str, function: str) -> Raised:
    encoders = "".join(f"encoding/json.(*e).{x}()\n\t{source}encoding/json/encode.go:1 +0x1\n" for x in "abcde")
    trace = (
        f"goroutine 1 [running]:\nruntime/debug.Stack()\n\t{source}runtime/debug/stack.go:26 +0x5e\n"
        f"{encoders}main.{function}()\n\t/app/{function}.go:3 +0x1"
    )
    return Raised("panic", "b", trace)


def _go_pkg_errors(function: str, file: str) -> Raised:
    return Raised("*errors.fundamental", "b", f"b\nmain.{function}\n\t/app/{file}:3\nmain.main\n\t/app/m.go:9")


def _rust(name: str) -> Raised:
    std = "".join(
        f"  {i:2}: std::x{i}\n             at /rustc/59807616e1fa25/library/std/src/x{i}.rs:2254:9\n" for i in range(6)
    )
    return Raised("panic", "b", f"{std}   7: shop::{name}\n             at ./src/{name}.rs:2:40")


def _browser(url: str, function: str = "Q", kind: str = "TypeError") -> Raised:
    return Raised(kind, "b", f"TypeError: b\n    at {function} ({url}:1:2)")


def _rails(controller: str) -> Raised:
    library = "".join(
        f"activerecord (7.1.2) lib/active_record/{x}.rb:9:in `{x}'\n"
        for x in ("core", "finder", "query", "base", "scoping")
    )
    return Raised("T", "b", f"{library}app/controllers/{controller}.rb:3:in `show'")


def _python_recursion(first: int) -> Raised:
    message = "maximum recursion depth exceeded"
    frames = [("/app/r.py", "abc"[(number + first) % 3]) for number in range(30)]
    return Raised("RecursionError", message, python_trace(*frames, error=f"RecursionError: {message}"))


def _java_recursion(first: int) -> Raised:
    kind = "java.lang.StackOverflowError"
    frames = [f"com.shop.T.{'abc'[(number + first) % 3]}(T.java:5)" for number in range(40)]
    return Raised(kind, "", java_trace(kind, *frames))


def _java(message: str, *frames: str) -> Raised:
    return Raised("E", message, java_trace(f"E: {message}", *frames))


_LOOP: Final = ("/usr/lib/python3.12/asyncio/base_events.py", "run_forever")
_WINDOWS: Final = ("C:\\shop\\cart.py", "add")
_PAGE: Final = "https://s.example/page/_ctx_H4sIAAAAAAACA8VV"

_DIFFERENT: Final[Sequence[tuple[str, tuple[Raised, ...]]]] = (
    (
        "python: two bugs in a TaskGroup",
        (_task_group("checkout", "KeyError: 'price'"), _task_group("ship", "ConnectionError: away")),
    ),
    (
        "java: two bugs behind a CompletionException",
        (
            _completion("a.Declined: card", "com.shop.Pay.run(Pay.java:3)"),
            _completion("a.Bounced: mail", "com.shop.Mail.run(Mail.java:3)"),
        ),
    ),
    (
        "python: no own frame",
        (
            Raised("ConnectionError", "redis away", python_trace(_LOOP)),
            Raised("ConnectionError", "mail server refused", python_trace(_LOOP)),
        ),
    ),
    ("go -trimpath: two callers", (_go_json("", "invoice"), _go_json("", "tax"))),
    (
        "go of golang.org: two callers",
        (_go_json("/usr/local/go/src/", "invoice"), _go_json("/usr/local/go/src/", "tax")),
    ),
    ("go pkg/errors: two callers", (_go_pkg_errors("add", "cart.go"), _go_pkg_errors("send", "mail.go"))),
    ("rust: two places", (_rust("cart"), _rust("mail"))),
    (
        ".net of Mono: two places",
        tuple(
            Raised("E", "b", f"E: b\n  at Shop.{place} (System.Int32 id) [0x00001] in <3a2b1c4d5e6f>:0 ")
            for place in ("Cart.Add", "Mail.Send")
        ),
    ),
    ("rails, cleaned: two controllers", (_rails("cart"), _rails("mail"))),
)

_SAME: Final[Sequence[tuple[str, tuple[Raised, ...]]]] = (
    (
        "vite: another build",
        (
            _browser("https://s.example/assets/index-DbQ2xY9p.js"),
            _browser("https://s.example/assets/index-Bk3_f-Qa.js"),
        ),
    ),
    (
        "webpack: another build",
        (_browser("https://s.example/main.3f2a1b9c.js"), _browser("https://s.example/main.9bd01cc4.js")),
    ),
    ("python: endless recursion ends at another function", tuple(map(_python_recursion, range(3)))),
    ("java: stack overflow ends at another function", tuple(map(_java_recursion, range(3)))),
    (
        "python: long message",
        tuple(
            Raised("ValueError", "bad:", python_trace(("/app/v.py", "validate"), error="ValueError: bad:\n" + "x" * n))
            for n in (10, 6_000)
        ),
    ),
    ("java: long message", tuple(_java(text, "com.shop.Cart.add(Cart.java:12)") for text in ("short", "x" * 6_000))),
    (
        "java: another start, Hibernate proxy",
        tuple(
            _java("b", "com.shop.Cart.get(Cart.java:3)", f"com.shop.Cart$HibernateProxy${drawn}.get(Unknown Source)")
            for drawn in ("k3JfA1xW", "Zq9xW2pT")
        ),
    ),
    ("scala: a lambda more", tuple(_java("b", f"com.shop.Cart.$anonfun$add${n}(Cart.scala:3)") for n in (1, 2))),
    (
        ".net: an async lambda more",
        tuple(
            Raised(
                "E",
                "b",
                f"E: b\n   at Shop.Api.<>c__DisplayClass{n}_0.<<Map>b__{n}>d.MoveNext() in /s/Api.cs:line {n}",
            )
            for n in (2, 3)
        ),
    ),
    (
        "python on Windows: another Python",
        (
            Raised("E", "b", python_trace(_WINDOWS, ("C:\\Python311\\Lib\\json\\decoder.py", "decode"))),
            Raised(
                "E",
                "b",
                python_trace(
                    _WINDOWS,
                    ("C:\\Python312\\Lib\\json\\__init__.py", "loads"),
                    ("C:\\Python312\\Lib\\json\\decoder.py", "decode"),
                ),
            ),
        ),
    ),
    (
        "url of a page in the path",
        (
            _browser(f"{_PAGE}y27bMBD8Fx4N/index", "h", "Error"),
            _browser(f"{_PAGE}XW_bMBT9L36M/index", "h", "Error"),
        ),
    ),
)

# Messages of errors without a stack trace.
_SAME_MESSAGES: Final = (
    ("decimal and whole", "took 1.5 s", "took 12 s"),
    ("exponent", "eps 1.5e-10", "eps 2e-9"),
    ("thousands", "value 1,234", "value 12"),
    ("prefixed id", "user usr_2bXk9QmZ gone", "user usr_7YpLw0Ra gone"),
    ("ULID", "order 01HZX3K9Q8V7B6N5M4A3S2D1F0 gone", "order 01JABCDEF2GHJKMNPQRSTVWXYZ gone"),
    ("pod", "pod web-7d9f8b6c5d-x2x4z died", "pod web-6c4bfd9d7-9kqzl died"),
    ("date in words", "bad Sat, 28 Nov 2026 08:00:00 GMT", "bad Mon, 05 Oct 2026 09:11:10 GMT"),
    ("UUID", "u 8c1f0000-0000-4000-8000-000000000001", "u 8c1f0000-0000-4000-8000-000000000002"),
    ("address", "User a@example.com", "User b@example.org"),
)
_PLURALS: Final = (
    ("process", "processes"), ("match", "matches"), ("cache", "caches"), ("box", "boxes"), ("case", "cases"),
    ("status", "statuses"), ("alias", "aliases"), ("index", "indices"), ("matrix", "matrices"),
    ("service", "services"), ("retry", "retries"), ("house", "houses"), ("hash", "hashes"), ("row", "rows"),
)  # fmt: skip


def constructed() -> Iterator[Pair]:
    """All pairs of this module."""
    for name, errors in _DIFFERENT:
        yield Pair(name, same=False, errors=errors)
    for name, errors in _SAME:
        yield Pair(name, same=True, errors=errors)
    for name, *messages in _SAME_MESSAGES:
        yield Pair(f"message: {name}", same=True, errors=tuple(Raised("E", message, "") for message in messages))
    for one, more in _PLURALS:
        yield Pair(
            f"message: {more}", same=True, errors=(Raised("E", f"no 1 {one}", ""), Raised("E", f"no 2 {more}", ""))
        )
