"""A scripted agent: play the steps of a file, including faults, and fail if the client deviates from them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from duologue.errors import ConnectionLost
from duologue.testing.profiles.agent import QuirkyAgent
from duologue.testing.script import Script, Step, read_script
from duologue.testing.script_player import ScenarioFailed, ScriptPlayer, Side
from duologue.transports.base import Transport
from duologue.transports.stdio.stdio import StdioTransport

AGENT = Side(
    peer="client",
    answers={
        "initialize": {"result": {"protocolVersion": 1, "agentInfo": {"name": "scenario", "version": "1"}}},
        "session/new": {"result": {"sessionId": "scenario"}},
    },
)
"""The agent's side. Its answers let a script begin with the first prompt."""


class Scenario:
    """An agent that follows a script. It can be used wherever an agent can: `connect(Scenario("tea.toml"))`.

    Args:
        script: The script, or the path of its file.
    """

    def __init__(self, script: Script | str | Path) -> None:
        self._script = script if isinstance(script, Script) else read_script(Path(script))

    async def serve(self, transport: Transport) -> None:
        """Play the script for one client.

        Raises:
            ScenarioFailed: The client did something other than the script expects.
        """
        await self.play(transport)

    async def play(self, transport: Transport) -> Step | None:
        """Play the script for one client; return the step that ends the process, if there is one.

        Raises:
            ScenarioFailed: The client did something other than the script expects.
        """
        async with transport:
            return await ScriptPlayer(self._script, transport, AGENT).run()


def play(path: Path | None = None, *, profile: str | None = None) -> int:
    """Play a file, or the profile of a published agent, on stdio; block until the client disconnects.

    Args:
        path: File of a scenario.
        profile: Name of a profile instead, such as `gemini`.

    Returns:
        0 if the client followed the script, 1 if not, 2 if there is no such script or profile.
    """
    name = str(path) if profile is None else f"profile {profile}"
    try:
        agent = Scenario(path or Path()) if profile is None else QuirkyAgent(profile)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"duologue agent: {name}: {error}\n")
        return 2
    try:
        if isinstance(agent, QuirkyAgent):
            asyncio.run(agent.serve(StdioTransport()))
            return 0
        ending = asyncio.run(agent.play(StdioTransport()))
    except (ScenarioFailed, ConnectionLost) as error:
        sys.stderr.write(f"duologue agent: {name}: {error}\n")
        return 1
    return 0 if ending is None else _end(ending)


def _end(step: Step) -> int:
    """End the process as the script says, after the transport was closed; return the exit code."""
    if step.torn is not None:
        os.write(1, step.torn.encode())
    if step.end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if step.end == "close":
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 1)
        os.close(nowhere)
        while os.read(0, 65536):
            pass
    return step.end if isinstance(step.end, int) else 0
