"""Rules about modes, configuration options and commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from duologue.schema.base import JsonObject, JsonValue
from duologue.schema.lenient_errors import is_array
from duologue.trace.frames import TracedFrame
from duologue.trace.json_values import member, objects, text
from duologue.trace.remembered import Remembered
from duologue.trace.rules.base import ProtocolRule, Violation
from duologue.trace.wire_state import OPENING, OpenRequest, WireState


class ModeRules(ProtocolRule):
    """Modes are among those of the session, and fit the options."""

    numbers = (115, 116, 117)
    methods = frozenset({*OPENING, "session/set_mode", "current_mode_update"})

    def __init__(self) -> None:
        super().__init__()
        self._modes: Remembered[str, frozenset[str]] = Remembered()

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report unknown modes that are accepted, updates without a mode, and contradictions."""
        if frame.version != 1:
            return
        if frame.update == "current_mode_update":
            self.observe("agent", 116)
            if not text(wire.update, "currentModeId"):
                message = "current_mode_update without `currentModeId`"
                yield Violation(116, message, (frame.number,), "$.params.update.currentModeId")
        request = wire.request_of(frame)
        if frame.kind not in ("response", "error") or request is None:
            return
        if frame.method == "session/set_mode":
            yield from self._set(frame, request)
        elif frame.kind == "response" and (session := text(wire.body, "sessionId") or request.session):
            ids = frozenset(text(mode, "id") for _, mode in objects(wire.body, "modes", "availableModes"))
            self._modes[session] = ids
            yield from self._compare(frame, wire)

    def _set(self, frame: TracedFrame, request: OpenRequest) -> Iterator[Violation]:
        known, mode = self._modes.get(request.session), text(request.params, "modeId")
        if known and mode and mode not in known:
            self.observe("agent", 115)
            if frame.kind == "response":
                message = f"the mode {mode[:200]!r} is accepted, and the session has no such mode"
                yield Violation(115, message, (frame.number, request.number), "$.result")

    def _compare(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        mode = text(wire.body, "modes", "currentModeId")
        for index, option in objects(wire.body, "configOptions"):
            if text(option, "category") == "mode" and mode in (_values(option) or ()):
                self.observe("agent", 117)
                if (value := text(option, "currentValue")) != mode:
                    message = f"the option for modes is {value[:200]!r}, and the mode is {mode[:200]!r}"
                    path = f"$.result.configOptions[{index}].currentValue"
                    yield Violation(117, message, (frame.number,), path)


class Options(ProtocolRule):
    """Configuration options have values, and can be set to those that they offer."""

    numbers = (119, 120, 121)
    methods = frozenset({*OPENING, "session/set_config_option", "config_option_update"})

    def __init__(self) -> None:
        super().__init__()
        self._options: Remembered[str, dict[str, frozenset[str] | None]] = Remembered()
        """Values of each option by session; None if they are not listed."""

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report options without a value, wrong ones that are accepted, and incomplete lists."""
        request = wire.request_of(frame)
        if frame.method == "session/set_config_option" and frame.kind in ("response", "error") and request is not None:
            yield from self._set(frame, wire, request)
        if frame.update == "config_option_update":
            session, holder, at = frame.session, wire.update, "$.params.update.configOptions"
        elif frame.kind == "response":
            session, holder = text(wire.body, "sessionId") or frame.session, wire.body
            at = "$.result.configOptions"
        else:
            return
        if not is_array(holder.get("configOptions")):
            return
        options: dict[str, frozenset[str] | None] = {}
        for index, option in objects(holder, "configOptions"):
            self.observe("agent", 121)
            if option.get("currentValue") is None:
                message = f"the option {_option_id(option)[:200]!r} has no `currentValue`"
                yield Violation(121, message, (frame.number,), f"{at}[{index}].currentValue")
            if len(options) < MAX_OPTIONS:
                options[_option_id(option)] = _values(option)
        self._options[session] = options

    def _set(self, frame: TracedFrame, wire: WireState, request: OpenRequest) -> Iterator[Violation]:
        known, params = self._options.get(request.session), request.params
        config, value = text(params, "configId"), text(params, "value")
        if not known or not config:
            return
        values = known.get(config)
        is_known = config in known and (not value or values is None or value in values)
        self.observe("agent", 119 if is_known else 120)
        if frame.kind != "response":
            return
        if not is_known:
            message = f"the option {config[:200]!r} is set to {value[:200]!r}, which the session does not offer"
            yield Violation(120, message, (frame.number, request.number), "$.result")
        elif all(_option_id(option) != config for _, option in objects(wire.body, "configOptions")):
            message = f"the option {config[:200]!r} that was set is not in the list"
            yield Violation(119, message, (frame.number, request.number), "$.result.configOptions")


class CommandNames(ProtocolRule):
    """Names of commands are unique, and can be typed."""

    numbers = (187,)
    methods = frozenset({*OPENING, "available_commands_update"})

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report names with whitespace, and names that two commands have."""
        if frame.version == 1 or frame.dir != "to_client":
            return
        holder, at = (wire.update, "$.params.update") if frame.update else (wire.body, "$.result")
        commands = [(index, text(each, "name")) for index, each in objects(holder, "availableCommands")]
        counts = Counter(name for _, name in commands)
        for index, name in commands:
            self.observe("agent", 187)
            if counts[name] > 1 or any(map(str.isspace, name)):
                problem = "has whitespace" if counts[name] == 1 else "is not unique"
                message = f"the name of the command {name[:200]!r} {problem}"
                yield Violation(187, message, (frame.number,), f"{at}.availableCommands[{index}].name")
                return


def _option_id(option: JsonObject) -> str:
    return text(option, "configId") or text(option, "id")


def _values(option: JsonObject) -> frozenset[str] | None:
    """Return the values of an option, in groups or not; None if it lists none."""
    listed: list[JsonValue] = []
    for _, each in objects(option, "options"):
        listed += [value for _, value in objects(each, "options")] if "options" in each else [each]
    return (
        frozenset(text(value, "value") for value in listed[:MAX_OPTIONS])
        if is_array(member(option, "options"))
        else None
    )


MAX_OPTIONS = 1000
"""Options of a session, and values of an option, that are remembered."""

RULES: tuple[type[ProtocolRule], ...] = (ModeRules, Options, CommandNames)
