"""Record the frames of each client that a relay or an agent serves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeAlias

from duologue.recording.recorder import Recorder
from duologue.transports.base import Servable, Transport, WrappedTransport

_log = logging.getLogger("duologue.relay")

OpenRecorder: TypeAlias = Callable[[], Recorder]


class RecordedRelay:
    """Serves another servable and records what passes, without ever waiting for the recorder.

    Args:
        servable: The agent or relay to serve.
        open_recorder: Returns the recorder for one client. If it raises `OSError`, the client is served unrecorded.
    """

    def __init__(self, servable: Servable, open_recorder: OpenRecorder) -> None:
        self._servable = servable
        self._open_recorder = open_recorder

    async def serve(self, transport: Transport) -> None:
        """Serve one client until it disconnects."""
        try:
            recorder = await asyncio.to_thread(self._open_recorder)
        except OSError as error:
            _log.error("a client is not recorded: %s", error)
            await self._servable.serve(transport)
            return
        try:
            await self._servable.serve(_RecordedTransport(transport, recorder))
        finally:
            await asyncio.to_thread(recorder.close)
            if recorder.lost:
                _log.warning("%s messages are missing from %s", f"{recorder.lost:,}", recorder.path)


class _RecordedTransport(WrappedTransport):
    """The transport to a client; all frames that pass are recorded."""

    def __init__(self, inner: Transport, recorder: Recorder) -> None:
        super().__init__(inner)
        self._recorder = recorder

    async def receive(self) -> list[bytes]:
        frames = await self._inner.receive()
        for frame in frames:
            self._recorder("to_agent", frame)
        return frames

    def send(self, frame: bytes) -> None:
        self._recorder("to_client", frame)
        self._inner.send(frame)

    def send_many(self, frames: list[bytes]) -> None:
        self._record(frames)
        self._inner.send_many(frames)

    def send_notifications(self, frames: list[bytes]) -> None:
        self._record(frames)
        self._inner.send_notifications(frames)

    def _record(self, frames: list[bytes]) -> None:
        for frame in frames:
            self._recorder("to_client", frame)
