"""Fingerprints: the same error has the same one in the next release, another error has another."""

import pytest

from proto.grouping.fingerprint import fingerprint
from proto.stack_traces import in_app_frames

PYTHON = """Traceback (most recent call last):
  File "/srv/shop-1.2.3/shop/cart.py", line 10, in add
    self.load(id)
KeyError: 4711

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/usr/lib/python3.11/site-packages/flask/app.py", line 1820, in full_dispatch_request
    rv = self.dispatch_request()
  File "/srv/shop-1.2.3/shop/views.py", line 22, in view
    add()
  File "/srv/shop-1.2.3/shop/cart.py", line 12, in add
    raise ValueError
  File "/usr/lib/python3.11/json/decoder.py", line 3, in decode
ValueError: bad
"""

JAVA = """java.lang.IllegalStateException: no cart
\tat java.base/java.util.Objects.requireNonNull(Objects.java:233)
\tat com.shop.Cart.lambda$add$3(Cart.java:42)
\tat com.shop.Cart$$Lambda$123/0x0000000800c8.run(Unknown Source)
\tat app//com.shop.Main.main(Main.java:5)
\tat org.springframework.web.Servlet.service(Servlet.java:5)
Caused by: java.sql.SQLException: gone
\tat com.other.Db.addQuery(Db.java:1)
"""

JAVASCRIPT = """TypeError: Cannot read properties of undefined (reading 'id')
    at Cart.add (/app/dist/cart.3f2a1b9c.js:10:5)
    at async Promise.all (index 0)
    at async handler (/app/src/http.js:1:2)
    at Module._compile (node:internal/modules/cjs/loader:1105:14)
    at Layer.handle (/app/node_modules/express/lib/router/layer.js:95:5)
"""

FIREFOX = """add@https://shop.example/static/app.3f2a1b9c.js:10:5
@https://shop.example/static/main.js?v=3:11:5
"""

GO = """goroutine 1 [running]:
runtime/debug.Stack()
\t/usr/local/go/src/runtime/debug/stack.go:24 +0x65
panic({0x4b2b20?, 0xc000014070?})
\t/usr/local/go/src/runtime/panic.go:884 +0x213
main.(*Cart).Add(0xc000012345, {0x1, 0x2})
\t/home/ci/build/4711/cart.go:12 +0x1d
github.com/acme/shop/internal/http.Handler.func1.2({0x1, 0x2})
\t/home/ci/build/shop/http.go:12 +0x1d
net/http.(*conn).serve(0x1)
\t/usr/local/go/src/net/http/server.go:1995
github.com/gin-gonic/gin.(*Context).Next(0x1)
\t/home/build/go/pkg/mod/github.com/gin-gonic/gin@v1.9.0/context.go:1
goroutine 2 [running]:
main.other()
\t/home/ci/other.go:1
"""

DOTNET = """System.InvalidOperationException: Sequence contains no elements
   at System.Linq.ThrowHelper.ThrowNoElementsException()
   at Shop.Cart.Add(Int32 id, String name) in C:\\src\\Cart.cs:line 42
   at Shop.Api.CartController.<Post>d__5.MoveNext() in /src/CartController.cs:line 12
--- End of stack trace from previous location ---
   at Shop.Program.<>c__DisplayClass0_0.<Main>b__1(HttpContext c)
"""

RUBY = "app/models/cart.rb:12:in `add'\n/usr/lib/ruby/gems/3.0/rack/x.rb:1:in `call'\n"

PHP = "#0 /var/www/app/src/Cart.php(12): App\\Cart->add(1)\n#1 /var/www/app/vendor/x/y.php(3): foo()\n#2 {main}\n"

TRACES = {
    "python": (PYTHON, ["shop/cart.py:add", "shop/views.py:view"]),
    "java": (JAVA, ["com.other.Db:addQuery"]),
    "javascript": (JAVASCRIPT, ["dist/cart.<hash>.js:Cart.add", "src/http.js:handler"]),
    "firefox": (FIREFOX, ["static/app.<hash>.js:add", "static/main.js:"]),
    "go": (GO, ["main:(*Cart).Add", "internal/http:Handler.func"]),
    "dotnet": (DOTNET, ["Shop.Cart:Add", "Shop.Api.CartController:Post", "Shop.Program:Main"]),
    "ruby": (RUBY, ["models/cart.rb:add"]),
    "php": (PHP, ["src/Cart.php:App\\Cart->add"]),
}

# What a next build changes, and nothing else.
NEXT_BUILD = [
    ("line 12", "line 99"),
    (":42)", ":77)"),
    (":10:5", ":1:93127"),
    ("line 42", "line 43"),
    ("1.2.3", "1.10.0-rc1"),
    ("3f2a1b9c", "9e8d7c6b"),
    ("/home/ci/build/4711/", "/home/ci/build/4712/"),
    ("0xc000012345", "0xc000099999"),
    ("$123/0x0000000800c8", "$77/0x0000000801aa"),
    ("lambda$add$3", "lambda$add$4"),
    ("d__5", "d__6"),
    ("DisplayClass0_0", "DisplayClass1_0"),
    ("func1.2", "func3.1"),
    (".rb:12:", ".rb:13:"),
    ("(12)", "(13)"),
]


@pytest.mark.parametrize("language", TRACES)
def test_own_frames_innermost_first(language: str) -> None:
    trace, frames = TRACES[language]
    assert in_app_frames(trace) == frames


@pytest.mark.parametrize("language", TRACES)
def test_a_next_build_does_not_change_the_fingerprint(language: str) -> None:
    trace, _ = TRACES[language]
    rebuilt = trace
    for old, new in NEXT_BUILD:
        rebuilt = rebuilt.replace(old, new)
    assert rebuilt != trace
    assert fingerprint("E", "other message 7", rebuilt) == fingerprint("E", "message", trace)


@pytest.mark.parametrize("language", TRACES)
def test_another_place_or_type_is_another_error(language: str) -> None:
    trace, _ = TRACES[language]
    moved = trace.replace("add", "remove").replace("Add", "Remove")
    assert fingerprint("E", "", moved) != fingerprint("E", "", trace)
    assert fingerprint("F", "", trace) != fingerprint("E", "", trace)


def test_without_own_frames_all_frames_count() -> None:
    trace = 'Traceback (most recent call last):\n  File "/usr/lib/python3.11/json/decoder.py", line 3, in decode\n'
    assert in_app_frames(trace) == ["json/decoder.py:decode"]


@pytest.mark.parametrize("trace", ["", "no trace at all", "at\nat\n", "\n" * 1000])
def test_without_frames_the_message_counts(trace: str) -> None:
    assert in_app_frames(trace) == []
    first = fingerprint("E", "Order 4711 of bob@example.com failed", trace)
    assert first == fingerprint("E", "Order 12 of eve@example.com failed\nsecond line", trace)
    assert first != fingerprint("E", "Invoice 4711 of bob@example.com failed", trace)
    assert len(first) == 16


@pytest.mark.parametrize(
    "hostile",
    [
        "a" * 16384,
        "    at " + "a(" * 8000,
        "at " + "a " * 8000,
        "x@" * 8000,
        "/a" * 8000,
        '  File "' * 2000,
        "((" * 8000,
    ],
)
def test_hostile_texts_are_read_within_their_bounds(hostile: str) -> None:
    assert len(fingerprint(hostile, hostile, hostile)) == 16


def python(*frames: tuple[str, str]) -> str:
    lines = "".join(f'  File "{file}", line 1, in {function}\n' for file, function in frames)
    return f"Traceback (most recent call last):\n{lines}E: x\n"


def node(*frames: str) -> str:
    return "E: x\n" + "".join(f"    at {frame}\n" for frame in frames)


RETRY = ("/usr/lib/python3.12/site-packages/tenacity/__init__.py", "__call__")
GET = ("/app/shop/client.py", "http_get")
EXPRESS = "Layer.handle (/app/node_modules/express/lib/router/layer.js:95:5)"
GIN = "\ngithub.com/gin-gonic/gin.(*Context).Next(0x1)\n\t/go/pkg/mod/github.com/gin-gonic/gin@v1.9.0/context.go:1\n"
SPRING = "\tat org.springframework.web.Servlet.service(Servlet.java:5)\n"
MINIMAL_API = "E: x\n   at Program.<>c.<<Main>$>b__0_1()\n   at Microsoft.AspNetCore.Http.RequestDelegate.Run()\n"


def test_a_helper_that_a_library_calls_again_is_told_by_its_caller() -> None:
    stock = python(("/app/shop/stock.py", "stock_of"), RETRY, GET)
    payments = python(("/app/shop/payments.py", "charge"), RETRY, GET)
    assert fingerprint("E", "404", stock) != fingerprint("E", "500", payments)
    middlewares = [
        python(("/app/shop/auth.py", "__call__"), RETRY, GET),
        python(("/app/shop/time.py", "dispatch"), RETRY, GET),
    ]
    assert fingerprint("E", "", middlewares[0]) == fingerprint("E", "", middlewares[1])


@pytest.mark.parametrize(
    ("first", "number", "other"),
    [
        (MINIMAL_API, "0_1", "0_7"),
        (node("/app/routes.js:1:2", EXPRESS), ":1:2", ":90:2"),
        (f"main.routes.func1(0x1)\n\t/app/routes.go:3{GIN}", "func1", "func5"),
        (f"E: x\n\tat com.shop.Api.lambda$new$1(Api.java:1)\n{SPRING}", "new$1", "new$9"),
        (f"E: x\n\tat com.shop.Api$1.run(Api.java:1)\n{SPRING}", "Api$1", "Api$2"),
        (python(("/app/api.py", "<lambda>"), RETRY), "line 1", "line 2"),
        ("#0 /app/api.php(3): App\\{closure}()\n", "(3)", "(9)"),
        ("app/api.rb:1:in `block in <main>'\n", ":1:", ":7:"),
        ("#0      Api.<anonymous closure> (package:shop/api.dart:1:5)\n", ":1:5", ":9:5"),
    ],
)
def test_functions_without_name_are_told_by_their_messages(first: str, number: str, other: str) -> None:
    """Their numbers change with each build."""
    other = first.replace(number, other)
    assert other != first
    assert fingerprint("E", "Cart 3 is empty", first) == fingerprint("E", "Cart 4 is empty", other)
    assert fingerprint("E", "Cart is empty", first) != fingerprint("E", "Sequence contains no elements", other)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("Xe.addItem", "Qt.addItem"), ("Object.t [as onClick]", "Object.q [as onClick]"), ("new t", "new q"),
        ("Xte", "Yre"), ("Xte.addItem", "Yre.addItem"), ("a1B", "b_2"), ("$te", "_re"),
    ],
)  # fmt: skip
def test_names_that_a_minifier_gave_do_not_count(name: str, other: str) -> None:
    place = "https://shop.example/assets/index-DbQ2xY9p.js"
    builds = [node(f"{one} ({place}:1:2)") for one in (name, other)]
    assert fingerprint("TypeError", "no", builds[0]) == fingerprint("TypeError", "no", builds[1])


def test_a_class_of_a_source_has_no_minified_name() -> None:
    builds = [node(f"{name}.addItem (src/cart.ts:1:2)") for name in ("Xe", "Qt")]
    assert fingerprint("TypeError", "no", builds[0]) == fingerprint("TypeError", "no", builds[1])


@pytest.mark.parametrize("place", ["https://shop.example/assets/index-DbQ2xY9p.js", "src/cart.ts"])
def test_short_words_are_names(place: str) -> None:
    names = ("add", "get", "map", "run", "Cart.add", "Cart.get")
    assert len({fingerprint("TypeError", "no", node(f"{name} ({place}:1:2)")) for name in names}) == len(names)


def test_closures_of_swift_have_no_number() -> None:
    first = (
        "0   shop   0x0000000100003f2c closure #1 in Cart.add() + 40\n1   shop   0x0000000100003f2c Cart.add() + 4\n"
    )
    assert fingerprint("E", "a", first) == fingerprint("E", "b", first.replace("#1", "#2"))


def test_a_range_error_of_v8_is_no_full_stack_unless_it_says_so() -> None:
    """Browsers raise it for dates and digits, too, and a caller may stand in the stack trace twice."""
    callers = [
        f"    at {one} (/app/app.js:{line}:3)" for line, one in enumerate(["again", "wrap", "again", "main"], 30)
    ]
    invalid = ["RangeError: Invalid time value", "    at formatDate (/app/date.js:3:1)", *callers]
    digits = ["RangeError: toFixed() digits", "    at renderPrice (/app/price.js:3:1)", *callers]
    assert fingerprint("RangeError", "", "\n".join(invalid)) != fingerprint("RangeError", "", "\n".join(digits))
    full = "RangeError: Maximum call stack size exceeded"
    ends = ["\n".join([full, f"    at {one} (/app/app.js:3:1)", *callers * 4]) for one in ("again", "wrap")]
    assert fingerprint("RangeError", "", ends[0]) == fingerprint("RangeError", "", ends[1])
    safari = "\n".join(["again@https://shop.example/app.js:1:2", "wrap@https://shop.example/app.js:2:2"] * 9)
    ends = [f"{safari}\n{one}@https://shop.example/app.js:9:9" for one in ("main", "other")]
    assert fingerprint("RangeError", "", ends[0]) == fingerprint("RangeError", "", ends[1])


def test_packages_of_go_with_one_name_are_told_by_their_paths() -> None:
    users, orders = (
        f"goroutine 1 [running]:\nshop.example/shop/{one}/handler.List(0x1)\n\t/app/{one}/handler/list.go:3 +0x1"
        for one in ("users", "orders")
    )
    assert fingerprint("*errors.errorString", "", users) != fingerprint("*errors.errorString", "", orders)
