# mypy: ignore-errors
# Not of this project: its lines are in the traces.
"""Bugs of a shop."""

import json


class Declined(Exception):
    pass


def price(items, sku):
    return items[sku]["price"]


def total(order):
    return sum([price(order["items"], sku) for sku in order["skus"]])


def parse_invoice(text):
    return json.loads(text)


def parse_tax(text):
    return json.loads(text)


def charge(card):
    if card:
        raise Declined(f"card {card} was declined")


def reserve(stock):
    if stock:
        raise LookupError(f"no stock in {stock}")


def even(n):
    return odd(n + 1)


def odd(n):
    return even(n + 1)


def deeper(n):
    return deeper(n + 1)
