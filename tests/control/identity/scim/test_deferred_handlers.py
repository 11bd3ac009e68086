"""Handlers are imported and built once, however many requests come first."""

import asyncio
import threading
from unittest.mock import Mock

import pytest

from control.identity.scim.protocol import handlers
from control.identity.scim.routes import DeferredHandlers


async def test_concurrent_first_requests_get_the_same_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[threading.Thread] = []
    build = handlers.build_handlers

    def build_and_note(*dependencies: Mock) -> handlers.ScimHandlers:
        built.append(threading.current_thread())
        return build(*dependencies)

    monkeypatch.setattr(handlers, "build_handlers", build_and_note)
    deferred = DeferredHandlers(Mock(), Mock(), Mock())
    assert built == []
    found = await asyncio.gather(*(deferred.get() for _ in range(5)))
    assert found == [await deferred.get()] * 5
    assert len(built) == 1
    assert built != [threading.main_thread()]  # the loop serves other requests meanwhile


async def test_a_request_that_is_cancelled_while_they_are_imported_leaves_them_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release, build = threading.Event(), handlers.build_handlers

    def build_on_release(*dependencies: Mock) -> handlers.ScimHandlers:
        release.wait(10)
        return build(*dependencies)

    monkeypatch.setattr(handlers, "build_handlers", build_on_release)
    deferred = DeferredHandlers(Mock(), Mock(), Mock())
    first = asyncio.create_task(deferred.get())
    await asyncio.sleep(0)
    first.cancel()
    release.set()
    assert isinstance(await deferred.get(), handlers.ScimHandlers)
    assert first.cancelled()
