"""Offer a remote agent as a local command: stdin goes to the agent and its output to stdout, byte for byte."""

from __future__ import annotations

from duologue.errors import DuologueError, InternalError, StartError
from duologue.relay.pump import FramePump, OpenProcess, reject_first_request, strip_newlines
from duologue.transports.base import Transport


class StdioProxy:
    """Connect a local client to an agent on another machine.

    Args:
        open_remote: Creates the transport to the agent; `serve` enters it.

    Attributes:
        failure: Why the agent could not be reached, or was lost; `None` if the client left first.
    """

    def __init__(self, open_remote: OpenProcess) -> None:
        self.failure: DuologueError | None = None
        self._open_remote = open_remote

    async def serve(self, transport: Transport) -> None:
        """Pass frames until the client or the agent ends; requests still open then are answered with an error."""
        async with transport:
            try:
                remote = self._open_remote()
                await remote.__aenter__()
            except StartError as error:
                self.failure = error
                await reject_first_request(transport, InternalError(str(error)))
                return
            pump = FramePump(transport, remote, to_client=strip_newlines)
            try:
                self.failure = await pump.run()
            finally:
                await remote.aclose()
            if self.failure is not None:
                pump.reject_unanswered(InternalError(f"the agent is lost: {self.failure}"))
