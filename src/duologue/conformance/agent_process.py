"""An agent's process whose stdin takes any bytes, whole messages or parts of them."""

from __future__ import annotations

from duologue.transports.process.process_tree import Process, find_by_marker
from duologue.transports.process.transport import ProcessTransport


class RawProcessTransport(ProcessTransport):
    """Frames to and from an agent, and bytes that are not frames."""

    def send_bytes(self, data: bytes) -> None:
        """Write bytes as they are; the caller adds line ends.

        Raises:
            ConnectionLost: The agent no longer reads.
        """
        self._flush_scheduled()
        self._write(data)

    def end_input(self) -> None:
        """Close the agent's stdin, as a client that vanishes does."""
        self._start_closing_writer()

    def left_behind(self) -> list[Process]:
        """Return the processes that the agent started, in any session or group, and that still run."""
        return [] if self._child is None else find_by_marker(self._child.token)
