"""Stack traces as the runtimes print them: which exception is the cause, and which frames are the application's own."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from proto.grouping.fingerprint import fingerprint, forget
from proto.stack_traces import in_app_frames
from proto.stack_traces.chain import MAX_FRAMES
from proto.stack_traces.frames import MAX_MEMBERS
from proto.stack_traces.lines import read_line
from proto.stack_traces.trace import END_CHARS, Trace, read_trace
from tests.proto.grouping.pairs import read_pairs, runtimes


def read_examples() -> dict[str, tuple[str, str]]:
    """By name: what is expected, and the trace."""
    examples = {}
    text = (Path(__file__).parent / "traces.txt").read_text(encoding="utf-8")
    for section in text.split("\n==== ")[1:]:
        head, _, trace = section.partition("\n")
        name, _, expected = head.partition(" | ")
        examples[name] = (expected, trace)
    return examples


EXAMPLES = read_examples()
HOSTILE = (
    ("    at ", "a("), ("at ", "a "), ("", "x@"), ("", "/a"),
    ("at a.", "<a>"), ("a.rb:1:in `", "in "), ("#0 ", ".php(1): a("),
    ("#0 ", "a (package:"), ("1: ", "a::"), ("at /", "_ab-"), ("at ", ":1"), ("main.", "(a)."), ("a in ", "in /a.php:"),
    ("#0 0x1 ", " in a"), ("1 A 0x1 ", " + 1"), ("", "|"), ("at a.b(", " in a:"), ("./a(", "+0x1"),
)  # fmt: skip


def written(trace: Trace) -> str:
    """As the heads of `traces.txt` have it."""
    texts = [frame.text for frame in trace.own]
    place, callers = (" ; ".join(part) for part in (texts[: trace.place], texts[trace.place :]))
    return f"{trace.cause} | {place}{f' || {callers}' if callers else ''}"


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_cause_and_the_own_frames(name: str) -> None:
    expected, trace = EXAMPLES[name]
    assert written(read_trace(trace)) == expected
    assert written(read_trace(trace.replace("\n", "\r\n"))) == expected


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_long_message_hides_no_frame(name: str) -> None:
    expected, trace = EXAMPLES[name]
    first, _, rest = trace.partition("\n")
    long = "".join(f"  and the value {number} is not allowed here\n" for number in range(200))
    assert len(long) > 6_000
    if name.startswith("python"):
        assert written(read_trace(f"{trace}\n{long}")) == expected
    elif first.startswith(("com.", "java.", "a.B", "x:", "TypeError", "System.")):
        assert written(read_trace(f"{first}\n{long}{rest}")) == expected


def test_what_was_read_before_changes_nothing() -> None:
    errors = [error for runtime in runtimes() for pair in read_pairs(runtime) for error in pair.errors]
    forget()
    warm = [fingerprint(*error) for error in errors]
    assert [fingerprint(*error) for error in reversed(errors)] == warm[::-1]
    for error, known in zip(errors, warm, strict=True):
        forget()
        assert fingerprint(*error) == known


def test_threads_read_the_same() -> None:
    errors = [error for runtime in runtimes() for pair in read_pairs(runtime) for error in pair.errors]
    known = [fingerprint(*error) for error in errors]
    forget()
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(lambda: [fingerprint(*error) for error in errors]) for _ in range(4)]
        assert all(job.result() == known for job in jobs)


def test_both_ends_of_a_long_trace_are_read() -> None:
    frames = "".join(f"\tat com.shop.Step{number % 7}.run(Step.java:1)\n" for number in range(1_000))
    trace = f"E: x\n{frames}Caused by: F: y\n\tat com.shop.Last.run(Last.java:1)\n"
    assert len(trace) > 2 * END_CHARS
    assert in_app_frames(trace) == ["com.shop.Last:run"]
    assert in_app_frames(f"E: x\n\tat com.shop.First.run(First.java:1)\n{'z' * 3 * END_CHARS}") == [
        "com.shop.First:run"
    ]
    assert in_app_frames("\n" * 50_000 + "\tat com.shop.Last.run(Last.java:1)") == ["com.shop.Last:run"]


@pytest.mark.parametrize(("start", "part"), HOSTILE)
def test_hostile_lines_are_read_in_linear_time(start: str, part: str) -> None:
    """A pattern that goes back and forth in a line of 512 characters would take minutes."""
    for count in range(1, 100):
        line = start + part * (5 * count)
        assert read_line(line) is not None
        read_trace(f"{line}\n{line}!\n{line})")


@pytest.mark.parametrize("repeated", [2, 20])
def test_causes_do_not_multiply_the_frames_of_their_wrappers(repeated: int) -> None:
    trace, count = "E: a\n" + "\tat com.shop.A.b(A.java:1)\n" * 100, 100
    for cause in range(4):
        trace += f"Caused by: com.shop.E{cause}: b\n" + f"\t... {min(count, 999_999)} more\n" * repeated
        count *= repeated
    assert len(read_trace(trace).own) == 100
    assert fingerprint("E", "", trace) == fingerprint("E", "", trace.replace("\t... ", "\t\t... "))


def test_the_frames_of_an_exception_are_bounded() -> None:
    trace = "E: a\n" + "\tat com.shop.A.b(A.java:1)\n" * 380
    for count in (380, 720, 1_000):
        trace += "Caused by: com.shop.E: b\n" + "\tat com.shop.C.d(C.java:1)\n" * 340 + f"\t... {count} more\n"
    assert len(read_trace(trace).own) <= MAX_FRAMES


def test_lines_of_another_runtime_are_no_halves_of_a_frame() -> None:
    go = "main.add()\n\t/app/cart.go:3\n" * 3
    assert in_app_frames(f"{go}#1 /app/run.php(9): App\\run_job()\n\t/app/cart.go:4\n") == ["main:add"] * 3
    rust = "   1: shop::add\n             at ./src/cart.rs:2:40\n" * 3
    assert in_app_frames(f"{rust}   4: shop::run\n\t/app/cart.go:4\n") == ["shop::add"] * 3 + ["shop::run"]


OWN_SOURCES = (
    "internal/cart.ts native/bridge.ts extensions/cart/index.ts bundles/cart.ts nodes/cart.ts external/pay.ts "
    "bundle.js bunker.ts deno/cart.ts native.ts node/cart.ts internal/modules/cart.ts"
)
LIBRARY_SOURCES = (
    "node_modules/pay/index.js ../node_modules/pay/index.js webpack/bootstrap webpack/runtime/chunk.js "
    "webpack:///webpack/bootstrap internal/modules/cjs/loader.js internal/timers.js node:internal/timers native:1 "
    "internal/main/run_main_module.js ext:core/01.js bun:main"
)


@pytest.mark.parametrize("source", OWN_SOURCES.split())
def test_a_source_of_the_application_may_begin_as_a_runtime_does(source: str) -> None:
    assert [frame.file for frame in read_trace(f"E: a\n    at pay ({source}:1:2)").own] == [source]


@pytest.mark.parametrize("source", LIBRARY_SOURCES.split())
def test_sources_of_runtimes_and_packages_are_not_own(source: str) -> None:
    assert read_trace(f"E: a\n    at pay ({source}:1:2)").own == []


@pytest.mark.parametrize(
    ("head", "member"),
    [
        (
            "  + Exception Group Traceback\n  | E: a\n",
            '    +---- 1 ----\n    |   File "/a.py", line 1, in f{}\n    | E: a\n',
        ),
        ("E: a {\n  [errors]: [\n", "    TypeError: a\n        at f{} (/a.js:1:2)\n"),
        (
            "E: a\n ---> B: b\n   --- End of inner\n   at A.f() in /a.cs:line 1\n",
            " ---> (Inner Exception #1) B: b\n   at A.f{}()\n",
        ),
    ],
)
def test_the_members_of_a_group_are_bounded(head: str, member: str) -> None:
    """And each has its own frames."""
    few = read_trace(head + "".join(member.format(number) for number in range(9)))
    assert len({one.own[0].function for one in (few, *few.others)}) >= 9
    many = read_trace(head + "".join(member.format(number) for number in range(2 * MAX_MEMBERS)))
    assert len(many.others) == MAX_MEMBERS - 1
