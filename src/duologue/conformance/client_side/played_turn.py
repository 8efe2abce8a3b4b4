"""A turn that the checker plays for a client: what an agent does in it, in either version of the protocol."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

from duologue.conformance.case import NotProvoked
from duologue.conformance.client_side.played_agent import PlayedAgent
from duologue.conformance.raw_peer import Json, RawPeer, ReceivedMessage

OPTIONS: tuple[Json, ...] = (
    {"optionId": "no-2", "name": "Never", "kind": "reject_always"},
    {"optionId": "yes-2", "name": "Always", "kind": "allow_always"},
    {"optionId": "no-1", "name": "No", "kind": "reject_once"},
    {"optionId": "yes-1", "name": "Yes", "kind": "allow_once"},
)
"""Options of a permission request, in an order that no client may rely on."""


class CheckedTurn:
    """A prompt of the client, and the turn that answers it.

    Args:
        agent: The agent of the connection.
        prompt: The prompt.

    Attributes:
        session: Id of the session.
        is_ended: True once the agent has ended the turn.
    """

    def __init__(self, agent: PlayedAgent, prompt: ReceivedMessage) -> None:
        self.agent = agent
        self.prompt = prompt
        self.session = str(prompt.params.get("sessionId", ""))
        self.is_ended = False
        self._tools = 0

    @property
    def peer(self) -> RawPeer:
        """The connection."""
        return self.agent.peer

    def update(self, kind: str, /, **fields: Any) -> int:
        """Send a session update; return the number of the message."""
        return self.agent.update(self.session, kind, **fields)

    def update_invalid(self, kind: str, /, **fields: Any) -> int:
        """Send a session update that breaks the protocol on purpose."""
        params = {"sessionId": self.session, "update": {"sessionUpdate": kind, **fields}}
        return self.peer.send_invalid({"method": "session/update", "params": params})

    def say(self, text: str) -> int:
        """Send a chunk of the agent's message."""
        return self.agent.say(self.session, text)

    def end(self, stop_reason: str = "end_turn") -> None:
        """End the turn."""
        self.is_ended = True
        self.agent.end_turn(self.prompt, stop_reason)

    # Requests

    def begin_tool(self) -> str:
        """Announce a new tool call; return its id."""
        self._tools += 1
        tool = f"tool-{self.prompt.number}-{self._tools}"
        kind = "tool_call" if self.agent.version == 1 else "tool_call_update"
        self.update(kind, toolCallId=tool, title="Search the project", kind="search", status="pending")
        return tool

    def permission(self) -> Json:
        """Announce a tool call, and return the params of a request for its permission."""
        call = {"toolCallId": self.begin_tool(), "title": "Search the project", "kind": "search"}
        params: Json = {"sessionId": self.session, "options": list(OPTIONS)}
        if self.agent.version == 1:
            return {**params, "toolCall": call}
        return {**params, "title": "Search the project", "subject": {"type": "tool_call", "toolCall": call}}

    def ask_permission(self) -> int:
        """Ask for permission without waiting; return the id of the request."""
        return self.peer.start_request("session/request_permission", self.permission())

    async def answer(self, method: str, **params: Any) -> ReceivedMessage:
        """Send a request about the session and return its response.

        Raises:
            PeerFailed: There is none in time.
        """
        return await self.peer.request(method, {"sessionId": self.session, **params})

    @contextlib.contextmanager
    def directory(self) -> Generator[Path]:
        """Make a directory inside the working directory of the session; it is deleted with the block.

        Raises:
            NotProvoked: The session has no working directory that can be used.
        """
        cwd = self.agent.cwd(self.session)
        try:
            path = Path(tempfile.mkdtemp(prefix="duologue-check-", dir=cwd or None))
        except OSError as error:
            raise NotProvoked(f"cannot write to the working directory of the session: {error}") from None
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
