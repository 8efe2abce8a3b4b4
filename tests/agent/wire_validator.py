"""Validate everything that an agent writes: the official schema, and the rules that hold for every message."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from tests.schema.official import UNSTABLE, Official

V1, V2 = UNSTABLE["v1"], UNSTABLE["v2"]

LEGACY_FIELDS = {"models"}
"""Written for clients that know models as the schema of October 2025 had them; today's schema does not know them."""

MAX_CHECKED = 400
"""Messages of one connection that are held against the schema; a stream of more says nothing new."""


@cache
def definitions(official: Official = V1) -> dict[tuple[str, str], str]:
    """Return the definition of each message by its method and kind: `request`, `response` or `notification`."""
    found: dict[tuple[str, str], str] = {}
    for name, definition in official.document["$defs"].items():
        method = definition.get("x-method")
        for kind in ("Request", "Response", "Notification"):
            if method is not None and name.endswith(kind):
                found[method, kind.lower()] = name
    return found


def methods_of(side: str, kind: str = "", official: Official = V1) -> set[str]:
    """Return the names of all messages that one side handles."""
    return {
        method
        for (method, which), name in definitions(official).items()
        if official.document["$defs"][name]["x-side"] == side and which != "response" and kind in ("", which)
    }


class WireValidator:
    """Checks every frame at the client's end of a connection against the schema.

    Args:
        official: The schema of the version that is spoken.

    Attributes:
        wire: Every message in order, with its direction: `in` is from the agent.
        complaints: Violations. An exception in an observer is ignored, so the test has to check this list.
    """

    def __init__(self, official: Official = V1) -> None:
        self._official = official
        self.complaints: list[str] = []
        self.wire: list[tuple[str, dict[str, Any]]] = []
        self._asked: dict[Any, str] = {}
        self._answered: set[Any] = set()
        self._checked = 0

    def __call__(self, direction: str, frame: bytes) -> None:
        try:
            self._see(direction, frame)
        except (AssertionError, ValueError, KeyError) as wrong:
            self.complaints.append(f"{type(wrong).__name__}: {wrong} in {frame[:300]!r}")

    def _see(self, direction: str, frame: bytes) -> None:
        message: dict[str, Any] = json.loads(frame.decode("utf-8"))
        self.wire.append((direction, message))
        if direction == "out" and "method" in message and "id" in message:
            self._asked[message["id"]] = message["method"]
        if direction == "in":
            self._check(frame, message)

    def _check(self, frame: bytes, message: dict[str, Any]) -> None:
        assert b"\n" not in frame, "one message is one line"
        assert message["jsonrpc"] == "2.0"
        if "method" in message:
            assert not {"result", "error"} & set(message)
            self._check_call(message)
            return
        assert len({"result", "error"} & set(message)) == 1
        assert message["id"] in self._asked, "an answer to nothing"
        assert message["id"] not in self._answered, "a second answer"
        self._answered.add(message["id"])
        if "result" in message:
            self._check_shape(self._asked[message["id"]], "response", message["result"])

    def _check_call(self, message: dict[str, Any]) -> None:
        kind = "request" if "id" in message else "notification"
        method: str = message["method"]
        if not method.startswith("_"):
            assert (method, kind) in definitions(self._official), f"{method} is no {kind} of the protocol"
            self._check_shape(method, kind, message["params"])

    def _check_shape(self, method: str, kind: str, value: Any) -> None:
        self._checked += 1
        name = definitions(self._official).get((method, kind))
        if name is None or self._checked > MAX_CHECKED:
            return
        complaint = self._official.validation_error(name, value)
        assert complaint is None, f"{method} {kind}: {complaint}"
        known = _properties(self._official, name)
        if known is not None:
            assert set(value) - LEGACY_FIELDS <= known, f"{method} {kind} has fields that the schema does not know"

    # --- what tests ask

    @property
    def received(self) -> list[dict[str, Any]]:
        """The messages that the agent wrote, in order."""
        return [message for direction, message in self.wire if direction == "in"]

    def calls(self, method: str) -> list[dict[str, Any]]:
        """Return the agent's requests and notifications with this method."""
        return [message for message in self.received if message.get("method") == method]

    def order(self) -> list[str]:
        """Return each message of the agent as its method, its kind of update, or the method it answers."""
        return [self._word(message) for message in self.received]

    def _word(self, message: dict[str, Any]) -> str:
        if "method" not in message:
            return f"answer to {self._asked[message['id']]}"
        if message["method"] == "session/update":
            return str(message["params"]["update"]["sessionUpdate"])
        return str(message["method"])


@cache
def _properties(official: Official, name: str) -> set[str] | None:
    """Return the fields at the root of a definition; `None` for a union."""
    definition = official.document["$defs"][name]
    if any(word in definition for word in ("anyOf", "oneOf", "allOf")):
        return None
    return set(definition.get("properties", {}))
