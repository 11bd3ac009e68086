"""Prints the machine, and a table: what was measured, its budget, and the same of a page without any script.

`python -m benchmarks.web` needs Chromium (`scripts/prerequisites browser`).
"""

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import CDPSession, Page, Request, sync_playwright

from benchmarks.codec.__main__ import machine
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often what varies is measured")
    rounds = parser.parse_args().rounds
    path = shutil.which("chromium") or str(ROOT / ".venv/bin/chromium")
    with tempfile.TemporaryDirectory(prefix="sluice-web-") as directory, sync_playwright() as playwright:
        service = Service("up", Path(directory) / "data", Path(directory) / "log", {"SLUICE_GRPC_PORT": ""})
        service.start()
        try:
            site = Site(service, TRACE)
            sluice(site, "send", "--traffic")
            site.send(wide_trace(TRACE, time.time_ns() - 600 * SECOND, SPANS, 25))
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            print(f"{machine()}; Chromium {browser.version}; medians of {rounds}", flush=True)
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.goto(site.link())
            page.wait_for_selector("h1")
            _bytes(page, site)
            _first_paint(page, site, rounds)
            _trace(page, site, rounds)
            _requests(page, site)
            beside.measure(page, site)
            browser.close()
        finally:
            service.stop()


def _line(what: str, value: str, budget: str, beside: str = "") -> None:
    print(f"  {what:<52} {value:>12}   {budget:<12} {beside}", flush=True)


def _bytes(page: Page, site: Site) -> None:
    print("\nbytes, compressed                                             measured   budget")
    seen: dict[str, int] = {}

    def keep(request: Request) -> None:
        if request.url.startswith(f"{site.service.url}/ui/") and request.url not in seen:
            seen[request.url] = len(call("GET", request.url, headers={"Accept-Encoding": "gzip"}).body)

    def total() -> str:
        return f"{sum(size for url, size in seen.items() if '/assets/' in url or url == first) / 1000:.1f} kB"

    first = site.url("")
    page.on("request", keep)
    _open(page, site, "")
    _line("first route", total(), "60 kB")
    for view in VIEWS:
        _open(page, site, view)
    for path in OTHER_VIEWS:
        page.goto(f"{site.service.url}/ui/default/{path}")
        page.wait_for_load_state("networkidle")
    page.remove_listener("request", keep)
    _line(f"all of {len(VIEWS) + len(OTHER_VIEWS)} views", total(), "200 kB")


def _open(page: Page, site: Site, view: str) -> None:
    page.goto(site.url(view))
    page.wait_for_load_state("networkidle")


def _median(measure: Callable[[], float], rounds: int) -> float:
    return statistics.median(measure() for _ in range(rounds))


def _first_paint(page: Page, site: Site, rounds: int) -> None:
    def painted(url: str) -> float:
        page.goto(url)
        page.wait_for_load_state("networkidle")
        return float(page.evaluate(_PAINTED) or 0)

    print("\nmilliseconds                                                  measured   budget       a blank page")
    shown = _median(lambda: painted(site.url("")), rounds)
    blank = _median(lambda: painted(site.service.url + _BLANK), rounds)
    _line("first paint, a reload", f"{shown:.0f}", "500", f"{blank:.0f}")


def _trace(page: Page, site: Site, rounds: int) -> None:
    context = page.context
    context.add_init_script(_WATCH_ROWS)
    cdp = context.new_cdp_session(page)
    cdp.send("Performance.enable")

    def rows() -> float:
        page.goto(site.url(f"trace/{TRACE}"))
        page.wait_for_selector(".waterfall .row")
        page.wait_for_load_state("networkidle")
        return float(page.evaluate(_ROWS_AFTER_ANSWER))

    _line(f"{SPANS:,} spans: answer to rows", f"{_median(rows, rounds):.0f}", "100")
    frames = [_scrolled(page, cdp) for _ in range(rounds)]
    taken = sorted(page.evaluate(_SELECT, 100))
    nodes = page.evaluate("() => document.querySelectorAll('*').length")
    page.goto(site.service.url + _BLANK)
    blank = [_scrolled(page, cdp) for _ in range(rounds)]
    for at, (what, budget) in enumerate((("frames a second while scrolling", "60"), ("main thread a frame", "10"))):
        both = (statistics.median(each[at] for each in some) for some in (frames, blank))
        shown, beside = (f"{value:.1f}" for value in both)
        _line(f"{SPANS:,} spans: {what}", shown, budget, beside)
    _line(f"{SPANS:,} spans: key to selection, median", f"{statistics.median(taken):.1f}", "50")
    _line(f"{SPANS:,} spans: key to selection, worst of {len(taken)}", f"{taken[-1]:.1f}", "50")
    print("\ncounts                                                        measured   budget")
    _line(f"elements with {SPANS:,} spans", str(nodes), "600")


def _scrolled(page: Page, cdp: CDPSession) -> tuple[float, float]:
    """Frames a second, and milliseconds of the main thread for each."""
    before = _task_seconds(cdp)
    rate = float(page.evaluate(_SCROLL, _FRAMES))
    return rate, (_task_seconds(cdp) - before) * 1000 / _FRAMES


def _task_seconds(cdp: CDPSession) -> float:
    metrics: list[dict[str, Any]] = cdp.send("Performance.getMetrics")["metrics"]
    return next(float(each["value"]) for each in metrics if each["name"] == "TaskDuration")


def _requests(page: Page, site: Site) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/orgs/" in request.url else None)
    for view in VIEWS:
        asked.clear()
        _open(page, site, view)
        _line(f"requests of the API: {view.partition('/')[0] or 'overview'}", str(len(asked)), "3")


if __name__ == "__main__":
    main()
