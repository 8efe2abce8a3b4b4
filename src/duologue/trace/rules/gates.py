"""Rules about capabilities: what is used was advertised, and what was advertised is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from duologue.protocol.client_requests import KINDS
from duologue.schema import v1
from duologue.trace.frames import TracedFrame
from duologue.trace.json_values import items, member, objects, text
from duologue.trace.rules.base import ProtocolRule, Side, Violation
from duologue.trace.wire_state import WireState


class _Gate(NamedTuple):
    rule: int
    capability: str


_SESSION = _Gate(30, "load")
"""In version 2 `session` stands for all methods of sessions."""
_AGENT_GATES: dict[int, dict[str, _Gate]] = {
    1: {
        "logout": _Gate(39, "logout"),
        "session/load": _Gate(55, "load"),
        "session/resume": _Gate(59, "resume"),
        "session/close": _Gate(61, "close"),
        "session/list": _Gate(65, "list"),
    },
    2: {
        f"session/{name}": _SESSION
        for name in ("new", "resume", "list", "close", "prompt", "cancel", "set_config_option")
    },
}
for _version in (1, 2):
    _AGENT_GATES[_version] |= {
        "session/delete": _Gate(71, "delete"),
        "session/fork": _Gate(30, "fork"),
        "session/archive": _Gate(30, "archive"),
        "session/unarchive": _Gate(30, "archive"),
        "session/status": _Gate(30, "status"),
        "session/set_title": _Gate(30, "title"),
        "auth/status": _Gate(30, "login_status"),
        "providers/list": _Gate(30, "providers"),
        "providers/set": _Gate(30, "providers"),
        "providers/disable": _Gate(30, "providers"),
    }
_CLIENT_GATES = {
    getattr(v1, kind.method).name: _Gate(105 if kind.capability == "terminals" else 100, kind.capability)
    for kind in KINDS
}
_UPDATES = {
    "notice": "notices",
    "compaction_update": "compaction",
    "compaction_summary_chunk": "compaction",
    "plan_update": "named_plans",
    "plan_removed": "named_plans",
    "subagent_update": "subagents",
    "session_message": "subagents",
    "session_message_chunk": "subagents",
}
"""Capabilities of updates in version 1."""
_CONTENT = {"image": "image", "audio": "audio", "resource": "embedded"}
_TRANSPORTS = {"http": "mcp_http", "sse": "mcp_sse", "acp": "mcp_acp", "stdio": "mcp_stdio"}
_BASELINE = {1: ("session/new", "session/prompt"),
             2: ("session/new", "session/prompt", "session/list", "session/resume", "session/close")}  # fmt: skip


class AdvertisedMethods(ProtocolRule):
    """Methods are called if their capability was advertised."""

    numbers = (30, 39, 55, 59, 61, 65, 71, 100, 105)

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report a call without the capability."""
        if frame.kind not in ("request", "notification") or wire.initialized is None:
            if frame.kind == "response":
                self._note_unused(frame, wire)
            return
        version = 1 if frame.version == 1 else 2
        side: Side = "client"
        if frame.dir == "to_agent":
            gate = _AGENT_GATES[version].get(frame.method)
            has = gate is not None and wire.agent_has(gate.capability, version)
        else:
            side, gate = "agent", _CLIENT_GATES.get(frame.method)
            has = gate is not None and wire.client_has(gate.capability, version)
        if gate is None:
            return
        self.observe(side, gate.rule)
        if not has:
            other = "agent" if side == "client" else "client"
            message = f"{frame.method} although the {other} did not advertise it"
            yield Violation(gate.rule, message, (frame.number, wire.initialized), "$.method")

    def _note_unused(self, frame: TracedFrame, wire: WireState) -> None:
        """Note what a side could have called and did not: its peer did not advertise it."""
        if frame.method == "session/prompt" and frame.version == 1 and wire.initialized is not None:
            for gate in _CLIENT_GATES.values():
                if not wire.client_has(gate.capability, 1):
                    self.observe("agent", gate.rule)
        elif frame.method == "session/new" and wire.initialized is not None:
            version = 1 if frame.version == 1 else 2
            for gate in _AGENT_GATES[version].values():
                if not wire.agent_has(gate.capability, version):
                    self.observe("client", gate.rule)


class AdvertisedContent(ProtocolRule):
    """Prompts have only content that the agent takes."""

    numbers = (35,)
    methods = frozenset({"session/prompt"})

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report a block whose kind was not advertised."""
        if frame.kind != "request" or wire.initialized is None:
            return
        self.observe("client", 35)
        for index, block in objects(wire.body, "prompt"):
            capability = _CONTENT.get(kind := text(block, "type"))
            if capability is not None and not wire.agent_has(capability, frame.version):
                message = f"a block of the type {kind!r}, which the agent did not advertise"
                yield Violation(35, message, (frame.number, wire.initialized), f"$.params.prompt[{index}].type")


class AdvertisedSetup(ProtocolRule):
    """Sessions are opened with what the agent supports."""

    numbers = (49, 52, 53)
    methods = frozenset({"session/new", "session/load", "session/resume", "session/fork"})

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report MCP servers and directories that were not advertised, and a missing list."""
        if frame.kind != "request":
            return
        if frame.version == 1 and frame.method in ("session/new", "session/load"):
            self.observe("client", 49)
            if "mcpServers" not in wire.body:
                yield Violation(49, f"{frame.method} without `mcpServers`", (frame.number,), "$.params.mcpServers")
        if wire.initialized is None:
            return
        for index, server in objects(wire.body, "mcpServers"):
            self.observe("client", 52)
            capability = _TRANSPORTS.get(kind := text(server, "type") or "stdio")
            is_plain = frame.version == 1 and kind == "stdio"
            if capability is not None and not is_plain and not wire.agent_has(capability, frame.version):
                message = f"an MCP server of the type {kind!r}, which the agent did not advertise"
                yield Violation(52, message, (frame.number, wire.initialized), f"$.params.mcpServers[{index}].type")
        has_roots = wire.agent_has("additional_directories", frame.version)
        if items(wire.body, "additionalDirectories") or not has_roots:
            self.observe("client", 53)
        if items(wire.body, "additionalDirectories") and not has_roots:
            message = "`additionalDirectories`, which the agent did not advertise"
            yield Violation(53, message, (frame.number, wire.initialized), "$.params.additionalDirectories")


class AdvertisedUpdates(ProtocolRule):
    """Optional updates and options are sent to clients that know them."""

    numbers = (122, 124)

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report updates and boolean options that the client did not advertise."""
        if frame.version != 1 or wire.initialized is None or frame.dir != "to_client":
            return
        if frame.kind == "response" and frame.method == "session/prompt":
            self.observe("agent", 124)
        if (capability := _UPDATES.get(frame.update)) is not None:
            self.observe("agent", 124)
            if not wire.client_has(capability, 1):
                message = f"{frame.update}, which the client did not advertise"
                yield Violation(124, message, (frame.number, wire.initialized), "$.params.update.sessionUpdate")
        path, options = ("$.params.update", wire.update) if frame.update else ("$.result", wire.body)
        for index, option in objects(options, "configOptions"):
            self.observe("agent", 122)
            if text(option, "type") == "boolean" and not wire.client_has("boolean_settings", 1):
                message = "a boolean option, which the client did not advertise"
                yield Violation(122, message, (frame.number, wire.initialized), f"{path}.configOptions[{index}].type")


class AdvertisedAnswers(ProtocolRule):
    """Methods that were advertised, or that every agent has, are not answered as unknown."""

    numbers = (33, 140, 188)

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report -32601 to a method that must exist."""
        if frame.kind not in ("response", "error") or wire.initialized is None:
            return
        version = 1 if frame.version == 1 else 2
        side: Side = "agent" if frame.dir == "to_client" else "client"
        if side == "agent":
            gate = _AGENT_GATES[version].get(frame.method)
            has = gate is not None and wire.agent_has(gate.capability, version)
            if frame.method in _BASELINE[version] and (version == 1 or has):
                rule = 33 if version == 1 else 140
            else:
                rule = 188 if has else 0
        else:
            gate = _CLIENT_GATES.get(frame.method)
            rule = 188 if gate is not None and wire.client_has(gate.capability, version) else 0
        if rule:
            self.observe(side, rule)
            if member(wire.message, "error", "code") == -32601:
                request = wire.request_of(frame)
                frames = (frame.number,) if request is None else (frame.number, request.number)
                yield Violation(rule, f"{frame.method} is answered as an unknown method", frames, "$.error.code")


RULES: tuple[type[ProtocolRule], ...] = (
    AdvertisedMethods, AdvertisedContent, AdvertisedSetup, AdvertisedUpdates, AdvertisedAnswers,
)  # fmt: skip
