"""Logs of other programs: files that these programs have made, and files that attack their reader."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import pytest

from duologue.trace.importers import foreign_log, python_sdk
from duologue.trace.importers.foreign_log import ForeignFrame, ForeignLog
from duologue.trace.importers.formats import FORMATS, format_of
from duologue.trace.importers.json_items import JsonItems

LOGS = Path(__file__).with_name("logs")
REAL = {
    "acpx-output.ndjson": "acpx",
    "acpx.stream.ndjson": "acpx",
    "python-sdk.jsonl": "python-sdk",
    "conductor.jsons": "conductor",
}
"""Files that the programs themselves have made, in a conversation with the built-in agent."""
GOLDEN = {"zed.json": "zed", "acp-devtools.json": "acp-devtools"}
"""Files written as the sources of the programs write them."""


def _read(path: Path, name: str) -> tuple[list[ForeignFrame], ForeignLog]:
    with ForeignLog(path) as log:
        return list(FORMATS[name].read(log)), log


def _methods(frames: Iterable[ForeignFrame]) -> list[tuple[str, str]]:
    return [(each.dir, json.loads(each.data).get("method", "response")) for each in frames if each.dir]


@pytest.mark.parametrize(("name", "format_name"), [*REAL.items(), *GOLDEN.items()])
def test_the_format_of_a_file_is_recognized(name: str, format_name: str) -> None:
    with ForeignLog(LOGS / name) as log:
        assert format_of(log) == format_name


@pytest.mark.parametrize(("name", "format_name"), REAL.items())
def test_a_conversation_is_read_from_a_file_of_the_real_program(name: str, format_name: str) -> None:
    frames, log = _read(LOGS / name, format_name)
    methods = _methods(frames)

    assert (log.left_out, log.problems) == (0, [])
    sent = [method for direction, method in methods if direction == "to_agent"]
    assert sent[:3] in (["initialize", opened, "session/prompt"] for opened in ("session/new", "session/resume"))
    assert methods.count(("to_client", "response")) == len(sent)
    assert "You said: hello there" in b"".join(each.data for each in frames).decode()


def test_a_log_of_zed_has_requests_responses_errors_and_stderr() -> None:
    frames, log = _read(LOGS / "zed.json", "zed")

    assert (len(frames), log.left_out) == (7, 0)
    assert frames[2] == ForeignFrame(0.0, "", b'loading } "[{ ]\n')
    assert frames[4].dir == "to_client"
    assert json.loads(frames[4].data)["error"]["code"] == -32000
    assert json.loads(frames[6].data) == {"jsonrpc": "2.0", "id": "b", "result": None}
    assert "id" not in json.loads(frames[5].data)


def test_an_export_of_acp_devtools_has_times_the_agent_and_lines_that_are_not_json() -> None:
    frames, log = _read(LOGS / "acp-devtools.json", "acp-devtools")

    assert [(each.t, each.dir) for each in frames] == [(0.002, "to_agent"), (0.503, "to_client"), (1.002, "to_client")]
    assert frames[1].data == b"Loading ..."
    assert (log.agent, log.started) == (["my-agent", "--acp"], 1781267481.029)


def test_messages_of_the_agent_of_a_conductor_are_imported_without_proxies_and_mcp(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsons"
    event: dict[str, object] = {"ts": 1.5, "protocol": "acp", "method": "m", "params": {}}
    events: list[dict[str, object]] = [
        {"type": "request", **event, "from": "Client", "to": "Proxy(0)", "id": "a"},
        {"type": "request", **event, "from": "Proxy(0)", "to": "Agent", "id": "b"},
        {"type": "request", **event, "from": "Agent", "to": "Proxy(0)", "id": "c", "protocol": "mcp"},
        {"type": "response", "ts": 1.6, "from": "Proxy(0)", "to": "Agent", "id": "c", "is_error": False, "payload": 1},
        {"type": "response", "ts": 1.7, "from": "Agent", "to": "Proxy(0)", "id": "b", "is_error": True, "payload": {}},
        {"type": "notification", **event, "from": "Agent", "to": "Proxy(0)", "params": None},
    ]
    path.write_text("".join(json.dumps(each) + "\n" for each in events))
    frames, log = _read(path, "conductor")

    assert log.left_out == 0
    assert [(each.t, each.dir, json.loads(each.data)) for each in frames] == [
        (1.5, "to_agent", {"jsonrpc": "2.0", "id": "b", "method": "m", "params": {}}),
        (1.7, "to_client", {"jsonrpc": "2.0", "id": "b", "error": {}}),
        (1.5, "to_client", {"jsonrpc": "2.0", "method": "m"}),
    ]


def test_the_side_of_an_observer_is_known_from_its_first_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "events.jsonl"
    first = {"direction": "incoming", "message": {"method": "_unknown"}}
    prompt = {"direction": "incoming", "message": {"id": 1, "method": "session/prompt"}}
    path.write_text("".join(json.dumps(each) + "\n" for each in (first, prompt, {**first, "direction": "outgoing"})))
    assert [each.dir for each in _read(path, "python-sdk")[0]] == ["to_agent", "to_agent", "to_client"]

    monkeypatch.setattr(python_sdk, "MAX_UNDECIDED", 1)
    assert [each.dir for each in _read(path, "python-sdk")[0]] == ["to_client", "to_client", "to_agent"]
    path.write_text(json.dumps(first) + "\n")
    monkeypatch.undo()
    assert [each.dir for each in _read(path, "python-sdk")[0]] == ["to_client"]


def test_messages_of_acpx_whose_receiver_is_not_known_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "x.stream.ndjson"
    lines = [
        '{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{}}',
        '{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{}}',
        '{"jsonrpc":"2.0","id":1,"result":{"outcome":{}}}',
        '{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}',
        '{"jsonrpc":"2.0","id":1,"result":{}}',
        '{"jsonrpc":"2.0","method":"_unknown"}',
    ]
    path.write_text("\n".join(lines))
    frames, log = _read(path, "acpx")

    assert [each.dir for each in frames] == ["to_agent", "to_client", "to_agent", "to_client"]
    assert log.problems == [
        "line 5: nothing says who receives the response 1",
        "line 6: nothing says who receives the method '_unknown'",
    ]


HOSTILE = {
    "acpx": b'{"jsonrpc":"2.0","id":1,"method":"initialize"}\n',
    "conductor": b'{"type":"request","ts":1,"protocol":"acp","from":"Client","to":"Agent","id":1,"method":"m"}\n',
    "python-sdk": b'{"direction":"outgoing","message":{"id":1,"method":"initialize"}}\n',
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(
    "line",
    [b"not JSON", b"[]", b"5", b'{"type":5,"direction":[],"method":{}}', b'{"direction":"outgoing","method":1}',
     b"\xff\xfe", b'{"params":' + b"[" * 100_000, b"{" * 100_000],
)  # fmt: skip
def test_a_wrong_line_is_left_out_with_its_number(tmp_path: Path, name: str, line: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(HOSTILE[name] + line + b"\n" + b"\n" + HOSTILE[name])
    frames, log = _read(path, name)

    assert (len(frames), log.left_out) == (2, 1)
    assert log.problems[0].startswith("line 2: not ")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_line_that_is_too_long_is_left_out(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_log, "MAX_LINE_BYTES", 1000)
    path = tmp_path / "log"
    path.write_bytes(HOSTILE[name] + b"x" * 5000 + b"\n" + HOSTILE[name])
    frames, log = _read(path, name)

    assert len(frames) == 2
    assert log.problems == ["line 2: longer than 1,000 bytes"]


@pytest.mark.parametrize(("name", "format_name"), GOLDEN.items())
def test_wrong_items_of_a_document_are_left_out_with_their_lines(tmp_path: Path, name: str, format_name: str) -> None:
    text = (LOGS / name).read_text()
    where = text.index("{\n", text.index("["))
    path = tmp_path / "log"
    path.write_text(text[:where] + '{"seq": "x"},\n{"_direction": 5, "params": {}},\n' + text[where:] + " ")
    frames, log = _read(path, format_name)

    assert frames
    assert log.left_out == 2
    assert all(problem.startswith("line ") for problem in log.problems)
    path.write_text(text[: len(text) // 2])
    assert _read(path, format_name)[1].problems[-1].endswith("the file ends in the middle of its JSON")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the format is not one of zed, acp-devtools"),
        ("hello\n", "the format is not one of"),
        ('{"duologue":"recording","version":2}\n', "it is a recording already"),
    ],
)
def test_a_file_of_no_known_format_is_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "log").write_text(text)
    with ForeignLog(tmp_path / "log") as log, pytest.raises(ValueError, match=why):
        format_of(log)


@pytest.mark.parametrize(
    ("text", "why"),
    [('{"version": 2, "exportedAt": 1, "session": {}, "messages": []}', "an export of version 2"),
     ('{"version": 1, "exportedAt": 1, "session": 5, "messages": []}', "not an export"),
     ('{"version": 1, "exportedAt": 1}', "not an export")],
)  # fmt: skip
def test_an_export_of_another_version_is_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "log").write_text(text)
    with pytest.raises(ValueError, match=f"line 1: {why}"):
        _read(tmp_path / "log", "acp-devtools")


def test_an_agent_command_that_no_shell_reads_is_imported_as_one_word(tmp_path: Path) -> None:
    text = (LOGS / "acp-devtools.json").read_text().replace("my-agent --acp", "my-agent 'x")
    (tmp_path / "log").write_text(text)

    assert _read(tmp_path / "log", "acp-devtools")[1].agent == ["my-agent 'x"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_items_do_not_depend_on_where_a_document_is_cut(size: int) -> None:
    text = b'{"a": {"b": [1]}, "x": [\n {"s": "a\\"}{[\\\\"},\n [{}], {"t": [{"u": {}}]}, 5, "}"\n]}'
    items = JsonItems(2, 1000)
    found = [item for start in range(0, len(text), size) for item in items.add(text[start : start + size])]

    assert found == [(2, b'{"s": "a\\"}{[\\\\"}'), (3, b'{"t": [{"u": {}}]}')]
    assert items.is_at_end
    long = JsonItems(1, 10)
    assert [*long.add(b'[{"a": "long'), *long.add(b' enough"},\n{}]')] == [(1, None), (2, b"{}")]


@pytest.mark.parametrize("byte", [b"[", b"{", b'"', b"]", b"\\", b"[{"])
def test_a_document_of_endless_brackets_needs_little_memory(tmp_path: Path, byte: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'[{"_direction": "incoming"},' + byte * (1 << 17))
    tracemalloc.start()
    try:
        with ForeignLog(path) as log:
            assert list(FORMATS["zed"].read(log)) == []
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()
    assert len(log.problems) <= foreign_log.MAX_PROBLEMS
