"""Rules about elicitation: modes, ids, addresses and answers."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qsl, urlsplit

from duologue.schema.base import JsonValue
from duologue.schema.lenient_errors import is_object
from duologue.trace.frames import TracedFrame
from duologue.trace.json_values import items, member, text
from duologue.trace.remembered import Remembered
from duologue.trace.rules.base import ProtocolRule, Violation
from duologue.trace.wire_state import OpenRequest, WireState

_MODES = {"form": "forms", "url": "urls"}
_CREDENTIALS = frozenset({"access_token", "refresh_token", "api_key", "apikey", "password", "client_secret"})
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,), "boolean": (bool,), "array": (list,), "integer": (int,), "number": (int, float),
}  # fmt: skip


class ElicitationRules(ProtocolRule):
    """The client is asked in a mode that it has, and answers what was asked."""

    numbers = (127, 131, 134, 135)
    methods = frozenset({"elicitation/create", "elicitation/complete"})

    def __init__(self) -> None:
        super().__init__()
        self._open: Remembered[str, int] = Remembered()
        self._sent: Remembered[str, int] = Remembered()

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report wrong modes, ids, addresses and answers."""
        if frame.kind == "notification":
            yield from self._complete(frame, wire)
        elif frame.kind == "request":
            yield from self._create(frame, wire)
        elif (request := wire.request_of(frame)) is not None and request.params is not None:
            yield from self._answer(frame, wire, request)

    def _create(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        mode = text(wire.body, "mode")
        if mode in _MODES and wire.initialized is not None:
            self.observe("agent", 127)
            if not wire.client_has(_MODES[mode], frame.version):
                message = f"the mode {mode!r}, which the client did not advertise"
                yield Violation(127, message, (frame.number, wire.initialized), "$.params.mode")
        if mode == "url":
            self.observe("agent", 131, 135)
            id_ = text(wire.body, "elicitationId")
            if (first := self._open.get(id_)) is not None:
                message = f"the elicitation {id_[:200]!r} is open"
                yield Violation(131, message, (frame.number, first), "$.params.elicitationId")
            self._open[id_] = self._sent[id_] = frame.number
            if _has_credentials(text(wire.body, "url")):
                yield Violation(135, "credentials in the URL", (frame.number,), "$.params.url")

    def _complete(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        self.observe("agent", 131)
        id_ = text(wire.body, "elicitationId")
        self._open.pop(id_, None)
        if id_ not in self._sent and not wire.is_partial and not self._sent.is_partial:
            message = f"no elicitation {id_[:200]!r} was sent"
            yield Violation(131, message, (frame.number,), "$.params.elicitationId")

    def _answer(self, frame: TracedFrame, wire: WireState, request: OpenRequest) -> Iterator[Violation]:
        if frame.kind == "error" or text(wire.body, "action") != "accept":
            self._open.pop(text(request.params, "elicitationId"), None)
        elif text(request.params, "mode") == "form":
            self.observe("client", 134)
            content = wire.body.get("content")
            values = content if is_object(content) else {}
            for name in items(request.params, "requestedSchema", "required"):
                if isinstance(name, str) and values.get(name) is None:
                    yield _wrong(frame, request, f"the required field {name[:200]!r} is missing")
                    return
            for name, value in values.items():
                if not _fits(value, member(request.params, "requestedSchema", "properties", name)):
                    yield _wrong(frame, request, f"the field {name[:200]!r} has another type")
                    return


def _wrong(frame: TracedFrame, request: OpenRequest, message: str) -> Violation:
    return Violation(134, message, (frame.number, request.number), "$.result.content")


def _fits(value: JsonValue, schema: JsonValue) -> bool:
    types = _TYPES.get(text(schema, "type"))
    if types is None or value is None:
        return True
    return isinstance(value, types) and (bool in types or not isinstance(value, bool))


def _has_credentials(url: str) -> bool:
    try:
        parts = urlsplit(url)
        names = {name.lower() for name, value in parse_qsl(parts.query, max_num_fields=100) if value}
        return bool(parts.username or parts.password or names & _CREDENTIALS)
    except ValueError:
        return False


RULES: tuple[type[ProtocolRule], ...] = (ElicitationRules,)
