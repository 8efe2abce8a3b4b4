"""The parts of a connection that only the packages above `runtime` use."""

from __future__ import annotations

from typing import TypeVar

from duologue.errors import RequestError
from duologue.jsonrpc.peer import Peer
from duologue.runtime.dispatcher import Dispatcher
from duologue.runtime.incoming_requests import IncomingRequests
from duologue.runtime.text_template import TextTemplate
from duologue.runtime.unread_bytes import UnreadBytes
from duologue.runtime.writer import FrameWriter
from duologue.schema.base import Notification

P = TypeVar("P")


class ConnectionInternals:
    """Methods of a connection for `protocol`, `agent` and `client`, not part of its public API.

    Attributes:
        unread: Counts the bytes that wait for readers; they count against `max_incoming_bytes`.
    """

    def __init__(
        self,
        peer: Peer,
        dispatcher: Dispatcher,
        requests: IncomingRequests,
        unread: UnreadBytes,
        writer: FrameWriter,
    ) -> None:
        self.unread = unread
        self._writer = writer
        self._peer = peer
        self._dispatcher = dispatcher
        self._requests = requests

    def allow_reinitialize(self) -> None:
        """Accept the first request once more, until another request arrives."""
        self._peer.repeats_first = True

    def is_opening(self, session_id: str | None) -> bool:
        """Return True if a request of ours may be about to open this session: its notifications are buffered."""
        return self._dispatcher.is_opening(session_id)

    def text_template(self, notification: Notification[P], params: P) -> TextTemplate:
        """Return a sender of this notification with changing texts, in place of `PLACEHOLDER` in its parameters."""
        return TextTemplate(self._writer, notification, params)

    def release_positions(self, session_id: str) -> None:
        """Let requests of this session stop waiting for earlier notifications, because its turn is being cancelled."""
        self._requests.release_positions("the turn was cancelled", session_id)

    def error_for(self, raised: BaseException, method: str) -> RequestError:
        """Return the error to send for an exception that ended work requested by `method`."""
        return self._requests.error_for(raised, method)
