"""Rules about the content of single messages: the schema, unknown fields and methods."""

from __future__ import annotations

import re
from collections.abc import Iterator

from duologue.trace.frames import TracedFrame
from duologue.trace.rules.base import ProtocolRule, Violation, sender
from duologue.trace.unknown_fields import UnknownName, unknown_names
from duologue.trace.wire_state import WireState

_CAPABILITIES = re.compile(r"\$\.(params|result)\.(clientC|agentC|c)apabilities\b")
_EARLIER_FIELDS = re.compile(
    r"\$\.result\.(models|sessionId)"
    r"|\$\.params\.clientCapabilities\.(nes|positionEncodings)"
    r"|\$\.result\.agentCapabilities\.(nes|positionEncoding|mcp)"
)
"""Fields of earlier schemas that published programs still send."""
_EARLIER_METHODS = re.compile(r"session/set_model|nes/\w+|document/did\w+|mcp/(connect|disconnect)")


class MatchesSchema(ProtocolRule):
    """Params and results have the types of the schema."""

    numbers = (161,)
    is_general = True

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report each value that readers reject."""
        if frame.model is not None and frame.kind != "invalid":
            self.observe(sender(frame), 161)
            for problem in frame.problems:
                if not problem.is_tolerated and problem.path != "$.id":
                    yield Violation(161, f"{frame.method}: {problem.message}", (frame.number,), problem.path)


class ToleratedValues(ProtocolRule):
    """No reader has to tolerate a value."""

    numbers = (162,)
    is_general = True

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report each value that readers replace or drop."""
        if frame.model is not None and frame.dir:
            self.observe(sender(frame), 162)
        for problem in frame.problems:
            if problem.is_tolerated:
                yield Violation(162, f"{frame.method}: {problem.message}", (frame.number,), problem.path)


class KnownNames(ProtocolRule):
    """Fields, methods and kinds are in the schema, or extensions."""

    numbers = (18, 19, 157, 163)
    is_general = True

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report each name that the schema does not know."""
        if frame.kind not in ("request", "notification", "response", "error"):
            return
        self.observe(sender(frame), 18, 163)
        if frame.kind in ("request", "notification"):
            self.observe(sender(frame), 19)
        if frame.method == "initialize":
            self.observe(sender(frame), 157)
        for unknown in unknown_names(frame):
            message = f"{frame.method or 'message'}: the schema does not know this"
            yield Violation(_rule_of(frame, unknown), message, (frame.number,), unknown.path)


def _rule_of(frame: TracedFrame, unknown: UnknownName) -> int:
    match unknown.kind:
        case "value":
            return 163
        case "method":
            return 163 if _EARLIER_METHODS.fullmatch(frame.method) else 19
        case "field":
            if _EARLIER_FIELDS.fullmatch(unknown.path):
                return 163
            return 157 if frame.method == "initialize" and _CAPABILITIES.match(unknown.path) else 18


RULES: tuple[type[ProtocolRule], ...] = (MatchesSchema, ToleratedValues, KnownNames)
