"""Start one agent process for each client, and pass frames between the two unchanged."""

from __future__ import annotations

import logging
import time

from duologue.errors import InternalError, StartError
from duologue.relay.backoff import RestartBackoff
from duologue.relay.pump import FramePump, OpenProcess, describe_failure, reject_first_request, strip_newlines
from duologue.transports.base import Transport

_log = logging.getLogger("duologue.relay")


class ProcessRelay:
    """Serve a command that speaks ACP on its stdin and stdout. The agent reads exactly what its client writes.

    Args:
        open_process: Creates the transport to a new agent process.
        backoff: Limits how often an agent that crashes is started again.
    """

    def __init__(self, open_process: OpenProcess, backoff: RestartBackoff | None = None) -> None:
        self._open_process = open_process
        self._backoff = backoff or RestartBackoff()

    async def serve(self, transport: Transport) -> None:
        """Start an agent for this client, and pass frames until one of them ends."""
        async with transport:
            try:
                self._backoff.check()
                process = self._open_process()
                await process.__aenter__()
            except StartError as error:
                _log.error("no agent for a client: %s", error)
                await reject_first_request(transport, InternalError(f"no agent: {error}"))
                return
            began = time.monotonic()
            pump = FramePump(transport, process, to_agent=strip_newlines)
            try:
                failure = await pump.run()
            finally:
                await process.aclose()
            self._backoff.ended(time.monotonic() - began, has_failed=failure is not None)
            if failure is not None:
                reason = describe_failure(failure)
                _log.error("an agent ended before its client: %s", reason)
                pump.reject_unanswered(InternalError(f"the agent is gone: {reason}"))
