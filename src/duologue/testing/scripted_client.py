"""A scripted client: play the steps of a file to an agent, and fail if the agent deviates from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from msgspec import Struct

from duologue.client.target import AgentTarget, TargetOptions
from duologue.conversation.content import JsonObject
from duologue.errors import ConnectionLost
from duologue.testing.message_log import LoggedFrame
from duologue.testing.script import Script, Step, read_script
from duologue.testing.script_player import ScenarioFailed, ScriptPlayer, Side
from duologue.testing.targets import TestTarget, absolute, as_target

CLIENT = Side(peer="agent", ignore=("session/update",), within=60.0, is_strict=True)
"""The client's side. An agent may send updates at any time, and one that does not answer must not hang a test."""

SETUP = (
    Step(
        send={
            "id": "setup-1",
            "method": "initialize",
            "params": {
                "protocolVersion": 1,
                "clientInfo": {"name": "scripted-client", "version": "1"},
                "clientCapabilities": {},
            },
        }
    ),
    Step(expect={"id": "setup-1", "result": "*"}, capture={"agent": "result"}),
    Step(send={"id": "setup-2", "method": "session/new", "params": {"cwd": "$cwd", "mcpServers": []}}),
    Step(expect={"id": "setup-2", "result": "*"}, capture={"session": "result.sessionId"}),
)
"""The steps before those of a script that does not begin with `initialize`."""


class ClientRun(Struct, frozen=True, kw_only=True):
    """A script that an agent followed to its end.

    Attributes:
        frames: All messages, in order.
        variables: The values of the script's variables.
    """

    frames: list[LoggedFrame]
    variables: dict[str, Any]

    @property
    def received(self) -> list[JsonObject]:
        """The messages of the agent."""
        messages = (each.message for each in self.frames if each.direction == "received")
        return [message for message in messages if isinstance(message, dict)]

    def __str__(self) -> str:
        return "\n".join(map(str, self.frames))


class ScriptedClient:
    """A client that follows a script, for tests of any agent: `await ScriptedClient("tea.toml").run("my-agent")`.

    Args:
        script: The script, the path of its file, or its steps.
        variables: Values in place of those in the script's `variables`.

    Raises:
        ValueError: The file is not a script, or is one for an agent only.
        OSError: The file cannot be read.
    """

    def __init__(
        self, script: Script | str | Path | Sequence[Step], variables: Mapping[str, Any] | None = None
    ) -> None:
        if isinstance(script, str | Path):
            script = read_script(Path(script))
        elif not isinstance(script, Script):
            script = Script(step=list(script))
        if script.loop:
            raise ValueError("`loop` is for the script of an agent; a client ends after its last step")
        if any(step.torn is not None for step in script.step):
            raise ValueError(
                "`torn` is for the script of an agent; `FaultPlan(end_after=…, is_torn=True)` ends a client so"
            )
        self._script = script
        self._variables = dict(variables or {})

    async def run(self, target: TestTarget, **options: Unpack[TargetOptions]) -> ClientRun:
        """Start or reach an agent, play the script to it, and end the connection.

        Args:
            target: An `Agent`, a function or class as in `duologue.run`, a command, a URL, or another target of
                `connect`.
            options: `cwd` is the working directory, `$cwd` in the script (default: the current directory); `env`,
                `headers`, `token`, `tls`, `lock` and `on_stderr` are those of `connect`.

        Raises:
            ScenarioFailed: The agent did something other than the script expects. Its notes have the messages.
            StartError: The agent cannot be started or reached.
        """
        cwd = options["cwd"] = absolute(options.get("cwd"))
        reached = AgentTarget(as_target(target), **options)
        await reached.prepare()
        try:
            async with reached.open() as transport:
                player = ScriptPlayer(self._script, transport, CLIENT, {"cwd": str(cwd), **self._variables})
                try:
                    await self._play(player)
                except ScenarioFailed as error:
                    reached.add_stderr_to(error)
                    error.add_note(str(player.log))
                    raise
        finally:
            await reached.aclose()
        return ClientRun(frames=list(player.log), variables=player.values)

    async def _play(self, player: ScriptPlayer) -> None:
        try:
            if self._script.setup and not self._script.sends("initialize"):
                await player.play(SETUP, "setup")
            await player.play(self._script.step)
        except ConnectionLost as error:
            raise ScenarioFailed(f"the agent disconnected: {error}") from error


async def drive(
    target: TestTarget,
    script: Script | str | Path | Sequence[Step],
    *,
    variables: Mapping[str, Any] | None = None,
    **options: Unpack[TargetOptions],
) -> ClientRun:
    """Play a script of a client to an agent; the same as `ScriptedClient(script, variables).run(target)`.

    Args:
        target: An `Agent`, a function or class as in `duologue.run`, a command, a URL, or another target of `connect`.
        script: The script, the path of its file, or its steps.
        variables: Values in place of those in the script's `variables`.
        options: Those of `ScriptedClient.run`.

    Raises:
        ScenarioFailed: The agent did something other than the script expects.
        StartError: The agent cannot be started or reached.
        ValueError: The file is not a script, or is one for an agent only.
        OSError: The file cannot be read.
    """
    return await ScriptedClient(script, variables).run(target, **options)
