"""Every limit of the server, with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from duologue.jsonrpc.framing import MAX_MESSAGE_BYTES
from duologue.transports.buffered import READ_AHEAD, WRITE_AHEAD
from duologue.transports.resume.protocol import (
    ACKNOWLEDGE_BYTES,
    ACKNOWLEDGE_FRAMES,
    ACKNOWLEDGE_SECONDS,
    GRACE_SECONDS,
    WINDOW_BYTES,
    WINDOW_FRAMES,
)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of one server, one connection and one message.

    Attributes:
        message_bytes: Longest message in either direction: a large file fits, as on stdio.
        queued_bytes: Output that waits for one client; more ends its connection.
        write_ahead: Output that waits for one client before the agent has to wait, too: enough to keep a reader busy.
        read_ahead: Input that waits for the agent before the server stops reading from the client.
        window_bytes: Output kept for a client that may reconnect and request it again.
        window_frames: The same in messages.
        requests: Unanswered requests of one client; one more is answered with "busy".
        sessions: Sessions of one HTTP connection: more than a person opens in a week.
        streams: Event streams of one HTTP connection; an editor has a few sessions open.
        name_chars: Length of connection and session ids in headers.
        connections: Clients at the same time; each has an agent.
        init_seconds: From the first byte to an answered `initialize`.
        body_seconds: For one POST to arrive.
        stall_seconds: A client that reads nothing for this long is disconnected.
        keepalive_seconds: Between two comments on a silent event stream; proxies cut streams silent for a minute.
        grace_seconds: How long an agent continues for a disconnected client that may resume.
        idle_seconds: How long a connection may stay open without a message or a running request; `None` is unlimited.
        header_bytes: Headers of one request, with its URL.
        failures_per_minute: Wrong tokens from one address before its next ones are checked slowly.
        check_seconds: Between two checks of such an address.
        checks_at_once: Concurrent checks for one address, where `authenticate` takes its time.
        checks_waiting: Checks of one address that wait for their turn; one more is answered with 429.
        acknowledge_frames: Messages received before the server acknowledges them.
        acknowledge_bytes: The same in bytes.
        acknowledge_seconds: The same in time.
    """

    message_bytes: int = MAX_MESSAGE_BYTES
    queued_bytes: int = 64 * 1024 * 1024
    write_ahead: int = WRITE_AHEAD
    read_ahead: int = READ_AHEAD
    window_bytes: int = WINDOW_BYTES
    window_frames: int = WINDOW_FRAMES
    requests: int = 1024
    sessions: int = 10_000
    streams: int = 1024
    name_chars: int = 1024
    connections: int = 10_000
    init_seconds: float = 30.0
    body_seconds: float = 60.0
    stall_seconds: float = 60.0
    keepalive_seconds: float = 15.0
    grace_seconds: float = GRACE_SECONDS
    idle_seconds: float | None = None
    header_bytes: int = 64 * 1024
    failures_per_minute: int = 10
    check_seconds: float = 1.0
    checks_at_once: int = 4
    checks_waiting: int = 30
    acknowledge_frames: int = ACKNOWLEDGE_FRAMES
    acknowledge_bytes: int = ACKNOWLEDGE_BYTES
    acknowledge_seconds: float = ACKNOWLEDGE_SECONDS
