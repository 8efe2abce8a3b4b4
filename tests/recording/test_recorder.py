"""Recordings: complete, private, without secrets, and readable however they end."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from duologue.builtin.agent import builtin_agent
from duologue.client.connect import connect
from duologue.recording.reader import read_recording
from duologue.recording.recorder import MAX_WAITING_BYTES, Recorder
from duologue.recording.redaction import MASK, redact
from tests.client.scripted_agent import Json, ScriptedAgent, result, text_chunk


async def test_every_frame_of_a_conversation_is_recorded_in_order(tmp_path: Path) -> None:
    file = tmp_path / "run.acp"
    async with (
        asyncio.timeout(60),
        connect(builtin_agent(), record=file) as agent,
        agent.new_session(tmp_path) as session,
    ):
        await session.prompt("/stream 20")

    entries = list(read_recording(file))
    frames = [json.loads(bytes(entry.frame)) for entry in entries if isinstance(entry.frame, msgspec.Raw)]
    methods = [frame.get("method") for frame in frames if "method" in frame]
    assert methods[:2] == ["initialize", "session/new"]
    assert methods.count("session/update") >= 20
    assert [entry.t for entry in entries] == sorted(entry.t for entry in entries)
    assert {entry.dir for entry in entries} == {"to_agent", "to_client"}


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


def test_a_frame_that_is_not_json_is_recorded_as_text(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run.acp") as recorder:
        recorder("in", b"a banner \xff")
    (entry,) = read_recording(recorder.path)

    assert entry.text == "a banner �"


async def _conversation(cwd: Path, *observers: Recorder) -> tuple[list[Json], list[bytes]]:
    """Return all frames that the agent and the client received."""

    async def work(params: Json) -> Json:
        agent.update(*(text_chunk(f"{number} ") for number in range(500)))
        await agent.ask_permission({"toolCallId": "t", "title": "Look"})
        return result(stopReason="end_turn")

    agent = ScriptedAgent(prompt=work)
    events: list[bytes] = []
    async with asyncio.timeout(60), connect(agent, observers=observers) as remote, remote.new_session(cwd) as session:
        session.watch(lambda event: events.append(event.raw))
        await session.prompt("go")
    return agent.received, events


@pytest.mark.fault("LOG-06")
async def test_frames_are_the_same_with_a_failing_a_closed_and_no_recorder(tmp_path: Path) -> None:
    failing, closed, good = Recorder("/dev/full"), Recorder(tmp_path / "closed.acp"), Recorder(tmp_path / "run.acp")
    closed.close()
    alone = await _conversation(tmp_path)

    assert len(alone[1]) > 500
    for recorder in (failing, closed, good):
        assert await _conversation(tmp_path, recorder) == alone
        recorder.close()


FULL_FOR_A_WHILE = """
import asyncio, json, resource, sys
from duologue.builtin.agent import builtin_agent
from duologue.client.connect import connect
from duologue.recording.recorder import Recorder

async def main(path, place):
    recorder = Recorder(path)
    async with connect(builtin_agent(), observers=(recorder,)) as agent, agent.new_session(place) as session:
        said = [(await session.prompt("/echo former")).stop_reason]
        while b"stopReason" not in recorder.path.read_bytes():
            await asyncio.sleep(0.01)
        # The disk has room for some bytes more: in the middle of a line.
        resource.setrlimit(resource.RLIMIT_FSIZE, (recorder.path.stat().st_size + 50, resource.RLIM_INFINITY))
        said.append((await session.prompt("/stream 200")).stop_reason)
        while recorder.lost <= 200:
            await asyncio.sleep(0.01)
        if sys.argv[3] == "and free":
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        said.append((await session.prompt("/echo latter")).stop_reason)
    while recorder._waiting_bytes:
        await asyncio.sleep(0.01)
    if sys.argv[3] == "until the end":
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    recorder.close()
    recorder.close()
    print(json.dumps([said, recorder.lost]))

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


@pytest.mark.fault("LOG-01")
@pytest.mark.parametrize("how_long", ["and free", "until the end"])
async def test_on_a_full_disk_the_session_goes_on_and_the_recording_marks_its_gap(
    tmp_path: Path, how_long: str
) -> None:
    """A limit on the size of files fails as a full disk does: after a part of a line, and until there is room again."""
    file = tmp_path / "run.acp"
    command = [sys.executable, "-c", FULL_FOR_A_WHILE, str(file), str(tmp_path), how_long]
    ended = await asyncio.to_thread(subprocess.run, command, capture_output=True, timeout=60, check=True)
    text_chunk, lost = json.loads(ended.stdout)
    entries = list(read_recording(file))

    assert text_chunk == ["end_turn"] * 3
    assert [entry.gap for entry in entries if entry.gap] == [lost]
    assert lost > 200
    assert all(msgspec.json.decode(line) for line in file.read_bytes().splitlines())  # no line is a part of one
    texts = [bytes(entry.frame).decode() for entry in entries if isinstance(entry.frame, msgspec.Raw)]
    assert any("You said: former" in text for text in texts)
    assert any("You said: latter" in text for text in texts) == (how_long == "and free")


@pytest.mark.fault("LOG-01")
async def test_on_a_disk_that_takes_nothing_for_a_while_memory_is_bounded(tmp_path: Path) -> None:
    """A pipe that is not read is the slowest disk there is."""
    file = tmp_path / "slow.acp"
    os.mkfifo(file)
    disk = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    with Recorder(file) as recorder:
        async with (
            asyncio.timeout(60),
            connect(builtin_agent(), observers=(recorder,)) as agent,
            agent.new_session(tmp_path) as session,
        ):
            for _ in range(3):
                assert (await session.prompt("x" * 12 * 1024 * 1024)).stop_reason == "end_turn"
        lost, waiting = recorder.lost, recorder._waiting_bytes
        recorder("in", b'{"n":1}')
        written = asyncio.create_task(asyncio.to_thread(_drained, disk))
        await asyncio.to_thread(recorder.close)
    (tmp_path / "read.acp").write_bytes(await written)

    assert lost > 0
    assert waiting <= MAX_WAITING_BYTES + 13 * 1024 * 1024
    gaps = [entry.gap for entry in read_recording(tmp_path / "read.acp")]
    assert sum(gaps) == recorder.lost


def _drained(disk: int) -> bytes:
    """Return everything that is written until the writer closes the file."""
    os.set_blocking(disk, True)
    with open(disk, "rb") as file:
        return file.read()


def test_a_disk_that_is_full_from_the_start_disturbs_no_one() -> None:
    recorder = Recorder("/dev/full")
    for _ in range(3):
        recorder("in", b"{}")
    recorder.close()
    recorder.close()

    assert recorder.lost == 3


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
    with pytest.raises(FileExistsError, match="is not a recording"):
        Recorder(file)

    assert file.read_text() == "mine"
