"""What a person sees of a view: not the elements in the document, but what is painted and clicked at a point."""

from dataclasses import dataclass
from typing import Final

from tests.web.conftest import Tab

# One look at each 24 pixels of the waterfall, from the ruler down. Rows are transparent: two at one place are
# both painted, so every row at the point counts, and so does what covers a row.
_LOOK: Final = """() => {
    const area = document.querySelector('.waterfall').getBoundingClientRect();
    const ruler = document.querySelector('.waterfall .ruler').getBoundingClientRect();
    const named = (row) => ['.name', '.hides'].map((each) => row.querySelector(each).textContent).join(' ').trimEnd();
    const at = (x, y) => {
        const rows = document.elementsFromPoint(x, y).filter((each) => each.matches('.waterfall .row'));
        const isCovered = rows.length > 0 && !rows[0].contains(document.elementFromPoint(x, y));
        return [rows, rows.map(named).join(' over ') + (isCovered ? ' covered' : '')];
    };
    const found = [];
    for (let y = ruler.bottom + 12; y < Math.min(area.bottom, innerHeight) - 2; y += 24) {
        const [rows, label] = at(area.left + 100, y);
        const [, lane] = at(ruler.left + ruler.width / 2, y);
        const text = label === lane ? label : `${label} | ${lane}`;
        const part = (name) => rows[0].querySelector(name).getBoundingClientRect();
        const place = { text, x: area.left + 100, y, toggle: 0, left: 0, right: 0 };
        if (rows.length > 0) {
            const [toggle, bar, whole, closed, label] = ['.toggle', '.bar', '.lane', '.hides', '.label'].map(part);
            if (closed.right > label.right + 1) place.text += ' cut off';
            place.toggle = toggle.left + toggle.width / 2;
            place.left = (bar.left - whole.left) / whole.width;
            place.right = (bar.right - whole.left) / whole.width;
        }
        found.push(place);
    }
    return found;
}"""

# What has the attribute `hidden` and a box nevertheless; and what can be pressed and lies below something else.
_WRONG: Final = """() => {
    const shown = [...document.querySelectorAll('[hidden]')].filter((each) => each.getClientRects().length > 0);
    const covered = [];
    for (const each of document.querySelectorAll('main :is(a, button, input, select, summary, tbody tr)')) {
        for (const box of each.getClientRects()) {
            const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
            const top = document.elementFromPoint(x, y);
            if (top === null || each.contains(top) || top.contains(each) || !each.checkVisibility()) continue;
            covered.push(each);
        }
    }
    return [shown, covered].map((some) => some.map((each) => each.outerHTML.slice(0, 100)));
}"""


@dataclass(frozen=True)
class Place:
    """24 pixels of the waterfall: the name of the row that is painted there, and points in it to click. The bar is from
    `left` to `right` of its lane, as shares of the lane.
    """

    text: str
    x: float
    y: float
    toggle: float
    left: float
    right: float


async def places(tab: Tab) -> list[Place]:
    """What is painted in the waterfall, from the top; what is empty below the last row is left out."""
    await tab.drawn()
    found = [Place(**each) for each in await tab.page.evaluate(_LOOK)]
    while found and found[-1].text == "":
        found.pop()
    return found


async def names(tab: Tab) -> list[str]:
    """The names of the rows that are painted, from the top."""
    return [each.text for each in await places(tab)]


async def click(tab: Tab, name: str, *, toggle: bool = False) -> None:
    """Press the mouse where the row of this name is painted, or its toggle."""
    (place,) = [each for each in await places(tab) if each.text == name]
    await tab.page.mouse.click(place.toggle if toggle else place.x, place.y)
    await tab.settled()


async def wrong(tab: Tab) -> list[list[str]]:
    """The beginnings of elements that are hidden and painted, and of those to be pressed that something else covers."""
    found: list[list[str]] = await tab.page.evaluate(_WRONG)
    return found
