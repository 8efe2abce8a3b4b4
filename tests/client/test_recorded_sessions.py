"""Recorded sessions have what their client received."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from duologue import Agent, Settings, Turn
from duologue.builtin.agent import builtin_agent
from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from duologue.client.recorded_sessions import recorded_sessions
from duologue.client.services.workspace import Workspace
from duologue.client.session import ClientSession
from duologue.conversation.items import Message, ToolCall
from duologue.recording.recorder import Recorder


def _seen(session: Any) -> list[object]:
    """Return the items without the ids that each side generates."""
    return [
        (item.role, item.text) if isinstance(item, Message) else (item.kind, item.title, item.status)
        for item in session.transcript.items
        if isinstance(item, Message | ToolCall)
    ]


async def test_every_session_is_there_as_its_client_saw_it(tmp_path: Path) -> None:
    live: list[ClientSession] = []
    async with (
        asyncio.timeout(60),
        connect(
            builtin_agent(),
            permissions=Permissions.allow_everything(),
            workspace=Workspace(tmp_path),
            record=tmp_path / "run.acp",
        ) as agent,
    ):
        for prompts in (("hello", "/tour", "/user-message an echo"), ("/title Two", "/write a.txt text", "/think")):
            live.append(await agent.new_session(tmp_path))
            for prompt in prompts:
                await live[-1].prompt(prompt)

    recorded = recorded_sessions(tmp_path / "run.acp")
    assert [session.session_id for session in recorded] == [session.id for session in live]
    assert [session.cwd for session in recorded] == [str(tmp_path)] * 2
    assert [_seen(session) for session in recorded] == [_seen(session) for session in live]
    assert [session.transcript.title for session in recorded] == [session.title for session in live]
    assert len(_seen(recorded[0])) > 5


async def test_version_2_is_read_as_well(tmp_path: Path) -> None:
    agent = Agent("both", version="1", settings=Settings, protocol_versions=(1, 2))

    @agent.on_prompt
    async def answer(turn: Turn[Settings]) -> None:
        async with turn.tool("Look", kind="search"):
            await turn.say(f"received {turn.text}")

    async with (
        asyncio.timeout(60),
        connect(agent, protocol_versions=(1, 2), record=tmp_path / "run.acp") as remote,
        remote.new_session(tmp_path) as session,
    ):
        assert remote._proxy.version == 2
        for prompt in ("one", "two"):
            await session.prompt(prompt)
        live = _seen(session)

    (recorded,) = recorded_sessions(tmp_path / "run.acp")
    assert _seen(recorded) == live
    assert live[0] == ("user", "one")


async def test_a_session_that_is_loaded_again_has_its_history_once(tmp_path: Path) -> None:
    async with asyncio.timeout(60), connect(builtin_agent(), record=tmp_path / "run.acp") as agent:
        session = await agent.new_session(tmp_path)
        await session.ask("hello")
        await session.aclose()
        loaded = await agent.load_session(session.id, tmp_path)
        await loaded.ask("/echo again")
        await loaded.aclose()
        resumed = await agent.resume_session(session.id, tmp_path)
        await resumed.ask("/echo and again")

    (recorded,) = recorded_sessions(tmp_path / "run.acp")
    texts = [item.text for item in recorded.transcript.items if isinstance(item, Message) and item.role == "user"]
    assert texts == ["hello", "/echo again", "/echo and again"]


def _frame(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode()


def test_frames_that_cannot_be_decoded_are_left_out(tmp_path: Path) -> None:
    text = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "received"}}
    with Recorder(tmp_path / "odd.acp") as recorder:
        recorder("in", b"a banner")
        recorder("in", b"[1]")
        recorder("in", _frame(id=9, result={"sessionId": "not requested"}))
        recorder("out", _frame(id=1, method="session/new", params={"cwd": 5}))
        recorder("out", _frame(id=2, method="session/new", params={"cwd": "/"}))
        recorder("in", _frame(id=2, error={"code": -32000, "message": "no"}))
        recorder("out", _frame(id=3, method="session/prompt", params={"sessionId": "s"}))
        recorder("in", _frame(method="session/update", params={"sessionId": "s", "update": text}))
        recorder("in", _frame(method="session/update", params=[1]))
        recorder("in", _frame(method="_else", params={}))
        recorder("in", _frame(method="session/update"))

    (session,) = recorded_sessions(tmp_path / "odd.acp")
    assert (session.session_id, _seen(session)) == ("s", [("agent", "received")])


def test_a_file_that_is_no_recording_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "else").write_text("{}\n")

    with pytest.raises(ValueError, match="not a recording"):
        recorded_sessions(tmp_path / "else")
