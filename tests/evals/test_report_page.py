"""The report as a page: every text of an agent stays text, nothing is loaded, its size has a bound."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec import structs

from duologue.evals.record.result import TrialMetrics
from duologue.evals.report.eval_report import EvalReport, make_report
from duologue.evals.report.page import document
from duologue.evals.report.page.document import to_html
from duologue.evals.report.page.trial_details import trial_details
from duologue.evals.report.run_summary import read_run
from duologue.evals.report.trial_summary import TrialSummary
from duologue.usage.amounts import SessionUsage
from tests.evals.hostile_texts import HOSTILE, HUGE
from tests.evals.run_builder import build_run

TAGS = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "h1",
        "h2",
        "h3",
        "p",
        "div",
        "span",
        "a",
        "ul",
        "li",
        "section",
    ),
    *("table", "thead", "tbody", "tr", "th", "td", "strong", "code", "pre", "details", "summary"),
    *("svg", "rect", "line", "circle", "polyline", "text"),
}
ATTRIBUTES = {
    *("lang", "charset", "http-equiv", "content", "name", "class", "id", "href", "open", "role", "aria-label"),
    *("viewbox", "width", "height", "x", "y", "rx", "x1", "x2", "y1", "y2", "cx", "cy", "r", "points", "text-anchor"),
}


class PageReader(HTMLParser):
    """Collects the elements, attributes and links of a page, and checks that every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.texts: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name == "href"]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag != "meta":
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(page: str) -> PageReader:
    """Return what a page consists of."""
    reader = PageReader()
    reader.feed(page)
    reader.close()
    assert reader._open == []
    return reader


def report_of(folder: Path, text: str = "hello") -> EvalReport:
    """Return a report about two agents whose texts are all this one."""
    letters = {"one": {"a": "PFC", "b": "PV-"}, "two": {"a": "PPP", "b": "FFF"}}
    fields = {case: {"tags": [text], "quarantine": text} for case in "b"}
    path = build_run(folder, letters, text=text, costs={"one": 0.1, "two": 0.2}, fields=fields)
    return make_report([read_run(path)])


def test_a_page_has_only_known_elements_and_links_into_itself(tmp_path: Path) -> None:
    page = read(to_html(report_of(tmp_path)))

    assert set(page.tags) <= TAGS
    assert page.attributes <= ATTRIBUTES
    assert len(set(page.ids)) == len(page.ids)
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert len(page.links) == 4


@pytest.mark.parametrize("text", [HOSTILE, HUGE], ids=["markup", "huge"])
def test_texts_of_agents_stay_texts(tmp_path: Path, text: str) -> None:
    plain = read(to_html(report_of(tmp_path / "plain")))
    document_text = to_html(report_of(tmp_path / "hostile", text))
    hostile = read(document_text)

    assert set(hostile.tags) <= TAGS
    assert hostile.attributes <= ATTRIBUTES
    # Only the lines of a patch become more: the text has line ends.
    assert [tag for tag in hostile.tags if tag != "span"] == [tag for tag in plain.tags if tag != "span"]
    assert any("<script>document.title='taken'</script>" in each for each in hostile.texts)
    assert "\x1b" not in document_text
    assert "\u202e" not in document_text
    assert "\x00" not in document_text


def test_the_policy_allows_only_the_style_of_the_page(tmp_path: Path) -> None:
    page = to_html(report_of(tmp_path))

    assert "default-src 'none'; style-src 'sha256-" in page
    assert "unsafe" not in page
    assert "style=" not in page
    assert "http://" not in page.replace("http-equiv", "")
    assert "https://" not in page


def test_missing_trials_are_named_as_missing(tmp_path: Path) -> None:
    texts = "\n".join(read(to_html(report_of(tmp_path))).texts)

    assert "one, a, trial 3: agent_crashed (ConnectionLost): hello" in texts
    assert "one, b, trial 3: not_run" in texts
    assert "neither passed nor failed" in texts


def test_steps_changes_and_messages_of_a_trial_are_on_the_page(tmp_path: Path) -> None:
    texts = "\n".join(read(to_html(report_of(tmp_path))).texts)

    assert "right hello" in texts
    assert "+hello" in texts
    assert '"method":"initialize"' in texts
    assert "HOME/hello" in texts
    assert "sleep hello" in texts


def test_the_figures_of_a_trial_say_what_was_reported_and_how(tmp_path: Path) -> None:
    usage = SessionUsage(total=5_000, provenance="cumulative", cost=0.1, currency="USD")
    figures = TrialMetrics(
        prompts=2, first_update=0.25, tool_seconds=1.5, permission_seconds=3, tool_calls={"read": 4, "edit": 2},
        failed_tool_calls=1, repeated_tool_calls=2, permissions_asked=3, permissions_denied=1, context_peak=90_000,
        compactions=1, usage=usage,
    )  # fmt: skip
    trial = TrialSummary(case="a", agent="one", trial=1, passed=True, metrics=figures)
    shown = "".join(trial_details("x", trial, tmp_path, 60_000))
    silent = structs.replace(trial, metrics=TrialMetrics(prompts=1))
    without = "".join(trial_details("x", silent, tmp_path, 60_000))

    assert (
        "first update after 0.25 s, 1.5 s in tools, 3 s waiting for permission, tool calls: edit 2, read 4, "
        "1 of them failed, 2 repeated, 3 permission requests, 1 denied, tokens cumulative, cost cumulative, "
        "context peak 90,000 tokens, 1 compaction"
    ) in shown
    assert "no update, 0 s in tools" in without
    assert "no tool calls, tokens not reported, cost not reported" in without


def test_the_names_of_many_files_are_cut(tmp_path: Path) -> None:
    report = report_of(tmp_path)
    trial = next(iter(report.trials()))
    many = structs.replace(trial, writes=[f"HOME/{number}" for number in range(1_000)])
    shown = "".join(trial_details("x", many, tmp_path / "run", 60_000))

    assert "HOME/49</pre>" in shown
    assert "HOME/50" not in shown
    assert "950 more are in result.json" in shown


def test_huge_records_do_not_make_a_huge_page(tmp_path: Path) -> None:
    page = to_html(report_of(tmp_path, HUGE))

    assert len(page) < 12 * (document.MOST_OF_TRIAL + 20_000)
    assert "characters)" in page


def test_details_end_where_the_page_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MOST_CHARACTERS", document.LEAST_OF_TRIAL * 3)
    texts = read(to_html(report_of(tmp_path))).texts

    assert sum("Messages on the wire" in text for text in texts) == 3
    assert sum("trial 1 passed" in text for text in texts) == 3


def test_a_record_that_is_damaged_later_is_reported_on_the_page(tmp_path: Path) -> None:
    report = report_of(tmp_path)
    record = tmp_path / "run" / "trials" / "one" / "a" / "1"
    (record / "trajectory.jsonl").write_text("{\n")
    (record / "wire.acp").write_text("nothing")
    (record / "workspace.patch").unlink()
    (record / "workspace.patch").mkdir()
    texts = "\n".join(read(to_html(report)).texts)

    assert "trajectory.jsonl, line 1 is damaged" in texts
    assert "wire.acp is not a recording" in texts
    assert "workspace.patch is not a regular file" in texts


def test_agents_without_a_common_cost_are_drawn_by_time(tmp_path: Path) -> None:
    path = build_run(tmp_path, {"one": {"a": "P"}, "two": {"a": "F"}}, costs={"one": 0.1})
    page = to_html(make_report([read_run(path)]))

    assert "pass@1 against seconds" in page
