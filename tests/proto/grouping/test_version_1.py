"""The rules of fingerprint version 1 never change: issues from before an upgrade are found by their fingerprints. The
values were computed by the release that grouped by these rules.
"""

import pytest

from proto.grouping.version_1 import fingerprint_version_1

PYTHON = """Traceback (most recent call last):
  File "/app/shop/api.py", line 9, in quote
    return cart.total()
  File "/usr/lib/python3.11/site-packages/flask/app.py", line 1, in wrap
    return f()
  File "/app/shop/cart.py", line 17, in total
    return 1 / 0
ZeroDivisionError: division by zero
"""
JAVA = """java.lang.IllegalStateException: no stock 4711
\tat java.base/java.util.Objects.requireNonNull(Objects.java:233)
\tat com.shop.Cart$$EnhancerBySpringCGLIB$$1a2b.add(Cart.java:42)
\tat com.shop.Checkout.lambda$pay$0(Checkout.java:9)
Caused by: java.sql.SQLException: closed
\tat com.shop.Db.query(Db.java:1)
"""
GO = """panic: assignment to entry in nil map

goroutine 1 [running]:
main.(*Cart).Add(0xc000010000, 0x1)
\t/src/shop/cart.go:12 +0x1d
main.main.func1()
\t/src/shop/main.go:7 +0x20
"""
NODE = """TypeError: x is undefined
    at add (/app/src/cart.js:10:5)
    at /app/node_modules/express/lib/router.js:1:2
    at async Object.<anonymous> (/app/assets/index-a1b2c3d4.js:3:9)
"""
DOTNET = """System.InvalidOperationException: x
   at Shop.Cart.<Add>d__7.MoveNext() in /src/Cart.cs:line 42
   at System.Threading.Tasks.Task.Run(Action a)
"""
RUBY = "/app/cart.rb:9:in `add'\n/usr/lib/ruby/3.2/set.rb:1:in `each'\n"
PHP = "#0 /app/Cart.php(42): Shop\\Cart->add()\n#1 /app/vendor/x.php(1): run()\n#2 {main}"
CHATTER = "chatter of a shell\n" * 1_000
CASES = {
    "python": ("ZeroDivisionError", "division by zero", PYTHON),
    "java": ("java.lang.IllegalStateException", "no stock 4711", JAVA),
    "go": ("runtime error", "assignment to entry in nil map", GO),
    "node": ("TypeError", "x is undefined", NODE),
    "dotnet": ("System.InvalidOperationException", "x", DOTNET),
    "ruby": ("NoMethodError", "x", RUBY),
    "php": ("Error", "x", PHP),
    "message": ("ValueError", "order 4711 of ada@shop.example at 2026-11-20T15:00:00Z failed: /srv/a/b 0xdeadbeef", ""),
    "spaces": (" ValueError\n", " " * 2_000 + "late\nlines", ""),
    "nothing": ("", "", ""),
    "long python": ("ZeroDivisionError", "", CHATTER + PYTHON),
    "long python with its frames in the middle": ("ZeroDivisionError", "", CHATTER + PYTHON + CHATTER),
    "long python cut in a line": ("ZeroDivisionError", "", CHATTER + PYTHON + "x" * (4_096 - len(PYTHON) + 35)),
    "long java": ("java.lang.IllegalStateException", "", JAVA + CHATTER + PYTHON.replace("  File", "File")),
    "long python and java": ("java.lang.IllegalStateException", "", JAVA + CHATTER + PYTHON + CHATTER),
}
GOLDEN = {
    "python": "0637761846e00e5100fe31c96ddf4ed4",
    "java": "5c64ff64a9c3b924d017d29222b6f6c0",
    "go": "ae40dcb395c28a4c711cd77240eab03e",
    "node": "afcf2267142eb5590efafa9e4ba18f16",
    "dotnet": "d55f9d0d2436d93b0260d377ffcaaa4e",
    "ruby": "3581618895d70bcd2fd8b2b224ba9e1c",
    "php": "b6c94053e2040035bdd35a7ad50221b8",
    "message": "ad6363171f029e751cb55a338aa6f37e",
    "spaces": "4853bbcb59e31c07799a0adaa3ef3f5d",
    "nothing": "ac4ae32e58ed953597553f937752ec3d",
    "long python": "0637761846e00e5100fe31c96ddf4ed4",
    "long python with its frames in the middle": "09905c030d34048566c76e563de8c5f2",
    "long python cut in a line": "0637761846e00e5100fe31c96ddf4ed4",
    "long java": "5c64ff64a9c3b924d017d29222b6f6c0",
    "long python and java": "5c64ff64a9c3b924d017d29222b6f6c0",
}


@pytest.mark.parametrize("name", CASES)
def test_old_fingerprints_are_what_they_were(name: str) -> None:
    assert fingerprint_version_1(*CASES[name]).hex() == GOLDEN[name]
