"""Stack traces as the runtimes print them: six frames of the application below twenty of libraries."""

from typing import Final, NamedTuple

OWN_FRAMES: Final = 6
LIBRARY_FRAMES: Final = 20


class Runtime(NamedTuple):
    """How a runtime prints a trace. `own` and `library` are frames with the fields `name` and `address`; `head` and
    `tail` have the field `message`. `outermost_first`: the order of Python.
    """

    name: str
    own: str
    library: str
    head: str = ""
    tail: str = ""
    outermost_first: bool = False


RUNTIMES: Final = (
    Runtime(
        "Python",
        '  File "/app/shop/{name}.py", line 12, in {name}\n    return self.{name}(order)\n',
        '  File "/usr/lib/python3.12/site-packages/web/{name}.py", line 88, in {name}\n    return {name}(request)\n',
        "Traceback (most recent call last):\n",
        "ValueError: {message}\n",
        outermost_first=True,
    ),
    Runtime(
        "Java",
        "\tat com.shop.{name}.Service.{name}(Service.java:12)\n",
        "\tat org.springframework.web.{name}.Filter.{name}(Filter.java:88)\n",
        "java.lang.IllegalStateException: {message}\n",
    ),
    Runtime(
        "Java, a cause",
        "\tat com.shop.{name}.Service.{name}(Service.java:12)\n",
        "\tat org.springframework.web.{name}.Filter.{name}(Filter.java:88)\n",
        "com.shop.CheckoutFailed: {message}\n\tat com.shop.Checkout.run(Checkout.java:9)\n"
        "\tat java.base/java.lang.Thread.run(Thread.java:840)\nCaused by: java.lang.IllegalStateException: {message}\n",
        "\t... 1 more\n",
    ),
    Runtime(
        "Node",
        "    at Cart.{name} (/app/src/{name}.js:10:5)\n",
        "    at Layer.{name} (/app/node_modules/express/lib/{name}.js:95:5)\n",
        "TypeError: {message}\n",
    ),
    Runtime(
        "Chrome, bundled",
        "    at {name} (https://shop.example/assets/{name}-DbQ2xY9p.js:1:93127)\n",
        "    at {name} (https://shop.example/node_modules/vue/{name}.js:1:4711)\n",
        "TypeError: {message}\n",
    ),
    Runtime(
        "Firefox",
        "{name}@https://shop.example/assets/{name}.js:10:5\n",
        "{name}@https://shop.example/node_modules/vue/{name}.js:1:4711\n",
    ),
    Runtime(
        "Go",
        "github.com/acme/shop/{name}.(*Cart).Add({address})\n\t/src/{name}/cart.go:12 +0x1d\n",
        "github.com/gin-gonic/gin.(*Context).{name}({address})\n"
        "\t/go/pkg/mod/github.com/gin-gonic/gin@v1.9.0/{name}.go:1 +0x2\n",
        "goroutine 7 [running]:\n",
    ),
    Runtime(
        "Rust",
        "   7: shop::{name}::add\n             at ./src/{name}.rs:2:40\n",
        "   8: tower::{name}::call\n             at /cargo/registry/src/index/tower-0.4.13/src/{name}.rs:2:40\n",
        "stack backtrace:\n",
    ),
    Runtime(
        ".NET",
        "   at Shop.{name}.Service.<Add>d__5.MoveNext() in /src/{name}.cs:line 42\n",
        "   at Microsoft.AspNetCore.{name}.Invoke(HttpContext context)\n",
        "System.InvalidOperationException: {message}\n",
    ),
    Runtime(
        "Ruby",
        "app/models/{name}.rb:12:in `{name}'\n",
        "/usr/local/bundle/gems/rack-3.0.8/lib/rack/{name}.rb:58:in `call'\n",
    ),
    Runtime(
        "PHP",
        "#1 /var/www/app/src/{name}.php(12): App\\Cart->{name}(1)\n",
        "#1 /var/www/app/vendor/laravel/{name}.php(12): Illuminate\\Pipe->{name}(Object(Closure))\n",
        "RuntimeException: {message} in /var/www/app/src/Cart.php:12\nStack trace:\n",
        "#9 {{main}}\n",
    ),
    Runtime(
        "Elixir",
        "    (shop 0.1.0) lib/shop/{name}.ex:12: Shop.Cart.{name}/2\n",
        "    (phoenix 1.7.2) lib/phoenix/{name}.ex:430: Phoenix.Router.{name}/5\n",
        "** (RuntimeError) {message}\n",
    ),
    Runtime(
        "Dart",
        "#1      Cart.{name} (package:shop/{name}.dart:12:5)\n",
        "#1      State.{name} (package:flutter/src/widgets/{name}.dart:12:5)\n",
    ),
    Runtime(
        "Swift",
        "1 [ra] 0x0000000104 Cart.{name}(_:) + 20 in Shop at /src/{name}.swift:9:3\n",
        "1 [ra] 0x0000000104 {name} + 20 in libswiftCore.dylib\n",
    ),
    Runtime(
        "C++",
        "#1  0x0000555555555189 in shop::{name}::add (this=0x7ffe, id=3) at /src/{name}.cpp:12\n",
        "#1  0x00007ffff7c42476 in {name} () from /lib/x86_64-linux-gnu/libc.so.6\n",
    ),
)


def write(runtime: Runtime, error: int, occurrence: int) -> str:
    """The trace of an error; two occurrences differ in the message and, as Go prints them, in addresses."""
    fields = {"address": f"0xc{occurrence:09x}", "message": f"no price of {occurrence}"}
    frames = [
        (runtime.own if number < OWN_FRAMES else runtime.library).format(
            name=f"{_name(error)}{_name(number)}", **fields
        )
        for number in range(OWN_FRAMES + LIBRARY_FRAMES)
    ]
    if runtime.outermost_first:
        frames.reverse()
    return runtime.head.format(**fields) + "".join(frames) + runtime.tail.format(**fields)


def _name(number: int) -> str:
    """A word for a number, without digits, which rules replace."""
    return "".join("zbcdghklmn"[int(digit)] for digit in str(number))
