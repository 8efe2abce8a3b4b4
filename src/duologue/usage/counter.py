"""Counting what a session uses, whichever way its agent reports it.

Numbers are never made up: what was not reported stays `None`, and the provenance says how the others came about. A
running total that falls starts anew, and what it was before is added; so a session adds up over restarts of its agent.
"""

from __future__ import annotations

from msgspec import Struct, UnsetType

from duologue.conversation.updates import MessageChunk, Update, UsageUpdate
from duologue.usage.amounts import Provenance, SessionUsage, TokenCounts, TurnUsage
from duologue.usage.habits import Meaning, UsageHabit
from duologue.usage.spellings import counts_in

GROWING_TURNS = 5
"""Turns in a row whose numbers must grow until they count as running totals: by chance, one in 120 does that."""

MOST_WARNINGS = 8
"""Warnings that are kept; an agent whose numbers are wrong repeats itself."""

MOST_TOKENS = 2**48
"""Tokens of one report that are believed: more than any turn uses, and sums of them stay within what JSON can hold."""

_DIGITS = 9
"""Decimal places of a cost: more than any price has, fewer than the errors of adding binary fractions."""

_SUMS: dict[Meaning, Provenance] = {
    "per_turn": "reported_per_turn",
    "per_request": "derived",
    "last_request": "partial",
}
"""Provenance of the sum over turns."""

_NOTHING = TokenCounts()


class UsageState(Struct, kw_only=True, omit_defaults=True):
    """State of a counter, to be saved with the session and restored when it is opened again.

    Attributes:
        turns: Number of turns.
        missing: Turns that reported no tokens.
        uncovered: Those of them since the last report.
        reports: Turns that reported tokens.
        summed: Sum of the reports: the tokens of the session if they are of turns.
        finished: Sum of the running totals that started anew since.
        last: The last report. With `finished` the tokens of the session if the reports are running totals.
        growing: Turns in a row, up to the last one, whose numbers grew.
        meaning: What the numbers mean, if that was found out.
        has_restarted: The agent was started again since the last report.
        has_history: The session had turns before this counter.
        is_incomplete: A running total started anew while turns were not covered by it.
        used: Tokens in the context.
        size: Size of the context window.
        cost: Running total of the cost.
        finished_cost: Sum of the running totals of the cost that started anew since.
        currency: Currency of the cost.
        warnings: Contradictions so far.
    """

    turns: int = 0
    missing: int = 0
    uncovered: int = 0
    reports: int = 0
    summed: TokenCounts = _NOTHING
    finished: TokenCounts = _NOTHING
    last: TokenCounts | None = None
    growing: int = 1
    meaning: Meaning | None = None
    has_restarted: bool = False
    has_history: bool = False
    is_incomplete: bool = False
    used: int | None = None
    size: int | None = None
    cost: float | None = None
    finished_cost: float = 0.0
    currency: str | None = None
    warnings: tuple[str, ...] = ()


class UsageCounter:
    """Counts the tokens and the cost of one session.

    Args:
        habit: How the agent reports tokens; `None`: not known.
        state: What an earlier counter of the same session knew.
    """

    def __init__(self, habit: UsageHabit | None = None, state: UsageState | None = None) -> None:
        self.state = UsageState() if state is None else state
        self._restarts = habit is not None and habit.restarts
        self._requests: TokenCounts | None = None
        self._cost_before = self._cost
        """Cost of the session when the running turn began; `None`: not known."""
        self._has_cost = False
        """A cost was reported in the running turn."""
        if state is not None:
            self.restart()
        if habit is not None:
            self._change_meaning(habit.meaning)

    # --- what the agent reports

    def restart(self) -> None:
        """Expect running totals to start anew, or to go on: the agent was started again."""
        self.state.has_restarted = True
        self._requests = None
        if self._restarts:
            self._finish_total()

    def add_history(self) -> None:
        """Note that the session had turns before, whose usage is not known."""
        self.state.has_history = True
        self.state.is_incomplete |= self._restarts
        self._cost_before = self._cost

    def add_update(self, update: Update, *, is_in_turn: bool) -> None:
        """Count what an update reports, if anything; outside of a turn, tokens of requests are those of a replay."""
        if isinstance(update, UsageUpdate):
            cost = None if isinstance(update.cost, UnsetType) else update.cost
            self.add_context(update.used, update.size, cost, update.currency, is_in_turn=is_in_turn)
        elif is_in_turn and isinstance(update, MessageChunk) and isinstance(update.meta, dict):
            counts = counts_in(update.meta)
            if counts is not None:
                self.add_request(counts)

    def add_request(self, counts: TokenCounts) -> None:
        """Add the tokens of one request to the model in the running turn."""
        if not self._is_plausible(counts):
            return
        self._requests = counts if self._requests is None else self._requests.plus(counts)

    def add_context(
        self, used: int, size: int, cost: float | None, currency: str | None, *, is_in_turn: bool = True
    ) -> None:
        """Add a report of the context and the cost of the session so far.

        Args:
            used: Tokens in the context.
            size: Size of the context window.
            cost: Cost of the session so far; `None`: not reported.
            currency: Currency of the cost.
            is_in_turn: A turn runs, to which the increase of the cost belongs.
        """
        state = self.state
        state.used, state.size = used, size
        if used > size:
            self._warn(f"the context has {used:,} tokens, and its size is {size:,}")
        if cost is not None:
            self._add_cost(cost, currency)
            self._has_cost = is_in_turn
        if not is_in_turn:
            self._cost_before = self._cost

    def end_turn(self, reported: TokenCounts | None, meaning: Meaning | None = None) -> TurnUsage:
        """Count a turn that has ended; return what it used.

        Args:
            reported: Tokens that the agent reported with the end of the turn, whatever they mean.
            meaning: What they mean, if the agent says so.
        """
        if meaning is not None:
            self._change_meaning(meaning)
        state = self.state
        cost = self._turn_cost() if self._has_cost else None
        requests, self._requests = self._requests, None
        state.turns += 1
        if reported is not None and not self._is_plausible(reported):
            reported = None
        if reported is None and requests is not None:
            reported = requests
            state.meaning = state.meaning or "per_request"
        if reported is None:
            state.missing += 1
            state.uncovered += 1
            return TurnUsage(cost=cost, currency=None if cost is None else state.currency)
        self._check(reported)
        counts, provenance, turns = self._count(reported)
        return TurnUsage(
            **_fields(counts),
            provenance=provenance,
            turns=turns,
            cost=cost,
            currency=None if cost is None else state.currency,
        )

    # --- results

    @property
    def usage(self) -> SessionUsage:
        """Tokens and cost of the session so far, and its context."""
        state = self.state
        counts, provenance = self._total()
        return SessionUsage(
            **_fields(counts),
            provenance=provenance,
            turns=state.turns,
            cost=None if state.cost is None else self._cost,
            currency=state.currency,
            used=state.used,
            size=state.size,
            warnings=state.warnings,
        )

    def _total(self) -> tuple[TokenCounts, Provenance]:
        state, meaning = self.state, self.state.meaning
        if state.last is None and state.reports == 0:
            return _NOTHING, "not_reported"
        if meaning == "cumulative":
            total = state.finished if state.last is None else state.finished.plus(state.last)
            return total, "partial" if state.is_incomplete or state.uncovered else "cumulative"
        if meaning is not None:
            is_partial = state.is_incomplete or state.missing or state.has_history
            return state.summed, "partial" if is_partial else _SUMS[meaning]
        if state.reports == 1 and not (state.missing or state.has_history):
            return state.summed, "reported_per_turn"  # a running total is the same after one turn
        return _NOTHING, "undecided"

    # --- tokens

    def _change_meaning(self, meaning: Meaning) -> None:
        """Set what the numbers mean; those of an earlier version of the agent may have meant something else."""
        state = self.state
        if state.meaning not in (None, meaning):
            total, provenance = self._total()
            state.summed, state.finished, state.last = total, total, None
            state.is_incomplete |= provenance == "partial"
        state.meaning = meaning

    def _count(self, report: TokenCounts) -> tuple[TokenCounts, Provenance, int]:
        """Add a report of tokens; return the tokens of the turn, their provenance, and the turns they are of."""
        state = self.state
        is_first, covered, has_restarted = state.reports == 0, state.uncovered + 1, state.has_restarted
        before = self._compare(report)
        state.reports += 1
        state.summed = state.summed.plus(report)
        state.last, state.uncovered, state.has_restarted = report, 0, False
        meaning = state.meaning
        if meaning == "cumulative":
            if is_first and state.has_history and not self._restarts:
                return report, "cumulative", covered
            # A total that started anew with the agent, and has passed the one before already, looks as if it went on.
            is_bound = has_restarted and (before is not None or covered > 1)
            state.is_incomplete |= is_bound
            counts = report if before is None else report.minus(before)
            return counts, "partial" if is_bound else "derived", covered
        if meaning is not None:
            return report, _SUMS[meaning], 1
        is_sure = is_first and covered == 1 and not state.has_history
        return report, "reported_per_turn" if is_sure else "undecided", 1

    def _compare(self, report: TokenCounts) -> TokenCounts | None:
        """Compare a report with the one before, and return that one if a running total can have gone on from it."""
        state, last = self.state, self.state.last
        if last is None:
            return None
        if report.falls_below(last):
            self._fall(report, last)
            return None
        if report.exceeds(last) and not state.has_restarted:
            state.growing += 1
            if state.meaning is None and state.growing >= GROWING_TURNS:
                state.meaning = "cumulative"
        return last

    def _fall(self, report: TokenCounts, last: TokenCounts) -> None:
        state = self.state
        is_expected = state.has_restarted or not last.falls_below(report)  # all of them fell: it started anew
        if state.meaning == "cumulative" and not is_expected:
            self._warn("some of the running totals of tokens fell while others grew")
        elif state.meaning is None and not state.has_restarted:
            state.meaning = "per_turn"
        state.growing = 1
        self._finish_total()

    def _finish_total(self) -> None:
        """Keep the last running total: the next one starts anew."""
        state = self.state
        if state.last is not None:
            state.finished, state.last = state.finished.plus(state.last), None
        state.is_incomplete |= state.uncovered > 0

    def _is_plausible(self, counts: TokenCounts) -> bool:
        is_plausible = all((number or 0) <= MOST_TOKENS for number in _fields(counts).values())
        if not is_plausible:
            self._warn(f"a report of more than {MOST_TOKENS:,} tokens was left out")
        return is_plausible

    def _check(self, counts: TokenCounts) -> None:
        total = counts.total
        parts = (counts.input or 0) + (counts.output or 0)
        if total is not None and total < parts:
            self._warn(f"{total:,} tokens in total are fewer than the {parts:,} of input and output")
        if total is not None and counts.cached_read is not None and total < counts.cached_read:
            self._warn(f"{total:,} tokens in total are fewer than the {counts.cached_read:,} read from the cache")

    # --- cost

    @property
    def _cost(self) -> float | None:
        state = self.state
        if state.cost is None:
            return None if state.has_history else 0.0
        return round(state.finished_cost + state.cost, _DIGITS)

    def _turn_cost(self) -> float | None:
        before, self._cost_before, self._has_cost = self._cost_before, self._cost, False
        if before is None or self._cost_before is None:
            return None
        return round(self._cost_before - before, _DIGITS)

    def _add_cost(self, cost: float, currency: str | None) -> None:
        state = self.state
        if state.cost is not None and currency != state.currency:
            self._warn("the currency of the cost changed: the cost before is not part of the session's")
            state.finished_cost, self._cost_before = 0.0, None
        elif state.cost is not None and cost < state.cost:
            state.finished_cost += state.cost
            if not state.has_restarted:
                self._warn("the cost of the session fell")
        state.cost, state.currency = cost, currency

    def _warn(self, text: str) -> None:
        if len(self.state.warnings) < MOST_WARNINGS and text not in self.state.warnings:
            self.state.warnings += (text,)


def _fields(counts: TokenCounts) -> dict[str, int | None]:
    return {name: getattr(counts, name) for name in TokenCounts.__struct_fields__}
