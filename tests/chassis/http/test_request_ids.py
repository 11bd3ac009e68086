"""Ids of requests are never given twice, in no thread and no child of the process."""

import os
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from chassis.http.request_ids import new_request_id


def test_ids_are_digits_and_different() -> None:
    ids = [new_request_id() for _ in range(2_000)]
    assert len(set(ids)) == 2_000
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in ids)


def test_threads_get_different_ones() -> None:
    with ThreadPoolExecutor(8) as threads:
        each = list(threads.map(lambda _: [new_request_id() for _ in range(2_000)], range(8)))
    assert len({one for ids in each for one in ids}) == 16_000


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_child_does_not_go_on_with_the_ids_of_its_parent() -> None:
    new_request_id()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, new_request_id().encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        of_child = told.read()
    assert os.waitpid(child, 0)[1] == 0
    assert of_child not in {new_request_id() for _ in range(1_000)}
