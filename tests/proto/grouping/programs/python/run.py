# mypy: ignore-errors
# Not of this project: its lines are in the traces.
import asyncio
import sys
import traceback

from shop import cart, jobs

ORDER = {"items": {"a": {}}, "skus": ["a"]}
BUGS = {
    "key": lambda v: cart.total({"items": {v: {}}, "skus": [v]}),
    "invoice": lambda v: cart.parse_invoice(v),
    "tax": lambda v: cart.parse_tax(v),
    "wrapped_charge": lambda v: jobs.run_job(cart.charge, v),
    "wrapped_reserve": lambda v: jobs.run_job(cart.reserve, v),
    "group_checkout": lambda v: asyncio.run(jobs.in_group(jobs.checkout(ORDER))),
    "group_ship": lambda v: asyncio.run(jobs.in_group(jobs.ship(ORDER))),
    "group_both": lambda v: asyncio.run(jobs.in_group(jobs.ship(ORDER), jobs.checkout(ORDER))),
    "mutual": lambda v: cart.even(0),
    "direct": lambda v: cart.deeper(0),
    "rates": lambda v: jobs.fetch_rates(v),
    "stock": lambda v: jobs.fetch_stock(v),
}


def report(bug, value):
    try:
        BUGS[bug](value)
    except BaseException as error:
        kind = type(error)
        name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        message = str(error).replace("\n", "\\n")
        return f"---- {name} | {message}\n" + "".join(traceback.format_exception(error))


if __name__ == "__main__":
    sys.stdout.write(report(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""))
