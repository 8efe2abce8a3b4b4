"""Every bound of the server, with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from duologue.jsonrpc.framing import MAX_MESSAGE_BYTES
from duologue.jsonrpc.peer import MAX_PENDING

__all__ = ["Limits"]

MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one server, one connection and one message may take.

    Attributes:
        message_bytes: Longest message either way: a large file fits, as on stdio.
        queued_bytes: Output that waits for one client; more ends its connection.
        write_ahead: Output that waits before the agent is asked to wait, too: enough to keep a reader busy.
        read_ahead: Input that waits before no more is read from the client.
        window_bytes: Output kept for a client that may come back and ask for it again.
        window_frames: The same in messages.
        requests: Of one client that the agent has not answered; one more is answered with "busy".
        sessions: Of one HTTP connection: more than a person opens in a week.
        streams: Event streams of one HTTP connection; an editor has a few sessions open.
        name_chars: Of connection and session ids in headers.
        connections: Clients at once; each has an agent.
        init_seconds: From the first byte to an answered `initialize`.
        body_seconds: For one POST to arrive.
        stall_seconds: A client that takes nothing for a minute is gone, whatever the network says.
        keepalive_seconds: Between signs of life on an event stream; proxies cut what is silent for a minute.
        grace_seconds: How long an agent goes on for a client that was cut off and may come back.
        idle_seconds: How long a connection may rest without any message or running request; `None` is for ever.
        header_bytes: Of one request, with its address.
        failures_per_minute: Wrong tokens from one address before its next ones are checked slowly.
        check_seconds: Between two checks then.
        checks_at_once: Of tokens of one address, where `authenticate` takes its time.
        checks_waiting: Checks of one address that wait for their turn; one more is answered with 429.
        acknowledge_frames: Messages received before we say so.
        acknowledge_bytes: The same in bytes.
        acknowledge_seconds: The same in time.
    """

    message_bytes: int = MAX_MESSAGE_BYTES
    queued_bytes: int = 64 * MIB
    write_ahead: int = 256 * 1024
    read_ahead: int = MIB
    window_bytes: int = 4 * MIB
    window_frames: int = 10_000
    requests: int = MAX_PENDING
    sessions: int = 10_000
    streams: int = 1024
    name_chars: int = 1024
    connections: int = 10_000
    init_seconds: float = 30.0
    body_seconds: float = 60.0
    stall_seconds: float = 60.0
    keepalive_seconds: float = 15.0
    grace_seconds: float = 120.0
    idle_seconds: float | None = None
    header_bytes: int = 64 * 1024
    failures_per_minute: int = 10
    check_seconds: float = 1.0
    checks_at_once: int = 4
    checks_waiting: int = 30
    acknowledge_frames: int = 64
    acknowledge_bytes: int = 256 * 1024
    acknowledge_seconds: float = 5.0
