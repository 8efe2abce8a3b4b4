"""Recordings: complete, private, without secrets, and readable however they end."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path

import msgspec
import pytest

from duologue.builtin.agent import builtin_agent
from duologue.client.connect import connect
from duologue.trace.reader import read_recording
from duologue.trace.recorder import Recorder
from duologue.trace.redaction import MASK, redact
from tests.client.scripted import Json, ScriptedAgent, result, said


async def test_every_frame_of_a_conversation_is_recorded_in_order(tmp_path: Path) -> None:
    file = tmp_path / "run.acp"
    async with asyncio.timeout(10), connect(builtin_agent(), record=file) as agent, agent.session(tmp_path) as session:
        await session.prompt("/stream 20")

    entries = list(read_recording(file))
    frames = [json.loads(bytes(entry.frame)) for entry in entries if isinstance(entry.frame, msgspec.Raw)]
    methods = [frame.get("method") for frame in frames if "method" in frame]
    assert methods[:2] == ["initialize", "session/new"]
    assert methods.count("session/update") >= 20
    assert [entry.t for entry in entries] == sorted(entry.t for entry in entries)
    assert {entry.dir for entry in entries} == {"in", "out"}


@pytest.mark.fault("LOG-08")
def test_only_the_owner_may_read_a_recording(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run.acp") as recorder:
        assert stat.S_IMODE(recorder.path.stat().st_mode) == 0o600


@pytest.mark.fault("LOG-02")
def test_a_recording_cut_at_any_byte_is_readable_up_to_the_cut(tmp_path: Path) -> None:
    file = tmp_path / "run.acp"
    with Recorder(file) as recorder:
        for number in range(5):
            recorder("in", json.dumps({"jsonrpc": "2.0", "method": "m", "params": {"n": number, "é": "ü"}}).encode())
    whole = file.read_bytes()
    head = whole.index(b"\n") + 1
    for cut in range(head, len(whole)):
        file.write_bytes(whole[:cut])
        assert len(list(read_recording(file))) in (whole[:cut].count(b"\n") - 1, whole[:cut].count(b"\n"))
    file.write_bytes(whole[: head // 2])
    with pytest.raises(ValueError, match="not a recording"):
        list(read_recording(file))


@pytest.mark.fault("LOG-03")
def test_secrets_never_reach_the_file(tmp_path: Path) -> None:
    secrets = [f"canary-{number:04}" for number in range(10)]
    frames: list[dict[str, object]] = [
        {"method": "authenticate", "params": {"methodId": "key", "credentials": {"apiKey": secrets[0]}}},
        {"params": {"mcpServers": [{"name": "s", "env": [{"name": "K", "value": secrets[1]}]}]}},
        {"params": {"mcpServers": [{"name": "s", "headers": [{"name": "Authorization", "value": secrets[2]}]}]}},
        {"params": {"env": {"K": secrets[3]}}},
        {"result": {"access_token": secrets[4], "password": secrets[5]}},
        {"params": {"url": f"https://example.com/x?token={secrets[6]}&a=1"}},
        {"params": {"text": f"Authorization: Bearer {secrets[7]}"}},
        {"params": {"text": f"my key is sk-{secrets[8]}"}},
        {"error": {"data": {"cookie": secrets[9]}}},
    ]
    with Recorder(tmp_path / "run.acp") as recorder:
        for frame in frames:
            recorder("out", json.dumps({"jsonrpc": "2.0", **frame}).encode())
    written = recorder.path.read_text()

    assert [secret for secret in secrets if secret in written] == []
    assert "https://example.com/x?token=" in written
    assert redact({"usage": {"totalTokens": 5}, "sessionId": "s"}) == {"usage": {"totalTokens": 5}, "sessionId": "s"}
    assert MASK in written


def test_what_is_not_json_is_kept_as_text(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run.acp") as recorder:
        recorder("in", b"a banner \xff")
    (entry,) = read_recording(recorder.path)

    assert entry.text == "a banner �"


async def _conversation(place: Path, *taps: Recorder) -> tuple[list[Json], list[bytes]]:
    """All that the agent heard, and all that its client did."""

    async def work(params: Json) -> Json:
        agent.update(*(said(f"{number} ") for number in range(500)))
        await agent.ask_permission({"toolCallId": "t", "title": "Look"})
        return result(stopReason="end_turn")

    agent = ScriptedAgent(prompt=work)
    heard: list[bytes] = []
    async with asyncio.timeout(10), connect(agent, taps=taps) as remote, remote.session(place) as session:
        session.watch(lambda event: heard.append(event.raw))
        await session.prompt("go")
    return agent.heard, heard


@pytest.mark.fault("LOG-06")
async def test_what_passes_is_the_same_with_a_recorder_that_fails_or_is_closed_and_without_one(tmp_path: Path) -> None:
    failing, closed, good = Recorder("/dev/full"), Recorder(tmp_path / "closed.acp"), Recorder(tmp_path / "run.acp")
    closed.close()
    alone = await _conversation(tmp_path)

    assert len(alone[1]) > 500
    for recorder in (failing, closed, good):
        assert await _conversation(tmp_path, recorder) == alone
        recorder.close()


@pytest.mark.fault("LOG-01")
async def test_a_recorder_that_cannot_write_marks_a_gap_and_disturbs_nobody(tmp_path: Path) -> None:
    recorder = Recorder("/dev/full")
    async with (
        asyncio.timeout(10),
        connect(builtin_agent(), taps=(recorder,)) as agent,
        agent.session(tmp_path) as session,
    ):
        assert (await session.prompt("hello")).stop_reason == "end_turn"
    recorder.close()
    recorder.close()

    assert recorder.lost > 0


def test_a_recording_that_was_cut_off_can_be_gone_on_with(tmp_path: Path) -> None:
    file = tmp_path / "run.acp"
    for number in range(3):
        with Recorder(file) as recorder:
            recorder("in", json.dumps({"n": number, "text": "long enough to be cut"}).encode())
        file.write_bytes(file.read_bytes()[:-10] if number == 1 else file.read_bytes())

    assert [json.loads(bytes(entry.frame))["n"] for entry in read_recording(file) if entry.frame] == [0, 2]


@pytest.mark.fault("STO-04")
def test_a_last_line_without_its_end_is_kept_and_so_is_what_is_recorded_after_it(tmp_path: Path) -> None:
    """The one thing kept in lines is a recording; the store is a database."""
    file = tmp_path / "run.acp"
    with Recorder(file) as recorder:
        recorder("out", b'{"a":1}')
    file.write_bytes(file.read_bytes().removesuffix(b"\n"))
    assert [bytes(entry.frame or b"") for entry in read_recording(file)] == [b'{"a":1}']

    with Recorder(file) as recorder:
        recorder("in", b'{"a":2}')
    assert [bytes(entry.frame or b"") for entry in read_recording(file)] == [b'{"a":1}', b'{"a":2}']


def test_no_other_file_is_appended_to(tmp_path: Path) -> None:
    file = tmp_path / "notes.md"
    file.write_text("mine")
    with pytest.raises(FileExistsError, match="which is no recording"):
        Recorder(file)

    assert file.read_text() == "mine"
