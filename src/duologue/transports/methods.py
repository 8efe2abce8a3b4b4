"""The methods of the protocol that transports and relays must know to route a message."""

from __future__ import annotations

INITIALIZE = "initialize"
SESSION_LOAD = "session/load"

CREATE_SESSION = frozenset({"session/new", "session/fork"})
OPEN_SESSION = frozenset({SESSION_LOAD, "session/resume"})
END_SESSION = frozenset({"session/close", "session/delete"})
NEED_NO_OPEN_SESSION = OPEN_SESSION | {
    *("session/fork", "session/delete", "session/status"),
    *("session/archive", "session/unarchive", "session/set_title"),
}
