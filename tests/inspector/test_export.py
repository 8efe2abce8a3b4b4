"""The page of a recording as one file: complete, within bounds, and without HTML from a frame."""

from __future__ import annotations

import base64
import gzip
import html.parser
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from duologue.inspector import export, recording_index
from duologue.inspector.export import write_export
from duologue.inspector.page import page_end
from duologue.inspector.recording_index import RecordingIndex
from duologue.trace.frame_filter import FrameFilter
from tests.inspector.recordings import conversation, hostile, message, stream, update, write


def exported(path: Path, selection: FrameFilter | None = None) -> str:
    out = io.StringIO()
    with RecordingIndex(path, selection=selection) as index:
        write_export(out, path.name, index)
    return out.getvalue()


def data_of(page: str) -> dict[str, Any]:
    found = re.findall(r'<script type="application/gzip" id="data-([a-z0-9-]+)">([A-Za-z0-9+/=]+)</script>', page)
    return {name: json.loads(gzip.decompress(base64.b64decode(packed))) for name, packed in found}


class _Elements(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)


def elements(page: str) -> list[str]:
    parser = _Elements()
    parser.feed(page)
    return parser.found


def test_a_page_has_rows_contents_and_figures(tmp_path: Path) -> None:
    data = data_of(exported(write(tmp_path / "run.acp", conversation())))

    assert data["info"]["name"] == "run.acp"
    assert (data["info"]["frames"], data["info"]["agent"]) == (13, ["echo-agent"])
    rows = data["rows-0"]
    assert [row[3] for row in rows[:5]] == ["request", "response", "request", "response", "request"]
    assert rows[3][9:11] == [0.2, 3], "latency, and the number of the request"
    assert [row[11] for row in (rows[4], rows[5], rows[7], rows[10], rows[11], rows[12])] == [
        "fix the test", "I look at ", "/project/a.py", "warning: slow", "overloaded",
        "the agent ended with exit code 3",
    ]  # fmt: skip
    assert rows[9][12][0][0] == "$.params.sessionId"
    assert json.loads(data["contents-0"][4]["text"])["params"]["prompt"][0]["text"] == "fix the test"
    assert data["statistics"]["frames"]["request"] == 4


def test_no_text_of_a_recording_becomes_html(tmp_path: Path) -> None:
    ordinary = exported(write(tmp_path / "a.acp", conversation()))
    page = exported(write(tmp_path / "b.acp", hostile(characters=100_000)))

    assert elements(page) == elements(ordinary)
    assert "hacked" not in page, "data is written in base64"
    assert len(data_of(page)["rows-0"]) > 60


def test_the_program_cannot_end_its_element() -> None:
    assert page_end().lower().count("</script") == 1
    assert "<!--" not in page_end()


def test_the_policy_allows_only_the_program_and_style_of_the_page(tmp_path: Path) -> None:
    page = exported(write(tmp_path / "run.acp", conversation()))
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)

    assert found is not None
    directives = dict(each.split(" ", 1) for each in found[1].split("; "))
    assert directives["default-src"] == "'none'"
    assert directives["connect-src"] == "'none'"
    assert directives["require-trusted-types-for"] == "'script'"
    assert re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", directives["script-src"])
    assert re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", directives["style-src"])
    assert "unsafe" not in found[1]


def test_a_long_recording_is_split_into_parts(tmp_path: Path) -> None:
    data = data_of(exported(write(tmp_path / "run.acp", stream(2500))))

    assert [len(data[f"rows-{part}"]) for part in range(3)] == [1000, 1000, 500]
    assert [len(data[f"contents-{part}"]) for part in range(3)] == [1000, 1000, 500]
    assert '"chunk 1233 of' in data["contents-1"][234]["text"]
    assert data["rows-2"][-1][10] == 1


def test_a_selection_keeps_the_numbers_of_its_frames(tmp_path: Path) -> None:
    path = write(tmp_path / "run.acp", conversation())
    data = data_of(exported(path, FrameFilter(methods=["session/prompt"])))

    assert [row[0] for row in data["rows-0"]] == [5, 12]
    assert [json.loads(each["text"])["id"] for each in data["contents-0"]] == [2, 2]


def test_a_page_lists_a_bounded_number_of_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_index, "MAX_FRAMES", 1500)
    data = data_of(exported(write(tmp_path / "run.acp", stream(5000))))

    assert data["info"]["is_cut"]
    assert data["info"]["frames"] == 2000, "whole pages"


def test_contents_beyond_the_bound_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "MAX_EXPORT_CHARS", 300_000)
    data = data_of(exported(write(tmp_path / "run.acp", stream(3000))))

    assert data["info"]["contents"] == 1000
    assert "contents-0" in data
    assert "contents-1" not in data
    assert "rows-2" in data


def test_a_long_content_is_cut_and_says_its_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_index, "MAX_CONTENT_CHARS", 1000)
    data = data_of(exported(write(tmp_path / "run.acp", [update(0.0, "x" * 5000)])))

    assert len(data["contents-0"][0]["text"]) == 1000
    assert data["contents-0"][0]["characters"] > 5000
    assert len(data["rows-0"][0][11]) == 161


def test_numbers_that_a_browser_cannot_read_exactly_are_text(tmp_path: Path) -> None:
    lines = [message(0.0, "to_agent", id=1 << 60, method="m"), message(0.0, "to_agent", id=7, method="m")]
    data = data_of(exported(write(tmp_path / "run.acp", lines)))

    assert [row[6] for row in data["rows-0"]] == [str(1 << 60), 7]


def test_a_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.acp").write_text("hello\n")

    with pytest.raises(ValueError, match="is not a recording"):
        RecordingIndex(tmp_path / "run.acp")
