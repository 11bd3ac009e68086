"""The numbers that the page shows are those of the spans: table of services, cells of the heatmap, comparison, self
times. Each is computed here from the spans that were sent.
"""

import json
import re
from collections import Counter
from decimal import Decimal

import pytest

from tests.web.conftest import Shop, Site, Tab, utc
from tests.web.shop import SECOND, Sent, count, edge, percentile, row_of, shown_duration, shown_share

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="session")]

COLUMNS = 90


def column_width(shop: Shop) -> int:
    return -(-(shop.end_ns - shop.start_ns) // COLUMNS)


async def test_the_table_of_services(tab: Tab, site: Site, shop: Shop) -> None:
    await tab.open(site.url(f"?{shop.times}"))
    rows = await tab.page.locator("table tbody tr").all()
    seen = {}
    for row in rows:
        cells = await row.locator("td").all()
        seen[await cells[0].inner_text()] = [
            (await cell.inner_text(), await cell.get_attribute("title")) for cell in cells[1:6]
        ]
    seconds = (shop.end_ns - shop.start_ns) // SECOND
    expected = {}
    for service in {each.service for each in shop.spans}:
        spans = [each for each in shop.spans if each.service == service]
        failed = count(spans, lambda each: each.failed)
        durations = [percentile(spans, part) for part in (500, 950, 990)]
        expected[service] = [
            (f"{len(spans) / seconds:.2g}/s", f"{len(spans)} spans"),
            (shown_share(failed, len(spans)), f"{failed} spans"),
            *((shown_duration(each), f"{Decimal(each).scaleb(-6):f} ms") for each in durations),
        ]
    assert seen == expected


async def test_the_cells_of_the_heatmap(tab: Tab, site: Site, shop: Shop) -> None:
    await tab.open(site.url(f"explore?{shop.times}"))
    width = column_width(shop)
    cells = Counter(((each.start_ns - shop.start_ns) // width, row_of(each.duration_ns)) for each in shop.spans)
    failed = Counter(
        ((each.start_ns - shop.start_ns) // width, row_of(each.duration_ns)) for each in shop.spans if each.failed
    )
    lowest, highest = min(row for _, row in cells), max(row for _, row in cells)
    plot = tab.page.locator(".heatmap .plot")
    area = await plot.bounding_box()
    assert area is not None
    chosen = [*sorted(cells)[::25], *sorted(failed)[::5], (0, highest), (COLUMNS - 1, lowest), (45, lowest)]
    for column, row in chosen:
        x = area["x"] + (column + 0.5) * area["width"] / COLUMNS
        y = area["y"] + (highest - row + 0.5) * area["height"] / (highest - lowest + 1)
        await tab.page.mouse.move(x, y)
        shown = await tab.page.inner_text(".heatmap .readout")
        assert shown == (
            f"{shown_duration(edge(row))} to {shown_duration(edge(row + 1))}: "
            f"{cells[column, row]} spans, {failed[column, row]} with errors"
        )
    assert f"{len(shop.spans):,} spans match" in await tab.page.inner_text("main")
    colours = (
        "(canvas) => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some((byte) => byte)"
    )
    assert await tab.page.locator(".heatmap canvas").evaluate(colours)


async def test_a_box_is_compared_with_the_rest(tab: Tab, site: Site, shop: Shop) -> None:
    """Its bounds are those of the cells, exactly; a click adds the filter; back undoes it."""
    await tab.open(site.url(f"explore?{shop.times}"))
    width = column_width(shop)
    rows = [row_of(each.duration_ns) for each in shop.spans]
    lowest, highest = min(rows), max(rows)
    first, last, low = 44, 68, row_of(2 * SECOND)
    plot = tab.page.locator(".heatmap .plot")
    area = await plot.bounding_box()
    assert area is not None

    def at(column: int, row: int) -> tuple[float, float]:
        return (
            area["x"] + (column + 0.5) * area["width"] / COLUMNS,
            area["y"] + (highest - row + 0.5) * area["height"] / (highest - lowest + 1),
        )

    await tab.page.mouse.move(*at(last, highest))
    await tab.page.mouse.down()
    await tab.page.mouse.move(*at(first, low), steps=3)
    async with tab.page.expect_request("**/spans/compare") as asked:
        await tab.page.mouse.up()
    body = json.loads((await asked.value).post_data or "")
    begin, end = shop.start_ns + first * width, min(shop.end_ns, shop.start_ns + (last + 1) * width)
    assert (body["spike"]["from"], body["spike"]["to"]) == (utc(begin), utc(end))
    bounds = [(each["key"], each["op"], Decimal(each["value"])) for each in body["spike"]["filters"]]
    assert bounds == [
        ("durationMs", "gte", Decimal(edge(low)).scaleb(-6)),
        ("durationMs", "lt", Decimal(edge(highest + 1)).scaleb(-6)),
    ]
    await tab.settled()
    inside = [
        each
        for each in shop.spans
        if begin <= each.start_ns < end and edge(low) <= each.duration_ns < edge(highest + 1)
    ]
    outside = [each for each in shop.spans if each not in inside]
    heading = await tab.page.inner_text("section[aria-label=Comparison] h2")
    assert heading == f"In the box {len(inside):,} spans, outside {len(outside):,}"
    table = tab.page.locator("section[aria-label=Comparison] tbody tr")
    assert await table.count() > 0
    for row in await table.all():
        texts = await row.locator("td").all_inner_texts()
        key, value = re.split(" = ", texts[0])
        found = [[value_of(each, key) for each in spans].count(value) for spans in (inside, outside)]
        assert texts[2:4] == [shown_share(found[0], len(inside)), shown_share(found[1], len(outside))], texts
    first_row = table.first
    key, value = re.split(" = ", await first_row.locator("td").first.inner_text())
    assert (key, value) == ("build", "b42")
    box = tab.query("box")
    await first_row.get_by_text("Add filter").click()
    await tab.settled()
    assert (tab.query("q"), tab.query("box")) == ("build:b42", None)
    total = count(shop.spans, lambda each: each.attributes["build"] == "b42")
    assert f"{total:,} spans match" in await tab.page.inner_text("main")
    await tab.page.go_back()
    await tab.settled()
    assert (tab.query("q"), tab.query("box")) == (None, box)
    assert await tab.page.inner_text("section[aria-label=Comparison] h2") == heading
    await tab.page.go_back()
    await tab.settled()
    assert await tab.page.locator("section[aria-label=Comparison]").count() == 0


async def test_a_box_by_keys_alone(tab: Tab, site: Site, shop: Shop) -> None:
    await tab.open(site.url(f"explore?{shop.times}"))
    await tab.page.locator(".heatmap .plot").focus()
    for key in ("ArrowRight", "ArrowUp", "Space", "ArrowRight", "ArrowUp"):
        await tab.page.keyboard.press(key)
    async with tab.page.expect_request("**/spans/compare") as asked:
        await tab.page.keyboard.press("Enter")
    body = json.loads((await asked.value).post_data or "")
    width = column_width(shop)
    lowest = min(row_of(each.duration_ns) for each in shop.spans)
    assert body["spike"]["from"] == utc(shop.start_ns + width)
    assert body["spike"]["to"] == utc(shop.start_ns + 3 * width)
    assert [Decimal(each["value"]) for each in body["spike"]["filters"]] == [
        Decimal(edge(lowest + 1)).scaleb(-6),
        Decimal(edge(lowest + 3)).scaleb(-6),
    ]
    await tab.page.keyboard.press("Escape")
    await tab.settled()
    assert tab.query("box") is None


def value_of(span: Sent, key: str) -> str | None:
    """Of a field or an attribute, as the comparison names it."""
    fields = {
        "name": span.name,
        "serviceName": span.service,
        "statusCode": "ERROR" if span.failed else "UNSET",
        "resource.service.name": span.service,
        "statusMessage": "it broke" if span.failed else "",
    }
    return fields.get(key) or span.attributes.get(key)
