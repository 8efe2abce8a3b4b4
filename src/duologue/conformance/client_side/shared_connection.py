"""The connection of a client that a person uses: it stays open, and each of its prompts serves another case."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from duologue.conformance.client_side.played_agent import OPENING, PlayedAgent
from duologue.conformance.wire_log import ConnectionLog, WireLog

SETUP = ("initialize", *OPENING)


class _Envelope(Struct):
    id: int | str | None = None
    method: str = ""


class SharedConnection:
    """A connection that several cases use, one after the other.

    Attributes:
        agent: The agent of the connection; None if there is no connection.
    """

    def __init__(self) -> None:
        self.agent: PlayedAgent | None = None
        self._log: ConnectionLog | None = None

    @property
    def is_open(self) -> bool:
        """True if the client is connected."""
        return self.agent is not None and not self.agent.peer.ended.is_set()

    def keep(self, agent: PlayedAgent, log: ConnectionLog) -> None:
        """Keep a connection, entered, for the next cases."""
        self.agent = agent
        self._log = log

    def use(self, log: WireLog) -> PlayedAgent:
        """Return the agent, whose messages go to the log of another case, after those that set up the sessions."""
        assert self.agent is not None
        assert self._log is not None
        new = log.connect()
        ids: list[object] = []
        for frame in self._log.frames():
            direction, raw = frame.entry.dir, frame.entry.frame
            if frame.is_deliberate or not direction or not isinstance(raw, Raw):
                continue
            message = _envelope(bytes(raw))
            if direction == "to_agent" and message.method in SETUP:
                ids.append(message.id)
            elif direction == "to_agent" or message.method or message.id not in ids:
                continue
            new.add(direction, bytes(raw))
        self._log = new
        self.agent.peer.log_to(new)
        return self.agent

    async def aclose(self) -> None:
        """End the connection, as an agent that exits does."""
        if self.agent is not None:
            agent, self.agent = self.agent, None
            await agent.peer.__aexit__()


def _envelope(frame: bytes) -> _Envelope:
    try:
        return msgspec.json.decode(frame, type=_Envelope)
    except msgspec.MsgspecError:
        return _Envelope()
