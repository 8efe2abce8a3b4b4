"""Base of the rules that the messages of a recording are checked against."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal, NamedTuple, TypeAlias

from duologue.trace.frames import TracedFrame
from duologue.trace.wire_state import WireState

Side: TypeAlias = Literal["agent", "client"]

_SENDERS: dict[str, Side] = {"to_agent": "client", "to_client": "agent"}


class Violation(NamedTuple):
    """One case in which a rule is broken.

    Attributes:
        number: Number of the rule in the catalogue.
        message: What was received, and what was expected.
        frames: Numbers of the messages concerned, the one that breaks the rule first.
        path: JSON path inside that message.
        side: The side that breaks the rule, if it is not the sender of the message.
    """

    number: int
    message: str
    frames: tuple[int, ...]
    path: str = ""
    side: Side | Literal[""] = ""


class ProtocolRule:
    """One rule of the catalogue, or a few that need to know the same; a new object checks each connection.

    Attributes:
        numbers: Numbers of the rules in the catalogue.
        methods: Methods of the messages that it checks, responses among them, and kinds of updates; empty: all.
        is_general: Its violations are not reported if another rule says more about the same value.
        observed: Rules that the messages so far gave each side an occasion to break.
    """

    numbers: ClassVar[tuple[int, ...]]
    methods: ClassVar[frozenset[str]] = frozenset()
    is_general: ClassVar[bool] = False

    def __init__(self) -> None:
        self.observed: set[tuple[int, Side]] = set()

    def check(self, frame: TracedFrame, wire: WireState) -> Iterable[Violation]:
        """Return the violations by a message; `wire` is the state before it."""
        return ()

    def finish(self, wire: WireState) -> Iterable[Violation]:
        """Return the violations that are known only when the connection has ended."""
        return ()

    def observe(self, side: Side, *numbers: int) -> None:
        """Note that a side had an occasion to break rules."""
        for number in numbers:
            self.observed.add((number, side))


def sender(frame: TracedFrame) -> Side:
    """Return the side that sent a message."""
    return _SENDERS[frame.dir]
