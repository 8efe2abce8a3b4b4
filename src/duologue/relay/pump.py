"""Pass frames between a client and an agent, and answer the client's open requests when the agent ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from duologue.errors import AgentExited, ConnectionLost, DuologueError, RequestError
from duologue.jsonrpc.codec import PLAIN_NOTIFICATION, are_notifications, serialize_error
from duologue.jsonrpc.envelope import PendingRequests, read_envelope
from duologue.transports.base import Transport
from duologue.transports.offload import run_offloaded

OpenProcess: TypeAlias = Callable[[], Transport]
"""Create the transport to a new agent; the caller enters it."""

Convert: TypeAlias = Callable[[bytes], bytes]

END_SECONDS = 2.0
"""Between a failed write and the end of the same peer's output, which says why it ended."""


class FramePump:
    """Pass frames between one client and its agent until one of them ends.

    Args:
        client: The client's transport, already entered.
        agent: The agent's transport, already entered.
        to_agent: Converts each frame of the client.
        to_client: Converts each frame of the agent.
    """

    def __init__(
        self,
        client: Transport,
        agent: Transport,
        *,
        to_agent: Convert | None = None,
        to_client: Convert | None = None,
    ) -> None:
        self._client = client
        self._agent = agent
        self._to_agent = to_agent
        self._to_client = to_client
        self._unanswered: PendingRequests[None] = PendingRequests()

    async def run(self) -> DuologueError | None:
        """Pass frames both ways; return why the agent ended, or `None` if the client left first."""
        self._agent.on_frames = self._on_agent_frames
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._pass_to_agent()), group.create_task(self._pass_to_client())]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            ends = [task.result() for task in tasks if task.done()]
            self._agent.on_frames = None
            for task in tasks:
                task.cancel()
        return None if None in ends else ends[0]

    async def _pass_to_agent(self) -> DuologueError | None:
        try:
            while frames := await self._client.receive():
                if (lost := await self._send_to_agent(frames)) is not None:
                    await asyncio.sleep(END_SECONDS)  # until the other direction reports why the agent ended
                    return lost
        except ConnectionLost:
            pass
        return None

    async def _send_to_agent(self, frames: list[bytes]) -> ConnectionLost | None:
        agent = self._agent
        try:
            for frame in frames:
                envelope = await run_offloaded(read_envelope, frame)
                if envelope is not None and (id := envelope.request_id) is not None:
                    self._unanswered.add(id, None)
                agent.send(frame if self._to_agent is None else self._to_agent(frame))
            if agent.is_congested:
                await agent.drain()
        except ConnectionLost as lost:
            return lost
        return None

    async def _pass_to_client(self) -> DuologueError | None:
        client = self._client
        while True:
            try:
                frames = await self._agent.receive()
            except DuologueError as error:
                return error
            if not frames:
                return ConnectionLost("it closed its output")
            try:
                self._send_to_client(frames)
                if client.is_congested:
                    await client.drain()
            except ConnectionLost:
                await asyncio.sleep(END_SECONDS)  # what the client sent before it left still reaches the agent
                return None

    def _on_agent_frames(self, frames: list[bytes]) -> bool:
        """Pass frames on the moment they arrive; a client that is congested or gone is left to `_pass_to_client`."""
        if self._client.is_congested:
            return False
        try:
            self._send_to_client(frames)
        except ConnectionLost:
            return False
        return True

    def _send_to_client(self, frames: list[bytes]) -> None:
        convert = self._to_client
        converted = frames if convert is None else [convert(each) for each in frames]
        # A frame that begins with a method is no response: most updates need not be parsed.
        if are_notifications(converted):
            self._client.send_notifications(converted)
            return
        for frame in [each for each in frames if not each.startswith(PLAIN_NOTIFICATION)]:
            envelope = read_envelope(frame)
            if envelope is not None and (id := envelope.response_id) is not None:
                self._unanswered.answered(id)
        self._client.send_many(converted)

    def reject_unanswered(self, error: RequestError) -> None:
        """Answer every request of the client that is still open with `error`."""
        try:
            for id in self._unanswered.ids():
                self._client.send(serialize_error(id, error))
        except ConnectionLost:
            pass


def strip_newlines(frame: bytes) -> bytes:
    """Replace line ends by spaces, for a peer that reads one message per line; in JSON both are whitespace."""
    if b"\n" in frame or b"\r" in frame:
        return frame.replace(b"\n", b" ").replace(b"\r", b" ")
    return frame


def describe_failure(failure: DuologueError | None) -> str:
    """Say why an agent ended, without its stderr, which belongs into the log of this machine."""
    if failure is None:
        return "it closed its output"
    return str(failure).partition("\n")[0] if isinstance(failure, AgentExited) else str(failure)


async def reject_first_request(client: Transport, error: RequestError) -> None:
    """Answer the client's first request with `error`, and return."""
    while frames := await client.receive():
        for frame in frames:
            envelope = read_envelope(frame)
            if envelope is not None and (id := envelope.request_id) is not None:
                client.send(serialize_error(id, error))
                return
