"""A turn of the coding agent can be cancelled in each phase, and the session goes on."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from duologue.client.permissions.request import PermissionRequest
from duologue.testing import ModelServer, ModelTurn, RequestPattern, tool_call
from tests.coder.client import User, coding

SLEEP = tool_call("run_command", command="echo started > pipe; sleep 600")

FIRST = {
    "before the answer": ModelTurn("never", hold_after=0),
    "in the answer": ModelTurn(["some ", "text"], hold_after=1),
    "in a question": ModelTurn(tools=[SLEEP]),
    "in a command": ModelTurn(tools=[SLEEP]),
    "in a subagent": ModelTurn(tools=[tool_call("delegate_task", agent_name="self", task="child task")]),
}


class SlowUser(User):
    """A user who does not answer."""

    def __init__(self, *, answers: bool) -> None:
        super().__init__()
        self.was_asked = asyncio.Event()
        self._answers = answers

    async def decide(self, request: PermissionRequest) -> None:
        self.was_asked.set()
        if not self._answers:
            await asyncio.Event().wait()
        request.allow()


@pytest.mark.parametrize("phase", FIRST)
async def test_cancelling_ends_the_turn_in_each_phase_and_the_session_goes_on(project: Path, phase: str) -> None:
    os.mkfifo(project / "pipe")
    user = SlowUser(answers=phase != "in a question")
    script = [
        FIRST[phase],
        ModelTurn("never", hold_after=0, when=RequestPattern(prompt="child task")),
        ModelTurn("Going on.", when=RequestPattern(prompt="go on")),
    ]
    async with asyncio.timeout(120), ModelServer(script) as server, coding(project, server, user) as session:
        async with session.prompt("begin") as turn:
            if phase == "in a question":
                await user.was_asked.wait()
            elif phase == "in a command":
                await asyncio.to_thread((project / "pipe").read_text)  # until the command writes to it
            else:
                await server.held()
            await turn.cancel()
            await turn
        assert turn.stop_reason == "cancelled"
        assert (await session.prompt("go on")).text == "Going on."
