# mypy: ignore-errors
# Not of this project: its lines are in the traces.
"""How the bugs are reached."""

import asyncio

from shop import cart


class JobFailed(Exception):
    pass


def run_job(job, argument):
    try:
        job(argument)
    except Exception as error:
        raise JobFailed("job failed") from error


async def checkout(order):
    await asyncio.sleep(0)
    cart.total(order)


async def ship(order):
    await asyncio.sleep(0)
    raise ConnectionError("carrier is down")


async def in_group(*jobs):
    async with asyncio.TaskGroup() as group:
        for job in jobs:
            group.create_task(job)


def fetch_rates(url):
    import requests

    return requests.get(url, timeout=1)


def fetch_stock(url):
    import requests

    return requests.get(url, timeout=1)
