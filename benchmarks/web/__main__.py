"""Prints what was measured of the page, its budget, and the same of a page without any script.

It needs Chromium (`scripts/prerequisites browser`).
"""

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import CDPSession, Page, Request, sync_playwright

from benchmarks.command import command
from benchmarks.report import Table, print_machine
from benchmarks.web import beside
from tests.e2e.product import Service, call
from tests.web.conftest import Site, sluice
from tests.web.shop import SECOND, wide_trace

ROOT: Final = Path(__file__).parents[2]
SPANS: Final = 10_000
TRACE: Final = "c" * 32
VIEWS: Final = ("", "explore", f"trace/{TRACE}", "errors", "logs", "map", "issues")
_SECTIONS: Final = (
    *("keys", "tokens", "members", "invitations", "agents", "channels", "policies"),
    *("sign-on", "directory", "integrations", "sinks", "issuers", "audit", "account"),
)
OTHER_VIEWS: Final = ("approvals", *(f"settings/{section}" for section in _SECTIONS))
# Shows nothing and does nothing: what the browser itself takes.
_BLANK: Final = "/livez"
_FRAMES: Final = 180

# Notes when the first row of the waterfall is in the document.
_WATCH_ROWS: Final = """
    new MutationObserver((_, observer) => {
        if (document.querySelector('.waterfall .row') === null) return;
        window.rowsAt = performance.now();
        observer.disconnect();
    }).observe(document, {childList: true, subtree: true});
"""
_ROWS_AFTER_ANSWER: Final = """() => {
    const answer = performance.getEntriesByType('resource').find((one) => one.name.includes('/rows'));
    return window.rowsAt - answer.responseEnd;
}"""
_PAINTED: Final = (
    "() => performance.getEntriesByType('paint').find((one) => one.name === 'first-contentful-paint')?.startTime"
)
# Moves through the whole list once, a step a frame; the frames a second.
_SCROLL: Final = """async (frames) => {
    const list = document.querySelector('.waterfall');
    const begun = performance.now();
    for (let frame = 0; frame < frames; frame++) {
        if (list !== null) list.scrollTop = (frame / frames) * list.scrollHeight;
        await new Promise(requestAnimationFrame);
    }
    return frames / ((performance.now() - begun) / 1000);
}"""
# The milliseconds from a key to the row that it selects, for each of many keys.
_SELECT: Final = """async (times) => {
    const taken = [];
    const selected = () => document.querySelector('.waterfall .row[aria-selected=true]')?.id;
    document.querySelector('.waterfall').focus();
    for (let one = 0; one < times; one++) {
        const before = selected();
        const begun = performance.now();
        const key = new KeyboardEvent('keydown', {key: 'ArrowDown', bubbles: true, cancelable: true});
        document.activeElement.dispatchEvent(key);
        while (selected() === before && performance.now() - begun < 1000) await new Promise((done) => setTimeout(done));
        taken.push(performance.now() - begun);
        await new Promise(requestAnimationFrame);
    }
    return taken;
}"""


def main() -> None:
    """Measure the page of a `sluice up` with sample traffic and a trace of 10 000 spans."""
    rounds = command(__package__, __doc__, rounds=5).parse_args().rounds
    path = shutil.which("chromium") or str(ROOT / ".venv/bin/chromium")
    with tempfile.TemporaryDirectory(prefix="sluice-web-") as directory, sync_playwright() as playwright:
        service = Service("up", Path(directory) / "data", Path(directory) / "log", {"SLUICE_GRPC_PORT": ""})
        service.start()
        try:
            site = Site(service, TRACE)
            sluice(site, "send", "--traffic")
            site.send(wide_trace(TRACE, time.time_ns() - 600 * SECOND, SPANS, 25))
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            print_machine(about=f"Chromium {browser.version}; medians of {rounds}")
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.goto(site.link())
            page.wait_for_selector("h1")
            columns = {"the page": "", "measured": ".1f", "budget": "", "a blank page": ".1f"}
            table = Table(columns)
            _bytes(table, page, site)
            _first_paint(table, page, site, rounds)
            _trace(table, page, site, rounds)
            _requests(table, page, site)
            beside.measure(page, site)
            browser.close()
        finally:
            service.stop()


def _bytes(table: Table, page: Page, site: Site) -> None:
    seen: dict[str, int] = {}

    def keep(request: Request) -> None:
        if request.url.startswith(f"{site.service.url}/ui/") and request.url not in seen:
            seen[request.url] = len(call("GET", request.url, headers={"Accept-Encoding": "gzip"}).body)

    def total() -> float:
        return sum(size for url, size in seen.items() if "/assets/" in url or url == first) / 1000

    first = site.url("")
    page.on("request", keep)
    _open(page, site, "")
    table.row("first route, compressed, kB", total(), "60", None)
    for view in VIEWS:
        _open(page, site, view)
    for path in OTHER_VIEWS:
        page.goto(f"{site.service.url}/ui/default/{path}")
        page.wait_for_load_state("networkidle")
    page.remove_listener("request", keep)
    table.row(f"all of {len(VIEWS) + len(OTHER_VIEWS)} views, compressed, kB", total(), "200", None)


def _open(page: Page, site: Site, view: str) -> None:
    page.goto(site.url(view))
    page.wait_for_load_state("networkidle")


def _median(measure: Callable[[], float], rounds: int) -> float:
    return statistics.median(measure() for _ in range(rounds))


def _first_paint(table: Table, page: Page, site: Site, rounds: int) -> None:
    def painted(url: str) -> float:
        page.goto(url)
        page.wait_for_load_state("networkidle")
        return float(page.evaluate(_PAINTED) or 0)

    shown = _median(lambda: painted(site.url("")), rounds)
    blank = _median(lambda: painted(site.service.url + _BLANK), rounds)
    table.row("first paint, a reload, ms", shown, "500", blank)


def _trace(table: Table, page: Page, site: Site, rounds: int) -> None:
    context = page.context
    context.add_init_script(_WATCH_ROWS)
    cdp = context.new_cdp_session(page)
    cdp.send("Performance.enable")

    def rows() -> float:
        page.goto(site.url(f"trace/{TRACE}"))
        page.wait_for_selector(".waterfall .row")
        page.wait_for_load_state("networkidle")
        return float(page.evaluate(_ROWS_AFTER_ANSWER))

    table.row(f"{SPANS} spans: answer to rows, ms", _median(rows, rounds), "100", None)
    frames = [_scrolled(page, cdp) for _ in range(rounds)]
    taken = sorted(page.evaluate(_SELECT, 100))
    nodes = page.evaluate("() => document.querySelectorAll('*').length")
    page.goto(site.service.url + _BLANK)
    blank = [_scrolled(page, cdp) for _ in range(rounds)]
    budgets = {"frames a second while scrolling": "60", "ms of the main thread a frame": "10"}
    for at, (what, budget) in enumerate(budgets.items()):
        both = [statistics.median(each[at] for each in some) for some in (frames, blank)]
        table.row(f"{SPANS} spans: {what}", both[0], budget, both[1])
    table.row(f"{SPANS} spans: key to selection, median, ms", statistics.median(taken), "50", None)
    table.row(f"{SPANS} spans: key to selection, worst of {len(taken)}, ms", taken[-1], "50", None)
    table.row(f"{SPANS} spans: elements", str(nodes), "600", None)


def _scrolled(page: Page, cdp: CDPSession) -> tuple[float, float]:
    """Frames a second, and milliseconds of the main thread for each."""
    before = _task_seconds(cdp)
    rate = float(page.evaluate(_SCROLL, _FRAMES))
    return rate, (_task_seconds(cdp) - before) * 1000 / _FRAMES


def _task_seconds(cdp: CDPSession) -> float:
    metrics: list[dict[str, Any]] = cdp.send("Performance.getMetrics")["metrics"]
    return next(float(each["value"]) for each in metrics if each["name"] == "TaskDuration")


def _requests(table: Table, page: Page, site: Site) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/orgs/" in request.url else None)
    for view in VIEWS:
        asked.clear()
        _open(page, site, view)
        table.row(f"requests of the API: {view.partition('/')[0] or 'overview'}", str(len(asked)), "3", None)


if __name__ == "__main__":
    main()
