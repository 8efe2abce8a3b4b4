"""Check the messages of a recording against rules: schema, pairing and order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from duologue.recording.reader import RecordingReader
from duologue.trace.frames import TracedFrame, Tracer
from duologue.trace.rules import (
    elicitation,
    envelope,
    gates,
    handshake,
    logins,
    message,
    order,
    paths,
    responses,
    sessions,
    settings,
    terminals,
    tool_calls,
    turns,
    updates,
    work_states,
)
from duologue.trace.rules.base import ProtocolRule, Side, Violation, sender
from duologue.trace.rules.catalogue import CATALOGUE, CatalogueRule, rule_by_name
from duologue.trace.wire_state import WireState

RULES: tuple[type[ProtocolRule], ...] = (
    *envelope.RULES, *message.RULES, *responses.RULES, *handshake.RULES, *order.RULES, *gates.RULES, *logins.RULES,
    *paths.RULES, *sessions.RULES, *turns.RULES, *work_states.RULES, *tool_calls.RULES, *terminals.RULES,
    *settings.RULES, *updates.RULES, *elicitation.RULES,
)  # fmt: skip
"""All classes of rules, in the order in which they are checked."""


class RuleFinding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One violation of a rule.

    Attributes:
        rule: Name of the rule.
        number: Number of the rule in the catalogue.
        level: `error` if the rule is a MUST, `warning` if it is a SHOULD.
        side: The side that broke it; empty if that is not known.
        t: Seconds since the start of the recording.
        frames: Numbers of the messages concerned, the one that broke the rule first.
        message: What was received, and what was expected.
        path: JSON path inside the message.
        clause: Where the rule comes from.
        hint: How to repair it.
    """

    rule: str
    number: int
    level: Literal["error", "warning"]
    t: float
    frames: tuple[int, ...]
    message: str
    side: Side | Literal[""] = ""
    path: str = ""
    clause: str = ""
    hint: str = ""


class Validator:
    """Checks the frames of a recording one by one, in bounded memory.

    Args:
        numbers: Numbers of the rules; None: all that messages can show.
    """

    def __init__(self, numbers: Iterable[int] | None = None) -> None:
        self._numbers = frozenset(CATALOGUE if numbers is None else numbers)
        self._rules = [rule for rule in RULES if not self._numbers.isdisjoint(rule.numbers)]
        self._last = 0.0
        self._observed: set[tuple[int, Side]] = set()
        self._begin()

    def _begin(self) -> None:
        self._wire = WireState()
        self._checks = [rule() for rule in self._rules]
        self._by_names: dict[tuple[str, str], list[ProtocolRule]] = {}

    @property
    def observed(self) -> frozenset[int]:
        """Numbers of the rules that the messages so far gave a side an occasion to break; others were not tested."""
        return self.observed_by("agent") | self.observed_by("client")

    @property
    def observed_in_connection(self) -> frozenset[int]:
        """The same for the connection that has not ended yet."""
        return frozenset(number for rule in self._checks for number, _ in rule.observed) & self._numbers

    def observed_by(self, side: Side) -> frozenset[int]:
        """Return the numbers of the rules that this side had an occasion to break so far."""
        observed = self._observed.union(*(rule.observed for rule in self._checks))
        return frozenset(number for number, of in observed if of == side) & self._numbers

    def check(self, frame: TracedFrame) -> Iterator[RuleFinding]:
        """Yield the findings of a frame; the end of the agent's process and `initialize` begin a new connection."""
        self._last = frame.t
        self._wire.look(frame)
        found = [(rule, violation) for rule in self._checks_of(frame) for violation in rule.check(frame, self._wire)]
        if found:
            yield from self._findings(found, frame.t, frame)
        if frame.kind == "exit":
            yield from self.finish()
        elif frame.kind == "request" and frame.method == "initialize" and self._wire.initialize is not None:
            self._end()
            self._wire.look(frame)
        self._wire.apply(frame)

    def finish(self) -> Iterator[RuleFinding]:
        """Yield the findings that are known only now that the connection has ended."""
        found = [(rule, violation) for rule in self._checks for violation in rule.finish(self._wire)]
        yield from self._findings(found, self._last, None)
        self._end()

    def _end(self) -> None:
        for rule in self._checks:
            self._observed |= rule.observed
        self._begin()

    def _checks_of(self, frame: TracedFrame) -> list[ProtocolRule]:
        """Return the rules for messages of this method, and for updates of this kind."""
        names = frame.method, frame.update
        checks = self._by_names.get(names)
        if checks is None:
            checks = [rule for rule in self._checks if not rule.methods or not rule.methods.isdisjoint(names)]
            if len(self._by_names) < MAX_NAMES:
                self._by_names[names] = checks
        return checks

    def _findings(
        self, found: Sequence[tuple[ProtocolRule, Violation]], t: float, frame: TracedFrame | None
    ) -> Iterator[RuleFinding]:
        special = [violation for rule, violation in found if not rule.is_general]
        for rule, violation in found:
            side = violation.side or (sender(frame) if frame is not None and frame.dir else "")
            if side:
                rule.observe(side, violation.number)
            is_explained = rule.is_general and any(_explains(other, violation) for other in special)
            if violation.number in self._numbers and not is_explained:
                yield _finding(CATALOGUE[violation.number], violation, t, side)


MAX_NAMES = 1000
"""Methods and kinds of updates whose rules are remembered; the names of extensions have no bound."""


def validate(reader: RecordingReader, validator: Validator | None = None) -> Iterator[RuleFinding]:
    """Yield the findings of a recording; each part that was appended is a connection of its own."""
    tracer, validator, part = Tracer(), validator or Validator(), reader.part
    for entry in reader:
        if reader.part is not part:
            part = reader.part
            tracer.forget()
            yield from validator.finish()
        for frame in tracer.trace([entry]):
            yield from validator.check(frame)
    yield from validator.finish()


def selected_rules(names: Iterable[str]) -> list[int] | None:
    """Return the numbers of the rules with these names or numbers; None, for all, if there are none.

    Raises:
        ValueError: There is no such rule, or recordings cannot show it.
    """
    rules = [rule_by_name(name) for name in names]
    for rule in rules:
        if not rule.is_passive:
            raise ValueError(f"recordings cannot show violations of the rule {rule.name!r}")
    return [rule.number for rule in rules] or None


def _explains(special: Violation, general: Violation) -> bool:
    """Return True if a violation is about the same value as another one, or about a part of it."""
    if special.frames[0] != general.frames[0]:
        return False
    shorter, longer = sorted((special.path, general.path), key=len)
    return longer.startswith(shorter)


def _finding(rule: CatalogueRule, violation: Violation, t: float, side: Side | Literal[""]) -> RuleFinding:
    return RuleFinding(
        rule=rule.name,
        number=rule.number,
        level="error" if rule.level == "MUST" else "warning",
        side=side,
        t=t,
        frames=violation.frames,
        message=violation.message,
        path=violation.path,
        clause=rule.clause,
        hint=rule.hint,
    )
