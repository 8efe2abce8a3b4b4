"""A transport for peers that use an older dialect."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from duologue.compat.dialects import Dialect
from duologue.compat.normaliser import Normaliser
from duologue.transports.base import Servable, Transport, WrappedTransport

DirectoryOf: TypeAlias = Callable[[str], Awaitable[str | None]]


class NormalisedTransport(WrappedTransport):
    """Rewrites the frames of another transport, which it opens and closes.

    Args:
        inner: The transport to the peer; not entered yet.
        normaliser: Rewrites the frames; it must not be used for another connection, because it remembers requests.
        cwd_of: Returns the directory of a session that is loaded without one; without it the normaliser decides.
    """

    def __init__(self, inner: Transport, normaliser: Normaliser, cwd_of: DirectoryOf | None = None) -> None:
        super().__init__(inner)
        self._normaliser = normaliser
        self._cwd_of = cwd_of

    async def receive(self) -> list[bytes]:
        while arrived := await self._inner.receive():
            # An empty message leaves no frame, and an empty list would mean the end.
            if frames := [frame for one in arrived for frame in await self._incoming(one)]:
                return frames
        return []

    async def _incoming(self, frame: bytes) -> list[bytes]:
        session_id = None if self._cwd_of is None else self._normaliser.session_without_cwd(frame)
        if self._cwd_of is not None and session_id is not None:
            cwd = await self._cwd_of(session_id)
            if cwd is not None:
                self._normaliser.set_cwd(session_id, cwd)
        return self._normaliser.incoming(frame)

    def send(self, frame: bytes) -> None:
        for written in self._normaliser.outgoing(frame):
            self._inner.send(written)


class DialectAdapter:
    """Serves an agent or a relay to clients that use an older dialect.

    Args:
        served: The agent or relay, which uses today's form.
        dialect: The dialect of the clients.
        default_cwd: The directory of sessions that they load without one.
    """

    def __init__(self, served: Servable, dialect: Dialect, *, default_cwd: str | None = None) -> None:
        self._served = served
        self._dialect: Dialect = dialect
        self._default_cwd = default_cwd

    async def serve(self, transport: Transport) -> None:
        """Serve one client until it disconnects."""
        normaliser = Normaliser(self._dialect, "agent", default_cwd=self._default_cwd)
        await self._served.serve(NormalisedTransport(transport, normaliser))


def open_with_dialect(open_agent: Callable[[], Transport], dialect: Dialect | None) -> Callable[[], Transport]:
    """Return a function that opens the same transport, with the rewrites of a dialect if one is named."""
    if dialect is None:
        return open_agent
    return lambda: NormalisedTransport(open_agent(), Normaliser(dialect, "client"))
