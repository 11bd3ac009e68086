"""Prepared stories: a repository with a history, a stack trace, and the commit that caused it."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sluice.git_history import GitCommit, read_commits


@dataclass(frozen=True)
class Step:
    """A commit: its message, and the files that it changes; None deletes one."""

    message: str
    files: Mapping[str, str | None]


def change(message: str, *paths: str) -> Step:
    """A commit that changes these files; its message makes each content another one."""
    return Step(message, {path: f"{message}\n{path}\n" for path in paths})


def move(message: str, old: str, new: str) -> Step:
    """A commit that renames a file."""
    return Step(message, {old: None, new: "the same\n"})


@dataclass(frozen=True)
class Story:
    """`steps`: the commits of the release, oldest first; `others`: those of another repository in it."""

    name: str
    stacktrace: str
    culprit: str  # the first line of its message
    steps: tuple[Step, ...]
    others: tuple[Step, ...] = field(default=())


def history(directory: Path, steps: tuple[Step, ...]) -> list[GitCommit]:
    """The commits of a repository that is made of these steps, newest first, as `sluice release` reads them."""
    subprocess.run(["git", "init", "--quiet", "--bare", directory], check=True)
    stream = []
    for number, step in enumerate(steps, 1):
        at = f"Ada <ada@example.org> {1_795_000_000 + 60 * number} +0000"
        stream += ["commit refs/heads/main", f"author {at}", f"committer {at}", f"data {len(step.message.encode())}"]
        stream.append(step.message)
        for path, content in step.files.items():
            if content is None:
                stream.append(f"D {path}")
            else:
                stream += [f"M 100644 inline {path}", f"data {len(content.encode())}", content]
        stream.append("")
    importing = ["git", "-C", str(directory), "fast-import", "--quiet"]
    subprocess.run(importing, input="\n".join(stream).encode(), check=True)
    return read_commits(directory, None, "main", 1_000)


_MANY = tuple(f"src/module{number}/index.js" for number in range(150))
STORIES = (
    Story(
        "Python: a docstring of the same file is touched later",
        """Traceback (most recent call last):
  File "/app/.venv/lib/python3.12/site-packages/flask/app.py", line 870, in full_dispatch_request
    rv = self.dispatch_request()
  File "/app/src/shop/views.py", line 41, in checkout
    total = cart.total(lines)
  File "/app/src/shop/cart.py", line 17, in total
    return sum(line.price * line.quantity for line in lines)
TypeError: unsupported operand type(s) for *: 'NoneType' and 'int'
""",
        "Price lines lazily",
        (
            change("Show stock in search", "src/shop/search.py"),
            change("Price lines lazily", "src/shop/cart.py", "tests/test_cart.py"),
            change("Send receipts as HTML", "src/shop/mail.py", "src/shop/templates/receipt.html"),
            change("Fix typo in docstring of the cart", "src/shop/cart.py"),
        ),
    ),
    Story(
        "Java: another class of this name is newer",
        """java.lang.NullPointerException: Cannot invoke "String.trim()" because "code" is null
\tat java.base/java.util.Objects.requireNonNull(Objects.java:233)
\tat com.shop.checkout.Voucher.normalize(Voucher.java:31)
\tat com.shop.checkout.Cart.apply(Cart.java:88)
\tat org.springframework.web.servlet.FrameworkServlet.service(FrameworkServlet.java:897)
""",
        "Accept vouchers without a code",
        (
            change("Accept vouchers without a code", "src/main/java/com/shop/checkout/Voucher.java"),
            change("Vouchers of partners", "src/main/java/com/shop/partner/Voucher.java"),
            change("Cache sessions", "src/main/java/com/shop/Sessions.java"),
        ),
    ),
    Story(
        "JavaScript: a refactoring of everything is newer",
        """TypeError: Cannot read properties of undefined (reading 'id')
    at createOrder (/usr/src/app/src/orders/create.js:22:31)
    at async handler (/usr/src/app/src/routes/orders.js:9:3)
    at async /usr/src/app/node_modules/express/lib/router/layer.js:95:5
""",
        "Let guests order",
        (
            change("Let guests order", "src/orders/create.js", "src/orders/guest.js"),
            change("Use ES modules everywhere", "src/orders/create.js", "src/routes/orders.js", *_MANY),
            change("Answer with problem details", "src/problems.js"),
        ),
    ),
    Story(
        "Go: the second frame is the one that changed",
        """goroutine 84 [running]:
example.com/ledger/internal/money.(*Amount).Split(0x0, 0x3)
\t/build/internal/money/amount.go:57 +0x1d
example.com/ledger/internal/ledger.(*Ledger).Post(0xc0001, 0xc0002)
\t/build/internal/ledger/post.go:103 +0x2a4
main.main()
\t/build/cmd/ledger/main.go:31 +0x9c
""",
        "Split fees among accounts",
        (
            change("Split fees among accounts", "internal/ledger/post.go", "internal/ledger/post_test.go"),
            change("Trace requests", "cmd/ledger/main.go", "internal/trace/trace.go"),
            change("List accounts by page", "internal/ledger/list.go"),
        ),
    ),
    Story(
        ".NET: built on Windows",
        """System.DivideByZeroException: Attempted to divide by zero.
   at Shop.Billing.Invoice.Share(Int32 parts) in D:\\a\\1\\s\\src\\Billing\\Invoice.cs:line 64
   at Shop.Billing.InvoiceService.<CloseAsync>d__12.MoveNext() in D:\\a\\1\\s\\src\\Billing\\InvoiceService.cs:line 120
   at System.Runtime.ExceptionServices.ExceptionDispatchInfo.Throw()
""",
        "Invoices without positions",
        (
            change("Invoices without positions", "src/Billing/Invoice.cs"),
            change("Number invoices by year", "src/Billing/Numbers.cs", "src/Billing/InvoiceService.cs"),
            change("Sort imports", "src/Billing/Invoice.cs", "src/Billing/Numbers.cs"),
        ),
    ),
    Story(
        "Ruby: dependencies are updated later",
        """/srv/shop/app/models/order.rb:52:in `ship!'
/srv/shop/app/controllers/orders_controller.rb:18:in `update'
/usr/local/bundle/gems/actionpack-7.1.2/lib/action_controller/metal/basic_implicit_render.rb:6:in `send_action'
""",
        "Ship partial orders",
        (
            change("Ship partial orders", "app/models/order.rb", "app/models/parcel.rb", "spec/models/order_spec.rb"),
            change("Bump rails from 7.1.1 to 7.1.2", "Gemfile", "Gemfile.lock", "app/models/order.rb"),
            change("Show parcels to customers", "app/controllers/parcels_controller.rb"),
        ),
    ),
    Story(
        "PHP: another repository has a file of this name",
        """#0 /var/www/html/src/Checkout/Tax.php(44): Shop\\Checkout\\Tax->rate()
#1 /var/www/html/src/Checkout/Total.php(19): Shop\\Checkout\\Tax->of()
#2 /var/www/html/vendor/slim/slim/Slim/App.php(210): run()
""",
        "Reduced rates for books",
        (
            change("Reduced rates for books", "src/Checkout/Tax.php"),
            change("Address of the invoice", "src/Checkout/Address.php"),
        ),
        (change("Rates of Norway", "lib/Tax.php"), change("New rates of Finland", "lib/Tax.php")),
    ),
    Story(
        "Python: the file is renamed later",
        """Traceback (most recent call last):
  File "/srv/shop/shop/api.py", line 77, in quote
    return pricing.quote(order)
  File "/srv/shop/shop/pricing.py", line 120, in quote
    return rates[order.currency]
KeyError: 'CHF'
""",
        "Load rates on demand",
        (
            change("Load rates on demand", "shop/prices.py"),
            move("Rename prices to pricing", "shop/prices.py", "shop/pricing.py"),
            change("Limit quotes", "shop/limits.py"),
        ),
    ),
    Story(
        "Python: a harmless change of the same file is newer",
        """Traceback (most recent call last):
  File "/app/shop/checkout.py", line 12, in checkout
    voucher.redeem(cart)
  File "/app/shop/voucher.py", line 61, in redeem
    cart.apply_discount(self.percent)
  File "/app/shop/cart.py", line 90, in apply_discount
    raise ValueError(percent)
ValueError: 140
""",
        "Vouchers can be combined",
        (
            change("Vouchers can be combined", "shop/voucher.py", "shop/cart.py", "tests/test_voucher.py"),
            change("Log the size of carts", "shop/cart.py"),
            change("Speed up search", "shop/search.py"),
        ),
    ),
    Story(
        "Kotlin: the only hint is the name of the function",
        """java.util.concurrent.TimeoutException: capture
\tat com.shop.pay.GatewayKt.capturePayment(Gateway.kt:77)
\tat com.shop.pay.Worker.run(Worker.kt:31)
""",
        "Capture in two steps",
        (
            change("Retry refunds", "payments/src/main/kotlin/com/shop/pay/Gateway.kt"),
            change("Capture in two steps", "payments/src/main/kotlin/com/shop/pay/Gateway.kt"),
            change("Report declined cards", "payments/src/main/kotlin/com/shop/pay/Gateway.kt"),
        ),
    ),
)
