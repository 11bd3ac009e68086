"""docs/scaling.md says what `python -m benchmarks.sizing` prints, and its figures are those of docs/benchmarks.md."""

import re
from pathlib import Path
from typing import Final

import pytest

from benchmarks.sizing import figures
from benchmarks.sizing.__main__ import markdown
from benchmarks.sizing.figures import Figure
from benchmarks.sizing.plan import Load, item_us, plan

DOCS: Final = Path(__file__).parents[2] / "docs"


def test_the_page_has_what_the_script_prints() -> None:
    page = (DOCS / "scaling.md").read_text("utf-8")
    tables = "\n".join(markdown()).split("\n\n")
    assert len(tables) == 3
    assert [table for table in tables if f"\n{table}\n" not in page] == []


@pytest.mark.parametrize("figure", figures.ALL, ids=lambda figure: figure.what)
def test_a_figure_is_in_the_section_that_it_names(figure: Figure) -> None:
    page = (DOCS / "benchmarks.md").read_text("utf-8")
    sections = {
        heading.lower().replace(" ", "-"): text
        for heading, text in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    }
    assert re.search(rf"(?<![\d.]){figure.value:g}(?![\d.]*\d) (?:{figure.unit}|bytes)", sections[figure.section])


def test_the_two_measured_sizes_of_requests_come_out_again() -> None:
    assert item_us(512) == pytest.approx(figures.LARGE_REQUEST_US.value)
    assert item_us(4) * 4 == pytest.approx(figures.SMALL_REQUEST_US.value)


def test_twice_the_load_needs_twice_as_much() -> None:
    one, two = plan(Load(spans_s=100)), plan(Load(spans_s=200))
    assert two.gateway_cores == pytest.approx(2 * one.gateway_cores)
    assert two.write_cores == pytest.approx(2 * one.write_cores)
    assert two.disk_bytes == pytest.approx(2 * one.disk_bytes)
    assert plan(Load(copies=2)).disk_bytes == pytest.approx(2 * plan(Load()).disk_bytes)
    assert plan(Load(logs_s=10_000)).disk_bytes_day > plan(Load()).disk_bytes_day


def test_a_read_scans_no_more_than_its_ceiling() -> None:
    assert plan(Load(spans_s=10**6)).read_cores == plan(Load(spans_s=10**7)).read_cores
