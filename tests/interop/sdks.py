"""The other implementations: what they are called, how their programs are started, and what those programs saw."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, cast

import pytest

from tests.interop import peers

Json: TypeAlias = dict[str, Any]

BUILTIN = (sys.executable, "-m", "duologue.cli.main", "agent")


class Sdk(peers.ForeignPeer):
    """One SDK, installed."""

    def lacks(self, *names: str, what: str) -> None:
        """Skip where the SDKs of these names cannot play along."""
        if self.name in names:
            pytest.skip(f"{self.name} {what}")


def install(name: str, *, is_remote: bool = False) -> Sdk:
    """Return an SDK by name, from the registries or an earlier run; skip the test if it is not available.

    Args:
        name: Which one.
        is_remote: With what its ways over the network need.
    """
    try:
        peer = peers.install(name, is_remote=is_remote)
    except peers.Absent as reason:
        pytest.skip(f"{name}: {reason}")
    return Sdk(peer.name, peer.start, peer.variables)


@dataclass(frozen=True)
class Step:
    """The result of one step of a client."""

    result: Json = field(default_factory=dict[str, Any])
    error: Json | None = None
    updates: list[Json] = field(default_factory=list[Json])

    @property
    def text(self) -> str:
        """The agent's text."""
        return "".join(each["content"]["text"] for each in self.of("agent_message_chunk"))

    @property
    def parts(self) -> list[Json]:
        """The content of the tool calls: text, diffs, terminals."""
        shown: list[Json] = []
        for update in [*self.of("tool_call"), *self.of("tool_call_update")]:
            shown += update.get("content") or []
        return shown

    def of(self, kind: str) -> list[Json]:
        """Return the updates of one kind."""
        return [each for each in self.updates if each["sessionUpdate"] == kind]


@dataclass(frozen=True)
class Seen:
    """The results of all steps of a client."""

    steps: list[Step]
    asked: list[Json]

    @property
    def last(self) -> Step:
        return self.steps[-1]

    def requests(self, method: str) -> list[Json]:
        """Return the params of the agent's requests with this method."""
        return [each["params"] for each in self.asked if each["method"] == method]


class Player:
    """One SDK's client, a process that plays one play after the other: starting it is what takes longest."""

    def __init__(self, sdk: Sdk) -> None:
        self._sdk = sdk
        self._process: subprocess.Popen[bytes] | None = None

    def play(self, play: Json) -> Json:
        """Play steps; return the results. A client that failed or hung is started again for the next play."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        answer = b""
        try:
            process.stdin.write(json.dumps(play).encode() + b"\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        finally:
            if not answer:
                self.close()
        assert answer, "the client exited in the middle of a play; see its stderr"
        return cast(Json, json.loads(answer))

    def close(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._sdk.program("client"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **self._sdk.variables},
        )


@dataclass(frozen=True)
class SdkClient:
    """One SDK's client in front of our built-in agent: its real process, or wherever else it can be reached."""

    sdk: Sdk
    player: Player
    folder: Path
    address: Json = field(default_factory=dict[str, Any])
    """`url` and `headers`, if it is on the network."""
    command: Sequence[str] = ()
    """The agent, if it is not the built-in one."""

    def play(
        self,
        *steps: Sequence[Any],
        answers: Json | None = None,
        capabilities: Json | None = None,
        options: Sequence[str] = (),
    ) -> Seen:
        """Let the client initialize, open a session and do these steps: a verb and its arguments each."""
        return self.play_exactly(
            ["initialize"], ["new"], *steps, answers=answers, capabilities=capabilities, options=options
        )

    def play_exactly(
        self,
        *steps: Sequence[Any],
        answers: Json | None = None,
        capabilities: Json | None = None,
        options: Sequence[str] = (),
    ) -> Seen:
        """Let the client do these steps and no others."""
        store = str(self.folder / "kept")
        play: Json = {
            "cwd": str(self.cwd),
            "steps": steps,
            "capabilities": capabilities or {},
            "answers": answers or {},
            "command": self.command or [*BUILTIN, "--sessions", store, *options],
            **self.address,
        }
        seen = self.player.play(play)
        return Seen([Step(**each) for each in seen["steps"]], seen["asked"])

    @property
    def cwd(self) -> Path:
        """The session's directory."""
        return self.folder / "project"
