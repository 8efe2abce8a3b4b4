"""The page of a report in a real browser: hostile texts run nothing, and a case leads to its trials."""

from __future__ import annotations

from pathlib import Path

from duologue.evals.report.eval_report import make_report
from duologue.evals.report.page.document import to_html
from duologue.evals.report.run_summary import read_run
from tests.evals.hostile_texts import HOSTILE
from tests.evals.run_builder import build_run
from tests.evals.test_report_page import report_of
from tests.inspector.browser import browser_page, needs_browser

pytestmark = needs_browser

PAPER = {"width": 718, "height": 1047}
"""An A4 page without its margins of 10 mm, in pixels of CSS."""


def write_page(folder: Path, text: str) -> str:
    """Write a page and return its URL."""
    path = folder / "report.html"
    path.write_text(to_html(report_of(folder, text)), "utf-8")
    return path.as_uri()


def test_a_hostile_report_runs_and_loads_nothing(tmp_path: Path) -> None:
    with browser_page(write_page(tmp_path, HOSTILE), ready="h1") as opened:
        opened.page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
        title = opened.page.title()
        frames = len(opened.page.frames)

    assert (opened.requests, opened.errors, opened.dialogs) == ([], [], [])
    assert title.startswith("Evaluation of small")
    assert frames == 1


def test_the_style_of_the_page_is_used_in_light_and_dark(tmp_path: Path) -> None:
    url = write_page(tmp_path, "hello")
    colours: list[str] = []
    for scheme in ("light", "dark"):
        with browser_page(url, ready="h1", color_scheme=scheme) as opened:
            colours.append(opened.page.evaluate("getComputedStyle(document.body).backgroundColor"))

    assert colours == ["rgb(255, 255, 255)", "rgb(13, 17, 23)"]


def test_a_case_leads_to_its_trials(tmp_path: Path) -> None:
    with browser_page(write_page(tmp_path, "hello"), ready="h1") as opened:
        target = opened.page.locator("#a1-c0")
        assert not target.is_visible()
        opened.page.locator("a.cell").nth(1).click()
        target.wait_for(state="visible")

        assert target.inner_text() == "two"


def test_a_printed_page_has_all_columns(tmp_path: Path) -> None:
    letters = {name: {f"case-{number}": "PPFPF" for number in range(8)} for name in ("claude", "gemini", "codex")}
    run = read_run(build_run(tmp_path, letters, text="A longer name of an agent", costs={"claude": 0.1234}))
    path = tmp_path / "report.html"
    path.write_text(to_html(make_report([run])), "utf-8")
    with browser_page(path.as_uri(), ready="h1", viewport=PAPER) as opened:
        opened.page.emulate_media(media="print")
        widths = opened.page.evaluate("[...document.querySelectorAll('table')].map(each => each.scrollWidth)")

    assert len(widths) == 3
    assert max(widths) <= PAPER["width"]


def test_a_narrow_screen_scrolls_only_tables(tmp_path: Path) -> None:
    with browser_page(write_page(tmp_path, "hello"), ready="h1", viewport={"width": 380, "height": 800}) as opened:
        overflow = opened.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")

    assert overflow == 0
