"""Rules about what a client runs and reads for an agent: terminals and files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct

from duologue.trace.frames import TracedFrame
from duologue.trace.json_values import member, number, objects, text
from duologue.trace.remembered import Remembered
from duologue.trace.rules.base import ProtocolRule, Violation
from duologue.trace.wire_state import OpenRequest, WireState

TerminalKey: TypeAlias = tuple[str, str]
"""A session, and the id of a terminal in it."""

_METHODS = frozenset(f"terminal/{name}" for name in ("create", "output", "wait_for_exit", "kill", "release"))


class KnownTerminal(ProtocolRule):
    """A terminal is created before it is used or shown."""

    numbers = (113, 173)
    methods = frozenset({*_METHODS, "tool_call", "tool_call_update"})

    def __init__(self) -> None:
        super().__init__()
        self._embedded: Remembered[TerminalKey, int] = Remembered()

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report a request for a terminal that does not exist, and a tool call that shows one."""
        if frame.version != 1:
            return
        if frame.kind == "request" and frame.dir == "to_client" and frame.method.startswith("terminal/"):
            if terminal := text(wire.body, "terminalId"):
                self.observe("agent", 173)
                is_open = wire.terminals.get((frame.session, terminal))
                if is_open is False or (is_open is None and not wire.is_partial):
                    state = "was released" if is_open is False else "was never created"
                    message = f"{frame.method} for terminal {terminal!r}, which {state}"
                    yield Violation(173, message, (frame.number,), "$.params.terminalId")
        elif frame.update in ("tool_call", "tool_call_update"):
            for index, content in objects(wire.update, "content"):
                if text(content, "type") == "terminal":
                    path = f"$.params.update.content[{index}].terminalId"
                    yield from self._embed(frame, wire, text(content, "terminalId"), path)

    def _embed(self, frame: TracedFrame, wire: WireState, terminal: str, path: str) -> Iterator[Violation]:
        key = frame.session, terminal
        is_open = wire.terminals.get(key)
        # Some clients show output that an agent sends in `_meta`, by an agreement of their own.
        is_foreign = member(wire.update, "_meta", "terminal_info") is not None or key in self._embedded
        self.observe("agent", 113)
        if is_open is False and key not in self._embedded:
            message = f"terminal {terminal!r} is embedded after its release"
            yield Violation(113, message, (frame.number,), path)
        elif is_open is None and not is_foreign and not wire.is_partial:
            message = f"{frame.update} with terminal {terminal!r}, which was never created"
            yield Violation(173, message, (frame.number,), path)
        self._embedded[key] = frame.number


class _Terminal(Struct):
    created: int
    limit: int | None
    is_killed: bool = False
    has_exited: bool = False


class TerminalUse(ProtocolRule):
    """Terminals give their output and their exit status, and are released."""

    numbers = (107, 109, 110, 112)
    methods = _METHODS

    def __init__(self) -> None:
        super().__init__()
        self._terminals: Remembered[TerminalKey, _Terminal] = Remembered()

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report answers about terminals that do not fit."""
        request = wire.request_of(frame)
        if frame.kind not in ("response", "error") or request is None or request.params is None:
            return
        if frame.method == "terminal/create":
            if created := text(wire.body, "terminalId"):
                limit = number(request.params, "outputByteLimit")
                self._terminals[request.session, created] = _Terminal(frame.number, limit)
            return
        key = request.session, text(request.params, "terminalId")
        terminal = self._terminals.get(key)
        if terminal is None:
            return
        if frame.method == "terminal/release":
            self.observe("agent", 112)
            del self._terminals[key]
        elif frame.method == "terminal/kill":
            terminal.is_killed = terminal.is_killed or frame.kind == "response"
        else:
            yield from self._answer(frame, wire, terminal, request)

    def _answer(
        self, frame: TracedFrame, wire: WireState, terminal: _Terminal, request: OpenRequest
    ) -> Iterator[Violation]:
        key = request.session, text(request.params, "terminalId")
        if terminal.is_killed and wire.terminals.get(key):
            self.observe("client", 110)
            if frame.kind == "error":
                message = f"{frame.method} is an error after terminal/kill"
                yield Violation(110, message, (frame.number, request.number), "$.error")
        is_output = frame.method == "terminal/output"
        status = wire.body.get("exitStatus") if is_output else wire.body
        if frame.kind == "response" and status:
            terminal.has_exited = True
            self.observe("client", 109)
            if member(status, "exitCode") is not None and member(status, "signal") is not None:
                path = "$.result.exitStatus" if is_output else "$.result"
                message = "an exit status with both an exit code and a signal"
                yield Violation(109, message, (frame.number,), path)
        if is_output and terminal.limit is not None and not frame.entry.redacted:
            self.observe("client", 107)
            size = len(text(wire.body, "output").encode("utf-8", "replace"))
            if size > terminal.limit:
                message = f"{size:,} bytes of output, and `outputByteLimit` is {terminal.limit:,}"
                yield Violation(107, message, (frame.number, terminal.created), "$.result.output")

    def finish(self, wire: WireState) -> Iterator[Violation]:
        """Report terminals whose command has ended, and which were not released although the turn has ended."""
        if wire.is_partial:
            return
        for (session, id_), terminal in self._terminals.items():
            if terminal.has_exited and session not in wire.prompts:
                message = f"terminal {id_!r} was never released"
                yield Violation(112, message, (terminal.created,), side="agent")


class ReadWindow(ProtocolRule):
    """A file is read as far as it was asked for."""

    numbers = (102,)
    methods = frozenset({"fs/read_text_file"})

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report more lines than the limit."""
        request = wire.request_of(frame)
        if frame.kind != "response" or request is None or (limit := number(request.params, "limit")) is None:
            return
        self.observe("client", 102)
        content = text(wire.body, "content")
        lines = content.count("\n") + (bool(content) and not content.endswith("\n"))
        if lines > limit:
            message = f"{lines:,} lines, and the limit is {limit:,}"
            yield Violation(102, message, (frame.number, request.number), "$.result.content")


RULES: tuple[type[ProtocolRule], ...] = (KnownTerminal, TerminalUse, ReadWindow)
