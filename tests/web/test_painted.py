"""What is painted, and what a click there does: in the waterfall, whose rows are pooled, and in every other view."""

import time
from typing import Final

import pytest
from playwright.async_api import expect

from tests.web.conftest import Site, Tab
from tests.web.painted import Place, click, names, places, wrong
from tests.web.shop import MILLI, SECOND, Sent, wide_trace
from tests.web.test_traces_shown import in_order
from tests.web.test_views import views

__all__ = ("views",)  # a fixture

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="session")]

SMALL: Final = "c" * 32
WIDE: Final = "d" * 32
SIZE: Final = 400
ROWS: Final = ["root", "checkout", "charge", "bank", "mail", "stock", "select"]


@pytest.fixture(scope="module")
def small(site: Site) -> list[Sent]:
    """Fewer spans than rows are pooled."""
    start = time.time_ns() - 300 * SECOND
    spans = []
    for number, (name, parent, begun, took) in enumerate(
        (
            *(("root", 0, 0, 100), ("checkout", 1, 10, 50), ("charge", 2, 20, 20), ("bank", 3, 25, 10)),
            *(("mail", 2, 45, 10), ("stock", 1, 70, 20), ("select", 6, 75, 10)),
        ),
        1,
    ):
        above = f"{parent:016x}" if parent else ""
        service = "web" if number == 1 else "shop"
        spans.append(Sent(SMALL, f"{number:016x}", above, service, name, start + begun * MILLI, took * MILLI))
    site.send(spans)
    return spans


@pytest.fixture(scope="module")
def wide(site: Site) -> list[str]:
    """The names of many more spans than rows are pooled, in order."""
    spans = wide_trace(WIDE, time.time_ns() - 300 * SECOND, SIZE, 0)
    site.send(spans)
    return [each.name for each in in_order(spans)]


async def opened(tab: Tab, site: Site, trace_id: str) -> None:
    await tab.open(site.url(f"trace/{trace_id}"))
    await tab.page.wait_for_selector(".waterfall .row")


def scale(found: list[Place]) -> list[tuple[str, float, float]]:
    """Where the bars are, as shares of the lane to two digits; one is at least two pixels wide."""
    return [(each.text, round(each.left, 2), round(each.right, 2)) for each in found]


async def test_each_span_is_painted_once_and_selected_where_it_is(tab: Tab, site: Site, small: list[Sent]) -> None:
    """And the rows of a closed subtree are not painted."""
    for width in (390, 1280):
        await tab.page.set_viewport_size({"width": width, "height": 900})
        await opened(tab, site, SMALL)
        assert await names(tab) == ROWS
        for span in small:
            await click(tab, span.name)
            assert tab.query("span") == span.span_id
            await expect(tab.page.locator(".row[aria-selected=true]:visible .name")).to_have_text(span.name)
        assert await names(tab) == ROWS
        await click(tab, "checkout", toggle=True)
        closed = ["root", "checkout (3 hidden)", "stock", "select"]
        assert await names(tab) == closed
        await click(tab, "stock")
        assert tab.query("span") == small[5].span_id
        await click(tab, "root", toggle=True)
        assert await names(tab) == ["root (6 hidden)"]
        await click(tab, "root (6 hidden)", toggle=True)
        assert await names(tab) == closed
        await click(tab, "checkout (3 hidden)", toggle=True)
        assert await names(tab) == ROWS
        ids = await tab.page.locator(".waterfall [id]").evaluate_all("(all) => all.map((each) => each.id)")
        assert sorted(ids) == [f"row-{at}" for at in range(len(ROWS))]


async def test_only_a_subtree_is_painted_at_its_own_scale(tab: Tab, site: Site, small: list[Sent]) -> None:
    await opened(tab, site, SMALL)
    whole = scale(await places(tab))
    assert whole == [
        *(("root", 0, 1), ("checkout", 0.1, 0.6), ("charge", 0.2, 0.4), ("bank", 0.25, 0.35), ("mail", 0.45, 0.55)),
        *(("stock", 0.7, 0.9), ("select", 0.75, 0.85)),
    ]
    await click(tab, "checkout")
    await tab.page.get_by_role("button", name="Only this subtree").click()
    await tab.settled()
    subtree = [("checkout", 0, 1), ("charge", 0.2, 0.6), ("bank", 0.3, 0.5), ("mail", 0.7, 0.9)]
    assert scale(await places(tab)) == subtree
    assert "4 of 7 spans" in await tab.page.inner_text("main .bar-row >> nth=0")
    await click(tab, "bank")
    assert tab.query("span") == small[3].span_id
    await tab.page.get_by_role("button", name="The whole trace").click()
    await tab.settled()
    assert scale(await places(tab)) == whole
    await tab.page.go_back()
    await tab.settled()
    assert scale(await places(tab)) == subtree


async def test_a_subtree_is_shown_open_and_whole(tab: Tab, site: Site, small: list[Sent]) -> None:
    """Whatever was closed in the trace, and however far its time was zoomed."""
    await opened(tab, site, SMALL)
    await click(tab, "charge", toggle=True)
    await click(tab, "stock", toggle=True)
    await click(tab, "stock (1 hidden)")
    await tab.press("z")
    assert tab.query("zoom") is not None
    await tab.press("f")
    await tab.settled()
    assert scale(await places(tab)) == [("stock", 0, 1), ("select", 0.25, 0.75)]
    await tab.press("f")
    await tab.settled()
    assert await names(tab) == ["root", "checkout", "charge (1 hidden)", "mail", "stock", "select"]


async def test_a_long_trace_is_painted_wherever_it_is_scrolled(tab: Tab, site: Site, wide: list[str]) -> None:
    await opened(tab, site, WIDE)
    first = await places(tab)
    count = len(first)
    assert [each.text for each in first] == wide[:count]
    assert count < SIZE / 2
    grid = tab.page.locator(".waterfall")
    await tab.page.mouse.move(first[5].x, first[5].y)
    for above in (3, 10, 57, 200, SIZE):
        before = await grid.evaluate("(element) => element.scrollTop")
        await tab.page.mouse.wheel(0, above * 24 - before)
        top = min(above * 24, await grid.evaluate("(element) => element.scrollHeight - element.clientHeight"))
        await tab.page.wait_for_function(f"() => document.querySelector('.waterfall').scrollTop >= {int(top)}")
        seen = await places(tab)
        at = SIZE - len(seen) if above == SIZE else above
        assert [each.text for each in seen][: count - 1] == wide[at : at + count - 1], above
        await tab.page.mouse.click(seen[4].x, seen[4].y)
        await tab.settled()
        row = tab.page.locator(".row[aria-selected=true]:visible")
        await expect(row.locator(".name")).to_have_text(seen[4].text)
    await tab.page.keyboard.press("Escape")
    await grid.evaluate("(element) => { element.scrollTop = 0; }")
    await click(tab, wide[0], toggle=True)
    assert await names(tab) == [f"{wide[0]} ({SIZE - 1} hidden)"]
    await click(tab, f"{wide[0]} ({SIZE - 1} hidden)", toggle=True)
    assert await names(tab) == wide[:count]


async def test_a_window_that_grows_has_its_rows_painted(tab: Tab, site: Site, wide: list[str]) -> None:
    await tab.page.set_viewport_size({"width": 1280, "height": 500})
    await opened(tab, site, WIDE)
    few = len(await names(tab))
    await tab.page.set_viewport_size({"width": 1280, "height": 1600})
    seen = await names(tab)
    assert len(seen) > 3 * few
    assert seen == wide[: len(seen)]


async def test_a_bar_of_the_flame_is_selected_where_it_is_painted(tab: Tab, site: Site, small: list[Sent]) -> None:
    """Also once the details have taken a part of its width, and in a window of another size."""
    await tab.open(site.url(f"trace/{SMALL}?tab=flame"))
    levels = {"root": 0, "checkout": 1, "charge": 2, "bank": 3, "mail": 2, "stock": 1, "select": 2}
    for width in (1280, 600, 1900):
        await tab.page.set_viewport_size({"width": width, "height": 900})
        for span in (small[3], *small):
            await tab.drawn()
            box = await tab.page.locator("canvas.flame").bounding_box()
            assert box is not None
            part = (span.start_ns - small[0].start_ns + span.duration_ns / 4) / small[0].duration_ns
            if span.name in ("root", "checkout"):  # the other spans lie elsewhere
                part = (span.start_ns - small[0].start_ns + span.duration_ns / 50) / small[0].duration_ns
            await tab.page.mouse.click(box["x"] + box["width"] * part, box["y"] + levels[span.name] * 18 + 9)
            await tab.settled()
            assert tab.query("span") == span.span_id, (width, span.name)


async def test_nothing_hidden_is_painted_and_nothing_to_press_is_covered(tab: Tab, views: dict[str, str]) -> None:
    for width in (1280, 390):
        await tab.page.set_viewport_size({"width": width, "height": 900})
        for name, url in views.items():
            await tab.open(url)
            assert await wrong(tab) == [[], []], (name, width)
