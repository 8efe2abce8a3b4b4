"""Filter and statistics of frames."""

from __future__ import annotations

import pytest

from duologue.recording.format import Entry
from duologue.trace import statistics as statistics_module
from duologue.trace.frame_filter import FrameFilter
from duologue.trace.frames import Tracer
from duologue.trace.statistics import count
from tests.trace.test_frames import UPDATE, entry

FRAMES = list(
    Tracer().trace(
        [
            entry(0.0, "to_agent", id=1, method="session/prompt", params={"sessionId": "s1", "prompt": []}),
            entry(0.5, "to_client", method="session/update", params={"sessionId": "s1", "update": UPDATE}),
            entry(0.6, "to_client", method="session/update", params={"sessionId": "s1", "update": UPDATE}),
            entry(1.0, "to_client", id="p", method="session/request_permission", params={"sessionId": "s1"}),
            entry(3.5, "to_agent", id="p", result={"outcome": {"outcome": "cancelled"}}),
            Entry(t=3.6, stderr="Oops"),
            entry(4.0, "to_client", id=1, error={"code": -32603, "message": "no"}),
            Entry(t=5.0, gap=3),
        ]
    )
)


@pytest.mark.parametrize(
    ("selection", "numbers"),
    [
        (FrameFilter(), [1, 2, 3, 4, 5, 6, 7, 8]),
        (FrameFilter(methods=["session/update"]), [2, 3]),
        (FrameFilter(methods=["session/*_permission"]), [4, 5]),
        (FrameFilter(sessions=["s"]), [1, 2, 3, 4, 5, 7]),
        (FrameFilter(sessions=["t"]), []),
        (FrameFilter(direction="to_agent"), [1, 5]),
        (FrameFilter(kinds=["error", "gap"]), [7, 8]),
        (FrameFilter(text="OOPS"), [6]),
        (FrameFilter(since=1.0, until=3.5), [4, 5]),
        (FrameFilter(only_problems=True), [4]),
    ],
)
def test_frames_are_selected_by_each_criterion(selection: FrameFilter, numbers: list[int]) -> None:
    assert [frame.number for frame in FRAMES if selection.matches(frame)] == numbers


def test_figures_are_those_of_the_frames() -> None:
    figures = count(FRAMES)

    assert (figures.seconds, figures.missing, figures.problems) == (4.0, 3, 1)
    assert figures.frames == {"request": 2, "notification": 2, "response": 1, "stderr": 1, "error": 1}
    assert (figures.first_update, figures.updates_per_second) == (0.5, 2)
    assert (figures.permission_wait, figures.longest_silence) == (2.5, 2.5)
    assert [(each.method, each.count, each.errors, each.p50) for each in figures.methods] == [
        ("session/prompt", 1, 1, 4.0),
        ("session/request_permission", 1, 0, 2.5),
    ]


def test_an_empty_recording_has_figures_too() -> None:
    assert count([]).seconds == 0


def test_latencies_of_a_long_recording_are_thinned_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_module, "MAX_LATENCIES", 100)
    entries = [
        each
        for number in range(1000)
        for each in (
            entry(0.0, "to_agent", id=number, method="session/list", params={}),
            entry(number / 1000, "to_client", id=number, result={"sessions": []}),
        )
    ]
    (figures,) = count(Tracer().trace(entries)).methods

    assert (figures.count, figures.longest) == (1000, 0.999)
    assert figures.p50 == pytest.approx(0.5, abs=0.05)
    assert figures.p99 == pytest.approx(0.99, abs=0.05)


def test_updates_of_seconds_long_ago_are_forgotten() -> None:
    entries = [
        entry(float(second), "to_client", method="session/update", params={"sessionId": "s", "update": UPDATE})
        for second in range(10)
    ]

    assert count(Tracer().trace(entries)).updates_per_second == 1
