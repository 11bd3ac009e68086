"""Large traces in the browser: ten thousand spans, a chain of ten thousand. Few elements, exact self times."""

import time
from collections import defaultdict
from dataclasses import dataclass

import pytest
from playwright.async_api import expect

from tests.web.conftest import DEADLINE_MS, Site, Tab
from tests.web.shop import SECOND, Sent, deep_trace, shown_duration, wide_trace

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="session")]

SIZE = 10_000
ERRORS = 25
WIDE = "a" * 32
DEEP = "b" * 32
MAX_NODES = 600


@dataclass
class Traces:
    wide: list[Sent]
    deep: list[Sent]


@pytest.fixture(scope="module")
def traces(site: Site) -> Traces:
    start = time.time_ns() - 600 * SECOND
    made = Traces(wide_trace(WIDE, start, SIZE, ERRORS), deep_trace(DEEP, start, SIZE))
    site.send(made.wide)
    site.send(made.deep)
    return made


async def nodes(tab: Tab) -> int:
    found: int = await tab.page.evaluate("() => document.querySelectorAll('*').length")
    return found


def in_order(spans: list[Sent]) -> list[Sent]:
    """Depth first, siblings by start: as the waterfall has them."""
    children = defaultdict(list)
    for each in sorted(spans, key=lambda one: (one.start_ns, one.span_id)):
        children[each.parent].append(each)
    found, left = [], list(reversed(children[""]))
    while left:
        found.append(left.pop())
        left.extend(reversed(children[found[-1].span_id]))
    return found


def self_time(span: Sent, children: list[Sent]) -> int:
    """What no child covers."""
    end = span.start_ns + span.duration_ns
    parts = sorted((max(each.start_ns, span.start_ns), min(each.start_ns + each.duration_ns, end)) for each in children)
    covered, reached = 0, span.start_ns
    for low, high in parts:
        covered += max(0, high - max(low, reached))
        reached = max(reached, high)
    return span.duration_ns - covered


async def rows_shown(tab: Tab) -> list[str]:
    """Names of the rows in the document, from the top."""
    read = """() => [...document.querySelectorAll('.waterfall .row:not([hidden])')]
        .sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).map((row) => row.querySelector('.name').textContent)"""
    found: list[str] = await tab.page.evaluate(read)
    return found


async def test_ten_thousand_spans(tab: Tab, site: Site, traces: Traces) -> None:
    await tab.open(site.url(f"trace/{WIDE}"))
    await tab.page.wait_for_selector(".waterfall .row")
    grid = tab.page.locator(".waterfall")
    assert await grid.get_attribute("aria-rowcount") == str(SIZE)
    header = await tab.page.inner_text("main .bar-row >> nth=0")
    assert f"{SIZE:,} spans" in header
    assert f"{ERRORS} errors" in header
    order = in_order(traces.wide)
    for part in (0, 0.37, 1):
        await grid.evaluate("(element, part) => { element.scrollTop = part * element.scrollHeight; }", part)
        wanted = order[-1] if part == 1 else order[int(part * SIZE)]
        await expect(tab.page.locator(f"#row-{order.index(wanted)}")).to_be_attached(timeout=DEADLINE_MS)
        names = [name.removesuffix(" ! error") for name in await rows_shown(tab)]
        first = (
            int(
                await tab.page.locator(".waterfall .row:not([hidden])").evaluate_all(
                    "(rows) => Math.min(...rows.map((row) => row.ariaRowIndex))"
                )
            )
            - 1
        )
        assert names == [each.name for each in order[first : first + len(names)]]
        assert await nodes(tab) <= MAX_NODES
    for name in ("Flame", "Logs", "Table"):
        await tab.page.get_by_role("button", name=name, exact=True).click()
        await tab.settled()
        assert await nodes(tab) <= MAX_NODES, name


async def test_e_reaches_every_error(tab: Tab, site: Site, traces: Traces) -> None:
    await tab.open(site.url(f"trace/{WIDE}"))
    await tab.page.wait_for_selector(".waterfall .row")
    failed = [each.span_id for each in in_order(traces.wide) if each.failed]
    assert len(failed) == ERRORS
    reached = []
    for _ in failed:
        await tab.press("e")
        await tab.settled()
        reached.append(tab.query("span"))
        row = tab.page.locator(".waterfall .row[aria-selected=true]")
        await expect(row).to_be_in_viewport()
        assert "! error" in await row.inner_text()
    assert reached == failed
    await tab.press("e")  # round
    assert tab.query("span") == failed[0]
    await tab.press("Shift+E")
    assert tab.query("span") == failed[-1]
    await tab.page.wait_for_selector(".details dl")
    assert await nodes(tab) <= MAX_NODES


async def test_keys_in_a_row_all_count(tab: Tab, site: Site, traces: Traces) -> None:
    """However short the time between them is, and without waiting for details of what was passed."""
    await tab.page.route("**/spans/*", lambda _route: None)  # no answer
    await tab.open(site.url(f"trace/{WIDE}"))
    await tab.page.wait_for_selector(".waterfall .row")
    for _ in range(30):
        await tab.page.keyboard.press("j")
    order = in_order(traces.wide)
    await expect(tab.page.locator("#row-29")).to_have_attribute("aria-selected", "true")
    assert tab.query("span") == order[29].span_id
    await tab.page.unroute_all(behavior="ignoreErrors")


async def test_self_times_by_name(tab: Tab, site: Site, traces: Traces) -> None:
    """The table says how many names it leaves out."""
    await tab.open(site.url(f"trace/{WIDE}?tab=table"))
    children = defaultdict(list)
    for each in traces.wide:
        children[each.parent].append(each)
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for each in traces.wide:
        part = (1, each.failed, self_time(each, children[each.span_id]), each.duration_ns)
        key = (each.service, each.name)
        sums[key] = [a + b for a, b in zip(sums[key], part, strict=True)]
    rows = await tab.page.locator("main table tbody tr").all()
    seen = [await row.locator("td").all_inner_texts() for row in rows]
    ranked = sorted(sums, key=lambda key: -sums[key][2])[: len(rows)]
    assert [(texts[0], texts[1]) for texts in seen] == ranked
    for texts, key in zip(seen, ranked, strict=True):
        spans, failed, own, total = sums[key]
        assert texts[2:] == [str(spans), str(failed), shown_duration(own), shown_duration(total)], key
    assert f"{len(rows)} of {len(sums):,} names are shown." in await tab.page.inner_text("main")


async def test_a_chain_ten_thousand_deep(tab: Tab, site: Site, traces: Traces) -> None:
    await tab.open(site.url(f"trace/{DEEP}?critical=1"))
    await tab.page.wait_for_selector(".waterfall .row")
    await tab.page.keyboard.press("e")
    assert tab.query("span") == traces.deep[-1].span_id
    row = tab.page.locator(".waterfall .row[aria-selected=true]")
    await expect(row).to_be_in_viewport()
    assert await row.get_attribute("aria-level") == str(SIZE)
    assert await nodes(tab) <= MAX_NODES
    header = await tab.page.inner_text("main .bar-row >> nth=0")
    last = traces.deep[-1]
    by_service: dict[str, int] = defaultdict(int)
    for each in traces.deep:
        by_service[each.service] += 2 if each is not last else last.duration_ns
    service = max(by_service, key=lambda name: by_service[name])
    assert f"critical path: {service} {100 * by_service[service] / traces.deep[0].duration_ns:.0f} %" in header
    await tab.page.keyboard.press("k")
    assert tab.query("span") == traces.deep[-2].span_id
    await tab.page.keyboard.press("ArrowLeft")  # closes
    await expect(row).to_contain_text("(1 hidden)")
    await expect(tab.page.locator(".waterfall")).to_have_attribute("aria-rowcount", str(SIZE - 1))
    for name in ("Flame", "Table"):
        await tab.page.get_by_role("button", name=name, exact=True).click()
        await tab.settled()
        assert await nodes(tab) <= MAX_NODES, name


async def test_back_undoes_a_zoom(tab: Tab, site: Site, traces: Traces) -> None:
    """By keys, and by dragging over the minimap; a reload keeps it."""
    await tab.open(site.url(f"trace/{WIDE}"))
    await tab.page.wait_for_selector(".waterfall .row")
    whole = await tab.picture()
    await tab.press("w")
    zoomed = tab.query("zoom")
    assert zoomed is not None
    await tab.press("d")
    moved = tab.query("zoom")
    assert moved != zoomed
    await tab.page.go_back()
    assert tab.query("zoom") is None
    assert await tab.picture() == whole
    area = await tab.page.locator(".minimap").bounding_box()
    assert area is not None
    await tab.page.mouse.move(area["x"] + area["width"] * 0.25, area["y"] + 20)
    await tab.page.mouse.down()
    await tab.page.mouse.move(area["x"] + area["width"] * 0.5, area["y"] + 20, steps=4)
    await tab.page.mouse.up()
    await tab.page.wait_for_url("**zoom=**")
    zoom = [int(each) for each in (tab.query("zoom") or "").split(",")]
    end = max(each.start_ns + each.duration_ns for each in traces.wide) - traces.wide[0].start_ns
    assert abs(zoom[0] - end / 4) < end / 200
    assert abs(zoom[1] - end / 2) < end / 200
    await expect(tab.page.locator(".brush")).to_be_visible()
    picture = await tab.picture()
    await tab.page.reload()
    await tab.settled()
    await tab.page.wait_for_selector(".waterfall .row")
    assert await tab.picture() == picture
    await tab.page.go_back()
    assert tab.query("zoom") is None
    await expect(tab.page.locator(".brush")).to_have_count(0)
