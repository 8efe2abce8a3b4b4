"""An agent that plays a recording."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from duologue.errors import DuologueError
from duologue.testing.playback import Playback
from duologue.trace.replay.agent_player import TIMEOUT_SECONDS, AgentPlayer
from duologue.trace.replay.difference import CHANGING
from duologue.trace.replay.script import read_script
from duologue.transports.base import Transport


class ReplayFailed(DuologueError):
    """A client sent something other than the recorded client did; the message says what."""


class ReplayAgent:
    """An agent that plays a recording to each client; `replay_agent` makes one.

    Attributes:
        notes: Sentences about what cannot be replayed.
    """

    def __init__(
        self,
        recording: str | Path,
        *,
        strict: bool = False,
        speed: float | None = None,
        timeout: float = TIMEOUT_SECONDS,
        ignore: Sequence[str] = (),
        keep_paths: bool = False,
    ) -> None:
        self._script = read_script(recording, is_first_only=strict)
        self.notes = self._script.notes
        self._strict = strict
        self._speed = speed
        self._timeout = timeout
        self._ignored = (*CHANGING, *ignore)
        self._keep_paths = keep_paths

    async def serve(self, transport: Transport) -> None:
        """Play the recording to one client, from the beginning, until it disconnects.

        Raises:
            ReplayFailed: The playback is strict, and the client deviates from the recording.
        """
        player = AgentPlayer(
            self._script,
            is_strict=self._strict,
            speed=self._speed,
            timeout=self._timeout,
            ignored=self._ignored,
            keeps_paths=self._keep_paths,
        )
        async with transport:
            await Playback(player, transport).run()
        if player.failure:
            raise ReplayFailed(player.failure)


def replay_agent(
    recording: str | Path,
    *,
    strict: bool = False,
    speed: float | None = None,
    timeout: float = TIMEOUT_SECONDS,
    ignore: Sequence[str] = (),
    keep_paths: bool = False,
) -> ReplayAgent:
    """Return an agent that plays a recording; it can be used wherever an agent can: `connect(replay_agent("run.acp"))`.

    Ids of requests, sessions and terminals are adapted to the client, as are paths inside the working directory.

    Args:
        recording: The file, as `tap`, `--record` and `connect(record=...)` write it.
        strict: Fail at the first message that the recorded client did not send. Otherwise prompts are matched by their
            text, or in order, and what was not recorded is answered as well as possible.
        speed: Factor of the recorded speed, such as 1.0. Default: as fast as the client reads.
        timeout: Seconds to wait for a response of the client, and the longest pause that is repeated.
        ignore: Members, or paths such as `$.params.prompt*`, that a strict playback does not compare.
        keep_paths: Send the recorded paths, although the client's working directory is another one.

    Raises:
        ValueError: The file is not a recording, is too large, or was written by a newer duologue.
        OSError: The file cannot be read.
    """
    return ReplayAgent(recording, strict=strict, speed=speed, timeout=timeout, ignore=ignore, keep_paths=keep_paths)
