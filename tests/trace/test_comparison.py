"""Two runs compared by meaning: what each run makes up anew does not count, and everything else does."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from duologue.trace import comparison as comparison_module
from duologue.trace import run_steps
from duologue.trace.comparison import Comparison, StepPair
from duologue.trace.frames import Tracer
from duologue.trace.run_steps import RunReader, RunStep, differences
from tests.trace.recorded_run import RecordedRun, handshake, whole_run


def steps_of(run: RecordedRun, *ignored: str) -> list[RunStep]:
    return RunReader(ignored).read(Tracer().trace(run.entries))


def compared(a: RecordedRun, b: RecordedRun, *ignored: str) -> list[StepPair]:
    return list(Comparison().compare(steps_of(a, *ignored), steps_of(b, *ignored)))


def changes(a: RecordedRun, b: RecordedRun, *ignored: str) -> list[tuple[str, str]]:
    """Return the differences and their paths, or kinds of update."""
    found: list[tuple[str, str]] = []
    for pair in compared(a, b, *ignored):
        step = pair.a or pair.b
        if pair.kind == "changed" and pair.a and pair.b:
            found += [("changed", path) for path, _, _ in differences(pair.a.content, pair.b.content)]
        elif pair.kind != "same" and step is not None:
            found.append((pair.kind, step.key.update or step.key.method))
    return found


def test_equal_runs_with_other_ids_times_and_directories_are_equal() -> None:
    def run(session: str, cwd: str, when: str, tool: str) -> RecordedRun:
        made = RecordedRun(session).other(gap=0, stderr=when)
        made.request("to_agent", "session/new", {"cwd": cwd, "mcpServers": []}, {"sessionId": session})
        made.prompt(f"look at {cwd}/a.py").update("session_info_update", title="t", updatedAt=when)
        made.update("tool_call", toolCallId=tool, title=f"Read {cwd}/a.py", locations=[{"path": f"{cwd}/a.py"}])
        made.update("tool_call_update", toolCallId=tool, status="completed")
        made.frame("to_agent", method="$/cancel_request", params={"requestId": when})
        return made.stop()

    one = run("sess-aaaaaaaa", "/home/a/work", "2026-01-01T00:00:00Z", "call_111111")
    other = run("sess-bbbbbbbb", "/tmp/xyz", "2026-05-05T11:22:33.123+02:00", "call_999999")

    assert changes(one, other) == []


def test_the_chunks_of_a_message_do_not_count() -> None:
    one = RecordedRun().opened().text("I have ", "fixed it").other(stderr="x").text(".")
    other = RecordedRun().opened().text("I ", "have fixed", " it.")

    assert changes(one, other) == []
    assert [step.frames for step in steps_of(one)][4] == 3


def test_chunks_of_other_messages_and_kinds_are_not_joined() -> None:
    run = RecordedRun()
    for message in ("m1", "m1", "m2"):
        run.update("agent_message_chunk", messageId=message, content={"type": "text", "text": "x"})
    run.update("agent_message_chunk", content={"type": "image", "data": "", "mimeType": "image/png"})
    run.text("y", kind="agent_thought_chunk").text("z")

    assert [step.frames for step in steps_of(run)] == [2, 1, 1, 1, 1]


def test_changed_missing_and_additional_steps_differ_in_kind() -> None:
    one = whole_run()
    other = whole_run()
    other.entries = other.entries[:8] + RecordedRun().update("current_mode_update", currentModeId="x").entries
    other.entries += whole_run().entries[8:-3] + RecordedRun().text("I have mended it.").entries

    assert changes(one, other) == [
        ("only_b", "current_mode_update"),
        ("changed", "$.params.update.content.text"),
        ("only_a", "session/prompt"),
    ]


def test_ignored_paths_are_not_compared() -> None:
    one, other = RecordedRun().opened(), RecordedRun().opened()
    other.entries[1] = RecordedRun().frame(
        "to_client", id=1, result=handshake(1)[1] | {"agentInfo": {"name": "gem", "version": "0.9"}}
    ).entries[0]  # fmt: skip

    assert changes(one, other) == [("changed", "$.result.agentInfo.version")]
    assert changes(one, other, "$.result.agentInfo.version") == []
    assert changes(one, other, "*.version") == []
    assert changes(one, other, "$.params*") == [("changed", "$.result.agentInfo.version")]


def test_ignored_items_of_lists_are_named_by_their_index() -> None:
    one, other = (RecordedRun().frame("to_agent", method="_m", params=[1, number]) for number in (2, 3))

    assert changes(one, other) == [("changed", "$.params[1]")]
    assert changes(one, other, "$.params[1]") == []


def test_the_code_with_which_the_agent_ended_is_compared() -> None:
    assert changes(RecordedRun().other(exit_code=0), RecordedRun().other(exit_code=1)) == [("changed", "$.exit_code")]


def test_differences_name_paths_of_missing_values_and_of_other_types() -> None:
    one, other = {"a": [1, 2], "b": 1, "c": 1}, {"a": [1], "b": 1.0, "d": None}

    assert list(differences(one, other)) == [
        ("$.a[1]", 2, ...), ("$.b", 1, 1.0), ("$.c", 1, ...), ("$.d", ..., None),
    ]  # fmt: skip


def test_a_run_that_is_too_long_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    run = RecordedRun().update("weather", a=1).update("weather", a=2).update("weather", a=3)
    monkeypatch.setattr(run_steps, "MAX_STEPS", 2)
    reader = RunReader()

    assert len(reader.read(Tracer().trace(run.entries))) == 2
    assert reader.is_cut


def test_as_many_steps_as_possible_are_equal() -> None:
    chance = random.Random(1)
    for _ in range(300):
        a, b = ([chance.choice("abc") for _ in range(chance.randrange(10))] for _ in range(2))
        matches = Comparison()._matches(a, b)
        assert all(a[first] == b[second] for first, second in matches)
        assert len(matches) == _longest_length(a, b)


def _longest_length(a: Sequence[str], b: Sequence[str]) -> int:
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for row, one in enumerate(a):
        for column, other in enumerate(b):
            longest = max(table[row][column + 1], table[row + 1][column])
            table[row + 1][column + 1] = table[row][column] + 1 if one == other else longest
    return table[-1][-1]


def test_runs_that_differ_too_much_are_compared_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison_module, "MAX_EDITS", 4)
    one, other = RecordedRun(), RecordedRun()
    for number in range(30):
        one.update("weather", a=number)
        other.update("weather", a=number if number % 3 else -number)
    comparison = Comparison()
    pairs = list(comparison.compare(steps_of(one), steps_of(other)))

    assert comparison.is_approximate
    assert sum(pair.kind == "same" for pair in pairs) >= 20
    assert sum(pair.a is not None for pair in pairs) == sum(pair.b is not None for pair in pairs) == 30


def test_hostile_frames_do_not_end_the_comparison() -> None:
    deep = b"[" * 9000 + b"]" * 9000
    run = RecordedRun().raw("to_client", b'{"method":"session/update","params":' + deep + b"}")
    run.raw("to_client", b'{"method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk"}}}')
    run.raw("to_client", b'{"method":"session/update","params":{"update":5}}')
    nested: object = "x"
    for _ in range(150):
        nested = {"a": nested}
    run.frame("to_agent", method="_m", params=nested)

    assert changes(run, run, "$.zzz") == []
