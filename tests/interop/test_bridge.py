"""Agents of another implementation through our bridge, as real processes: each version in the words of the other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from duologue import Permissions, connect
from duologue.errors import ResourceNotFound
from tests.cli.program import PROGRAM
from tests.interop.peers import TYPESCRIPT
from tests.interop.sdks import Sdk, install

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180, func_only=True)]

SECONDS = 50.0


@pytest.fixture(scope="module")
def typescript() -> Sdk:
    return install(TYPESCRIPT)


async def test_an_editor_of_version_1_uses_their_agent_of_version_2(typescript: Sdk, tmp_path: Path) -> None:
    command = [*PROGRAM, "connect", "--protocol", "v1", "--", *typescript.program("agent_v2")]
    async with (
        asyncio.timeout(SECONDS),
        connect(command, env=typescript.variables, permissions=Permissions(other="allow")) as agent,
        agent.new_session(tmp_path) as session,
    ):
        assert agent.version == 1
        for prompt, text in (("echo hello", "hello"), ("permission", "id-allow_once")):
            assert (await session.prompt(prompt)).text == text
        # Version 1 cannot replace a message: the new text is sent as another one.
        assert (await session.prompt("whole story")).text == "nostory"
        (call,) = (await session.prompt("tools")).tool_calls
        with pytest.raises(ResourceNotFound, match="gone"):
            await session.prompt("fail")
        await session.set_mode("code")
        assert session.modes is not None
        assert session.modes.current == "code"
        await session.aclose()
        again = await agent.load_session(session.id, tmp_path)

    assert (call.title, call.status, [change.path for change in call.changes]) == (
        "Edit",
        "completed",
        [str(tmp_path / "a.txt")],
    )
    assert "$ make\nout" in str(call.content).replace("\\n", "\n")
    assert [message.text for message in again.transcript.messages][:2] == ["echo hello", "hello"]


async def test_an_editor_of_version_2_uses_their_agent_of_version_1(typescript: Sdk, tmp_path: Path) -> None:
    command = [*PROGRAM, "connect", "--protocol", "v2", "--", *typescript.program("agent")]
    async with (
        asyncio.timeout(SECONDS),
        connect(command, env=typescript.variables, protocol_versions=(2,)) as agent,
        agent.new_session(tmp_path) as session,
    ):
        turn = await session.prompt("echo hello")

    assert (agent.version, turn.text, turn.stop_reason) == (2, "hello", "end_turn")
