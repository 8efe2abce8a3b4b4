"""Rules about `initialize`: versions, names of the programs, what is advertised together."""

from __future__ import annotations

from collections.abc import Iterator

from duologue.schema.base import JsonValue
from duologue.schema.lenient_errors import is_object
from duologue.trace.frames import TracedFrame
from duologue.trace.json_values import number, objects, text
from duologue.trace.rules.base import ProtocolRule, Violation
from duologue.trace.wire_state import WireState


class Offer(ProtocolRule):
    """The client offers a version."""

    numbers = (24,)
    methods = frozenset({"initialize"})

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report a version that is not an integer."""
        if frame.kind == "request":
            self.observe("client", 24)
            if number(wire.body, "protocolVersion") is None:
                sent = wire.body.get("protocolVersion", "nothing")
                yield Violation(
                    24, f"the version is {sent!r}, not an integer", (frame.number,), "$.params.protocolVersion"
                )


class Programs(ProtocolRule):
    """Both programs say their names and versions."""

    numbers = (25, 29, 138)
    methods = frozenset({"initialize"})

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report missing names once the version is known."""
        request = wire.request_of(frame)
        if frame.kind != "response" or request is None:
            return
        is_v1 = frame.version == 1
        client, agent = (25, 29) if is_v1 else (138, 138)
        self.observe("client", client)
        self.observe("agent", agent)
        names = ("clientInfo", "info") if is_v1 else ("info",)  # a client that offers version 2 says `info`
        if not any(_is_program(wire.offer.get(name)) for name in names):
            message = f"initialize has no `{names[0]}` with name and version"
            yield Violation(client, message, (request.number,), f"$.params.{names[0]}", "client")
        name = "agentInfo" if is_v1 else "info"
        if not _is_program(wire.body.get(name)):
            message = f"the response to initialize has no `{name}` with name and version"
            yield Violation(agent, message, (frame.number,), f"$.result.{name}")


class Versions(ProtocolRule):
    """The agent chooses a version, and a client that does not know it goes away."""

    numbers = (28, 137)

    def __init__(self) -> None:
        super().__init__()
        self._unsupported: tuple[int, int] | None = None
        """Number of the response with a version that the client does not support, and the version."""

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report a version above the requested one, and a client that goes on with it."""
        if frame.method == "initialize":
            request = wire.request_of(frame)
            chosen, asked = number(wire.body, "protocolVersion"), number(wire.offer, "protocolVersion")
            if frame.kind != "response" or request is None or chosen is None or asked is None:
                return
            if chosen > 1:
                self.observe("agent", 137)
            if chosen > asked:
                self._unsupported = frame.number, chosen
                self.observe("client", 28)
                if chosen > 1:
                    message = f"version {chosen} was chosen, and {asked} is the newest that the client supports"
                    yield Violation(137, message, (frame.number, request.number), "$.result.protocolVersion")
        elif self._unsupported is not None and frame.dir == "to_agent" and frame.kind in ("request", "notification"):
            answer, version = self._unsupported
            self._unsupported = None
            message = f"{frame.method} although the client does not support version {version}"
            yield Violation(28, message, (frame.number, answer), "$.method")


class AdvertisedTogether(ProtocolRule):
    """Capabilities and logins of the agent fit together, and fit the client."""

    numbers = (36, 190)
    methods = frozenset({"initialize"})

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report terminal logins for clients without terminals, and archives without a list."""
        if frame.kind != "response" or wire.request_of(frame) is None:
            return
        self.observe("agent", 36)
        if not wire.client_has("terminal_login", frame.version):
            for index, method in objects(wire.body, "authMethods"):
                if text(method, "type") == "terminal":
                    message = "a terminal login for a client that did not advertise `auth.terminal`"
                    yield Violation(36, message, (frame.number,), f"$.result.authMethods[{index}].type")
        if frame.version == 1 and is_object(sessions := _sessions(wire)) and is_object(sessions.get("archive")):
            self.observe("agent", 190)
            if not is_object(sessions.get("list")):
                path = "$.result.agentCapabilities.sessionCapabilities.archive"
                yield Violation(190, "`archive` is advertised without `list`", (frame.number,), path)


def _sessions(wire: WireState) -> JsonValue:
    capabilities = wire.body.get("agentCapabilities")
    return capabilities.get("sessionCapabilities") if is_object(capabilities) else None


def _is_program(value: JsonValue) -> bool:
    return bool(text(value, "name") and text(value, "version"))


RULES: tuple[type[ProtocolRule], ...] = (Offer, Programs, Versions, AdvertisedTogether)
