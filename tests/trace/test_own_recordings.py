"""The rules against real conversations: the built-in agent and the client, each in its own process, break none."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

import pytest

from duologue import Permissions, Terminals, Workspace, connect
from duologue.errors import RequestError
from duologue.recording.reader import RecordingReader
from duologue.trace.validation import Validator, validate

COMMANDS = (
    "/tour", "/read a.txt 1 1", "/write b.txt hello", "/search hello", "/run echo hi", "/permission 2",
    "/think about it", "/plan", "/named-plan", "/usage", "/usage", "/notice warning", "/title new", "/links", "/meta",
    "/user-message me", "/image", "/resource", "/session", "/mode code", "/config", "/compact", "/compact fail",
    "/extension", "/subagent", "/session-message", "/commands", "/stream 20", "/tools 12", "/refuse", "/max-tokens",
    "/error 5", "/exception", "/ask form", "/withdraw 0",
)  # fmt: skip


@pytest.mark.parametrize("version", [1, 2])
async def test_the_built_in_agent_and_the_client_break_no_rule(version: int, tmp_path: Path) -> None:
    recording = tmp_path / "run.acp"
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("hello\nworld\n")
    command = [sys.executable, "-m", "duologue.cli.main", "agent", "--v2", "--sessions", str(tmp_path / "sessions")]
    async with (
        asyncio.timeout(300),
        connect(
            command, permissions=Permissions(edit="allow", execute="allow"), workspace=Workspace(project),
            terminals=Terminals(), record=recording, protocol_versions=(version,), unstable=True,
        ) as agent,
    ):  # fmt: skip
        session = await agent.new_session(project)
        for text in COMMANDS:
            with contextlib.suppress(RequestError):
                await session.prompt(text)
        turn = session.prompt("/cancel-me")
        async for _ in turn:
            await session.cancel()
        await session.aclose()
        async with agent.load_session(session.id, project) as loaded:
            await loaded.prompt("/hello")
        async with agent.resume_session(session.id, project) as resumed:
            await resumed.prompt("/hello")
        assert session.id in [each.session_id for each in await agent.list_sessions(cwd=project)]
        await agent.delete_session(session.id)
        await agent.delete_session(session.id)
        assert await agent.list_sessions() == []
    with RecordingReader(recording) as reader:
        validator = Validator()
        found = list(validate(reader, validator))

    assert [(finding.rule, finding.message, finding.path) for finding in found] == []
    assert len(validator.observed) > 50
