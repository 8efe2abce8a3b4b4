"""Recordings of the built-in agent are replayed to our client, and to the agent itself."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from duologue.agent.agent import Agent
from duologue.agent.turn import Turn
from duologue.builtin.agent import builtin_agent
from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from duologue.client.services.terminals import Terminals
from duologue.client.services.workspace import Workspace
from duologue.client.target import Target
from duologue.errors import DuologueError
from duologue.recording.format import Entry, Header, encode_line
from duologue.recording.reader import read_recording
from duologue.testing import ReplayFailed, replay_agent, replay_client
from duologue.transports.base import Transport
from duologue.transports.memory import MemoryTransport, memory_pair
from tests.trace.conversations import Conversation, tour

BUILTIN = [sys.executable, "-m", "duologue.cli.main", "agent", "--v2"]
SECONDS = 60.0


def make_directory(path: Path) -> None:
    path.mkdir(exist_ok=True)


async def converse(
    target: Target, cwd: Path, version: int, record: Path | None = None, prompt: str = "/tour"
) -> list[Any]:
    """Hold the conversation of these tests; return what was seen of it."""
    make_directory(cwd)
    rules = Permissions(read="allow", edit="allow", execute="allow")
    async with (
        asyncio.timeout(SECONDS),
        connect(
            target,
            permissions=rules,
            workspace=Workspace(cwd),
            terminals=Terminals(),
            protocol_versions=(version,),
            record=record,
        ) as agent,
        agent.new_session(cwd) as session,
    ):
        turn = await session.prompt(prompt)
        return [turn.stop_reason, turn.text, [(call.title, call.kind, call.status) for call in turn.tool_calls]]


@pytest.fixture(params=[1, 2])
async def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, int, list[Any]]:
    """Record the tour of the built-in agent; return the file, the protocol version, and what the client saw."""
    file = tmp_path / "run.acp"
    return file, request.param, await converse(BUILTIN, tmp_path / "first", request.param, file)


@pytest.mark.parametrize("is_strict", [False, True])
async def test_our_client_sees_the_same_again(
    recorded: tuple[Path, int, list[Any]], tmp_path: Path, is_strict: bool
) -> None:
    file, version, seen = recorded
    agent = replay_agent(file, strict=is_strict)

    assert agent.notes == []
    assert await converse(agent, tmp_path / "second", version) == seen
    assert await converse(agent, tmp_path / "third", version) == seen


async def test_the_agent_does_the_same_again(recorded: tuple[Path, int, list[Any]], tmp_path: Path) -> None:
    file, _, _ = recorded
    make_directory(tmp_path / "again")
    report = await replay_client(file, BUILTIN, compare="text", cwd=tmp_path / "again", timeout=SECONDS)

    report.assert_same()
    assert (report.requests, report.notes) == (4, [])


async def test_a_changed_agent_deviates_exactly_where_it_was_changed(tmp_path: Path) -> None:
    agent = Agent("looker")

    @agent.on_prompt
    async def look(turn: Turn) -> None:
        async with turn.tool("Look", kind="read"):
            await turn.say("Found.")

    await converse(agent, tmp_path, 1, tmp_path / "run.acp", prompt="look")
    (await replay_client(tmp_path / "run.acp", agent, cwd=tmp_path, timeout=SECONDS)).assert_same()

    other = Agent("looker", version="2.0")

    @other.on_prompt
    async def answer(turn: Turn) -> str:
        async with turn.tool("Look", kind="search"):
            await turn.say("Other words, which do not count.")
        return "refusal"

    report = await replay_client(tmp_path / "run.acp", other, cwd=tmp_path, timeout=SECONDS)
    assert [str(each).split(": ", 1)[1] for each in report.deviations] == [
        "different actions\n  - tool call (read): completed\n  + tool call (search): completed",
        'different result at $.result.stopReason\n  - "end_turn"\n  + "refusal"',
    ]


async def test_an_agent_that_cannot_be_started_or_ends_is_reported(tmp_path: Path) -> None:
    write(tmp_path / "run.acp", tour().entries)
    report = await replay_client(tmp_path / "run.acp", [sys.executable, "-c", "raise SystemExit(3)"], cwd=tmp_path)

    assert "exited with code 3" in report.deviations[-1].received
    with pytest.raises(DuologueError):
        await replay_client(tmp_path / "run.acp", ["no-such-program-anywhere"], cwd=tmp_path)


async def test_a_client_that_deviates_fails_a_strict_replay(tmp_path: Path) -> None:
    write(tmp_path / "run.acp", tour().entries)
    near, far = memory_pair()
    serving = asyncio.ensure_future(replay_agent(tmp_path / "run.acp", strict=True).serve(far))
    async with asyncio.timeout(SECONDS), near:
        near.send(b'{"jsonrpc":"2.0","id":7,"method":"session/new","params":{}}')
        (answer,) = await near.receive()
        with pytest.raises(ReplayFailed, match=r"frame 1: expected the request initialize \(frame 1\)"):
            await serving
    assert msgspec.json.decode(answer)["id"] == 7


def write(path: Path, entries: list[Entry]) -> None:
    """Write a recording."""
    header = Header(duologue="recording", version=2, started="2026-01-01T00:00:00+00:00")
    path.write_bytes(b"".join(encode_line(line) + b"\n" for line in (header, *entries)))


class CountedTransport(MemoryTransport):
    """A transport that notes how many bytes have waited to be read."""

    most = 0

    def send(self, frame: bytes) -> None:
        super().send(frame)
        self.most = max(self.most, self.pending_bytes)


async def test_20_000_updates_wait_for_a_slow_reader_in_bounded_memory(tmp_path: Path) -> None:
    made = Conversation().open().prompt("go", 3)
    for _ in range(20_000):
        made.say("word")
    write(tmp_path / "run.acp", made.respond(3, {"stopReason": "end_turn"}).entries)
    near, far = CountedTransport(20_000), CountedTransport(20_000)
    near._other, far._other = far, near
    serving = asyncio.ensure_future(replay_agent(tmp_path / "run.acp").serve(far))
    count = 0
    async with asyncio.timeout(SECONDS), near:
        near.send(bytes(made.entries[0].frame))  # type: ignore[arg-type]
        near.send(bytes(made.entries[4].frame))  # type: ignore[arg-type]
        while count < 20_002:
            frames = await near.receive()
            assert frames
            count += len(frames)
            await asyncio.sleep(0)
    await serving
    assert far.most < 30_000


async def test_a_client_that_does_not_read_ends_the_replay(tmp_path: Path) -> None:
    made = Conversation().open().prompt("go", 3)
    for _ in range(1000):
        made.say("word" * 100)
    write(tmp_path / "run.acp", made.entries)
    near, far = memory_pair(10_000)
    async with asyncio.timeout(SECONDS):
        near.send(bytes(made.entries[4].frame))  # type: ignore[arg-type]
        await replay_agent(tmp_path / "run.acp", timeout=0.2).serve(far)


@pytest.mark.parametrize("is_strict", [False, True])
async def test_more_requests_at_once_than_responses_may_wait_are_all_answered(tmp_path: Path, is_strict: bool) -> None:
    write(tmp_path / "run.acp", tour().entries)
    near, far = memory_pair(100 << 20)
    for number in range(5000):
        near.send(b'{"jsonrpc":"2.0","id":%d,"method":"unknown/method"}' % number)
    serving = asyncio.ensure_future(replay_agent(tmp_path / "run.acp", strict=is_strict).serve(far))
    count = 0
    async with asyncio.timeout(SECONDS), near:
        while count < (1 if is_strict else 5000):
            count += len(await near.receive())
    await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.parametrize("depth", [90, 110, 400, 990, 5000])
async def test_deeply_nested_messages_are_replayed_or_left_out(tmp_path: Path, depth: int) -> None:
    nested = Raw(b"[" * depth + b"]" * depth)
    made = Conversation().open().prompt("go", 3).update("tool_call", toolCallId="a", title="x", rawInput=nested)
    made.request("fs/read_text_file", 1, {"content": nested}, path=nested).respond(3, {"stopReason": nested})
    write(tmp_path / "run.acp", made.entries)
    async with asyncio.timeout(SECONDS):
        await replay_client(tmp_path / "run.acp", replay_agent(tmp_path / "run.acp"), compare="text", timeout=0.5)
        agent = replay_agent(tmp_path / "run.acp", strict=True, timeout=0.5)
        await replay_client(tmp_path / "run.acp", agent, compare="text", timeout=0.5)


@pytest.mark.parametrize("is_strict", [False, True])
async def test_both_sides_of_a_recording_replay_each_other(
    recorded: tuple[Path, int, list[Any]], tmp_path: Path, is_strict: bool
) -> None:
    file, _, _ = recorded
    agent = replay_agent(file, strict=is_strict)

    (await replay_client(file, agent, compare="text", cwd=tmp_path, timeout=SECONDS)).assert_same()


class Silent:
    """An agent that never answers."""

    async def serve(self, transport: Transport) -> None:
        async with transport:
            while await transport.receive():
                pass


async def test_an_agent_that_never_answers_ends_the_replay(tmp_path: Path) -> None:
    write(tmp_path / "run.acp", tour().entries)
    report = await replay_client(tmp_path / "run.acp", Silent(), cwd=tmp_path, timeout=0.2)

    assert [each.received for each in report.deviations] == ["no response to initialize within 0.2 s"]


@pytest.mark.parametrize("seed", range(20))
async def test_a_damaged_recording_is_replayed_as_far_as_it_goes(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    write(tmp_path / "whole.acp", tour().entries)
    header, *lines = (tmp_path / "whole.acp").read_bytes().splitlines()
    for _ in range(8):
        number = chance.randrange(len(lines))
        line = bytearray(lines[number])
        match chance.randrange(5):
            case 0:
                line[chance.randrange(len(line))] = chance.randrange(256)
            case 1:
                line = line[: chance.randrange(len(line))]
            case 2:
                lines.insert(chance.randrange(len(lines)), lines[number])
            case 3:
                del lines[number]
                continue
            case _:
                line = line.replace(b"to_client", b"to_agent") if b"to_client" in line else line.replace(b"1", b"null")
        lines[number] = bytes(line)
    (tmp_path / "run.acp").write_bytes(b"\n".join([header, *lines]) + b"\n")

    async with asyncio.timeout(SECONDS):
        for is_strict in (False, True):
            agent = replay_agent(tmp_path / "run.acp", strict=is_strict, timeout=0.3)
            near, far = memory_pair()
            serving = asyncio.ensure_future(agent.serve(far))
            async with near:
                for entry in read_recording(tmp_path / "whole.acp"):
                    if entry.dir == "to_agent":
                        near.send(bytes(entry.frame))  # type: ignore[arg-type]
                while not serving.done():
                    receiving = asyncio.ensure_future(near.receive())
                    await asyncio.wait([serving, receiving], timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
                    if not receiving.done() or not receiving.result():
                        receiving.cancel()
                        break
            await asyncio.gather(serving, return_exceptions=True)
        await replay_client(tmp_path / "run.acp", builtin_agent(), cwd=tmp_path, timeout=0.3)


def test_a_file_that_is_no_recording_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.acp").write_text("{}")

    with pytest.raises(ValueError, match=r"run\.acp is not a recording"):
        replay_agent(tmp_path / "run.acp")
    with pytest.raises(FileNotFoundError):
        replay_agent(tmp_path / "missing.acp")


def test_a_damaged_line_is_mentioned(tmp_path: Path) -> None:
    write(tmp_path / "run.acp", tour().entries)
    with (tmp_path / "run.acp").open("ab") as file:
        file.write(b"{broken\n")

    assert replay_agent(tmp_path / "run.acp").notes == ["lines left out because they are damaged: 1"]
