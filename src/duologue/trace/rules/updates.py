"""Rules about reports of a session: compaction, tokens and cost."""

from __future__ import annotations

from collections.abc import Iterator

from duologue.conversation.work_state import FINAL_STATUSES
from duologue.schema.base import JsonObject, JsonValue
from duologue.schema.lenient_errors import is_object
from duologue.trace.frames import TracedFrame
from duologue.trace.json_values import number, text
from duologue.trace.remembered import Remembered
from duologue.trace.rules.base import ProtocolRule, Violation
from duologue.trace.wire_state import WireState
from duologue.usage.amounts import TokenCounts
from duologue.usage.counter import UsageCounter


class Compactions(ProtocolRule):
    """A compaction ends once."""

    numbers = (125,)
    methods = frozenset({"compaction_update", "compaction_summary_chunk"})

    def __init__(self) -> None:
        super().__init__()
        self._final: Remembered[tuple[str, int, str], tuple[str, int]] = Remembered()

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report what follows the final status of a compaction."""
        if not frame.update:
            return
        self.observe("agent", 125)
        compaction, status = text(wire.update, "compactionId"), text(wire.update, "status")
        key = frame.session, wire.loads.get(frame.session, 0), compaction
        final = self._final.get(key)
        if final is not None and status != final[0]:
            message = f"{frame.update} for compaction {compaction[:200]!r}, which is {final[0]}"
            yield Violation(125, message, (frame.number, final[1]), "$.params.update.compactionId")
        elif final is None and status in FINAL_STATUSES:
            self._final[key] = status, frame.number


class UsageUpdates(ProtocolRule):
    """Context and cost are reported as numbers, and the cost of a session grows."""

    numbers = (97, 178)
    methods = frozenset({"usage_update"})

    def __init__(self) -> None:
        super().__init__()
        self._costs: Remembered[tuple[str, int], tuple[str, float, int]] = Remembered()

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report missing numbers, and a cost that decreases."""
        if not frame.update:
            return
        self.observe("agent", 97)
        for name in ("used", "size"):
            if number(wire.update, name) is None:
                yield Violation(97, f"usage_update without `{name}`", (frame.number,), f"$.params.update.{name}")
        cost = wire.update.get("cost")
        if cost is None:
            return
        amount, currency = _amount(cost), text(cost, "currency")
        if amount is None or not currency:
            yield Violation(97, "a cost without amount or currency", (frame.number,), "$.params.update.cost")
            return
        self.observe("agent", 178)
        key = frame.session, wire.loads.get(frame.session, 0)
        before = self._costs.get(key)
        if before is not None and before[0] == currency and amount < before[1]:
            message = f"the cost is {amount:,} after {before[1]:,} {currency[:20]}"
            yield Violation(178, message, (frame.number, before[2]), "$.params.update.cost.amount")
        self._costs[key] = currency, amount, frame.number


class TokensOfTurn(ProtocolRule):
    """The tokens of a turn are not a running total."""

    numbers = (177,)
    methods = frozenset({"session/prompt", "state_update"})

    def __init__(self) -> None:
        super().__init__()
        self._counters: Remembered[str, UsageCounter] = Remembered()

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report numbers that grow with each turn."""
        if frame.kind == "response" and frame.method == "session/prompt" and frame.version == 1:
            usage, path = wire.body.get("usage"), "$.result.usage"
        elif frame.update == "state_update" and frame.version != 1 and text(wire.update, "state") == "idle":
            usage, path = wire.update.get("usage"), "$.params.update.usage"
        else:
            return
        counts = _counts(usage) if is_object(usage) else None
        if counts is None:
            return
        self.observe("agent", 177)
        if frame.session not in self._counters:
            self._counters[frame.session] = UsageCounter()
        counter = self._counters[frame.session]
        counter.end_turn(counts)
        if counter.state.growing == GROWING_TURNS:
            message = "the tokens grow with each turn: a running total, not the tokens of the turn"
            yield Violation(177, message, (frame.number,), path)


def _amount(cost: JsonValue) -> float | None:
    amount = cost.get("amount") if is_object(cost) else None
    return float(amount) if isinstance(amount, int | float) and not isinstance(amount, bool) else None


def _counts(usage: JsonObject) -> TokenCounts | None:
    total, sent, received = (number(usage, name) for name in ("totalTokens", "inputTokens", "outputTokens"))
    if total is None or sent is None or received is None:
        return None
    return TokenCounts(total=total, input=sent, output=received)


GROWING_TURNS = 8
"""Turns in a row whose numbers must grow until they are reported: by chance, one in 40,000 does that."""

RULES: tuple[type[ProtocolRule], ...] = (Compactions, UsageUpdates, TokensOfTurn)
