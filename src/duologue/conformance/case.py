"""A case of a check: what it provokes, which rules it judges, and how it judges them."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Generator
from typing import Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct

from duologue.conformance.raw_peer import PeerFailed, ReceivedMessage
from duologue.conformance.verdicts import Judgement, RuleVerdict
from duologue.conformance.wait_limit import WaitLimit
from duologue.conformance.wire_log import WireLog

CaseTransport: TypeAlias = Literal["stdio", "websocket", "http", "memory"]
EVERY_TRANSPORT: tuple[CaseTransport, ...] = ("stdio", "websocket", "http", "memory")

Run = TypeVar("Run", bound="CaseRun")


class CaseSkipped(Exception):
    """The peer does not offer what the case is about; the message says what."""


class NotProvoked(Exception):
    """The peer was not brought to do what the case is about; the message says how it can be."""


class CaseEnded(Exception):
    """The case has judged what it could."""


class CheckCase(Struct, Generic[Run], frozen=True):
    """One case.

    Attributes:
        name: Unique name, in words joined by hyphens.
        title: What it does, in one sentence.
        rules: Numbers of the rules that it judges.
        run: Judges them.
        versions: Versions of the protocol in which it makes sense.
        transports: Transports on which it makes sense.
        is_passive: True if passive rules may judge its messages; False if the checker breaks the protocol in it, or if
            which messages are in it depends on time.
    """

    name: str
    title: str
    rules: tuple[int, ...]
    run: Callable[[Run], Awaitable[None]]
    versions: tuple[int, ...] = (1, 2)
    transports: tuple[CaseTransport, ...] = EVERY_TRANSPORT
    is_passive: bool = True


def case(
    name: str,
    *rules: int,
    versions: tuple[int, ...] = (1, 2),
    transports: tuple[CaseTransport, ...] = EVERY_TRANSPORT,
    is_passive: bool = True,
) -> Callable[[Callable[[Run], Awaitable[None]]], CheckCase[Run]]:
    """Make a case of a coroutine function; the first line of its docstring is the title."""

    def make(run: Callable[[Run], Awaitable[None]]) -> CheckCase[Run]:
        title = (run.__doc__ or "").strip().partition("\n")[0]
        return CheckCase(name, title, rules, run, versions, transports, is_passive)

    return make


class CaseRun:
    """One run of a case: collects its judgements and its messages.

    Args:
        name: Name of the case.
        rules: Numbers of the rules that it judges.
        version: Version of the protocol.
        limit: The limit of each of its waits.
    """

    def __init__(self, name: str, rules: tuple[int, ...], version: int, limit: WaitLimit) -> None:
        self.name = name
        self.rules = rules
        self.version = version
        self.limit = limit
        self.log = WireLog()
        self.judgements: list[Judgement] = []

    def judge(self, rule: int, verdict: RuleVerdict, message: str = "", *frames: ReceivedMessage | int) -> None:
        """Add a judgement of a rule that the case is registered for."""
        if rule not in self.rules:
            raise ValueError(f"the case {self.name} judges rule {rule}, but is registered for {self.rules}")
        numbers = tuple(each if isinstance(each, int) else each.number for each in frames)
        self.judgements.append(Judgement(rule=rule, verdict=verdict, case=self.name, message=message, frames=numbers))

    def expect(self, rule: int, condition: object, message: str, *frames: ReceivedMessage | int) -> bool:
        """Pass the rule if the condition is true; else fail it with a message that says what was received."""
        is_met = bool(condition)
        self.judge(rule, RuleVerdict.PASS if is_met else RuleVerdict.FAIL, "" if is_met else message, *frames)
        return is_met

    def skip(self, rule: int, reason: str) -> None:
        """Say why a rule does not apply to this peer."""
        self.judge(rule, RuleVerdict.SKIPPED, reason)

    @contextlib.contextmanager
    def judging(self, *rules: int) -> Generator[None]:
        """Fail these rules if the peer sends no response or disconnects inside the block, and end the case."""
        try:
            yield
        except PeerFailed as error:
            for rule in rules:
                self.judge(rule, RuleVerdict.FAIL, str(error))
            raise CaseEnded from error

    def conclude(self, verdict: RuleVerdict, reason: str) -> None:
        """Give all rules without a judgement this verdict."""
        judged = {each.rule for each in self.judgements}
        for rule in self.rules:
            if rule not in judged:
                self.judge(rule, verdict, reason)
