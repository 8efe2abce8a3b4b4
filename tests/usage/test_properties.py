"""Any sequence of turns, restarts and gaps: the turns add up to the session, or the provenance says why not."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duologue.usage.amounts import TokenCounts, TurnUsage
from duologue.usage.counter import UsageCounter, UsageState
from duologue.usage.habits import Meaning, UsageHabit
from tests.usage.sequences import plain

counts = st.builds(plain, st.integers(1, 10**6), st.integers(1, 10**5))


@dataclass(frozen=True)
class AnyTurn:
    requests: list[TokenCounts]
    reports: bool
    restarts: bool
    """The agent is started again before it, and the client perhaps too."""

    @property
    def provided(self) -> TokenCounts:
        total = TokenCounts()
        for request in self.requests:
            total = total.plus(request)
        return total


turns = st.lists(
    st.builds(AnyTurn, st.lists(counts, min_size=1, max_size=3), st.booleans(), st.booleans()), max_size=12
)


class SimulatedAgent:
    """Reports tokens in one way."""

    def __init__(self, meaning: Meaning, *, has_memory: bool) -> None:
        self._meaning = meaning
        self._has_memory = has_memory
        self._total = TokenCounts()

    def run(self, turn: AnyTurn, counter: UsageCounter) -> TurnUsage:
        if turn.restarts and not self._has_memory:
            self._total = TokenCounts()
        self._total = self._total.plus(turn.provided)
        if not turn.reports:
            return counter.end_turn(None)
        if self._meaning == "per_request":
            for request in turn.requests:
                counter.add_request(request)
            return counter.end_turn(None)
        reported = {"per_turn": turn.provided, "cumulative": self._total, "last_request": turn.requests[-1]}
        return counter.end_turn(reported[self._meaning])


def play(
    agent: SimulatedAgent, habit: UsageHabit | None, played: list[AnyTurn]
) -> tuple[UsageCounter, list[TurnUsage], int]:
    """Play the turns; return the counter, the turns, and the tokens that the provider counted."""
    counter, found, provided = UsageCounter(habit), list[TurnUsage](), 0
    for number, turn in enumerate(played):
        if turn.restarts and number % 2:
            counter.restart()
        elif turn.restarts:
            counter = UsageCounter(habit, msgspec.json.decode(msgspec.json.encode(counter.state), type=UsageState))
        found.append(agent.run(turn, counter))
        provided += turn.provided.total or 0
    return counter, found, provided


def check(counter: UsageCounter, found: list[TurnUsage], provided: int) -> None:
    """Check that the session's tokens are those of the provider, or a lower bound that says so."""
    usage = counter.usage
    total = usage.total or 0
    assert usage.turns == len(found)
    if usage.provenance in ("reported_per_turn", "derived", "cumulative"):
        assert total == provided
    else:
        assert usage.provenance in ("partial", "not_reported")
        assert total <= provided
    assert sum(turn.total or 0 for turn in found) == total


@pytest.mark.parametrize("meaning", ["per_turn", "last_request", "per_request"])
@given(played=turns)
def test_the_turns_add_up_to_the_session(meaning: Meaning, played: list[AnyTurn]) -> None:
    habit = UsageHabit("a", meaning, "")

    check(*play(SimulatedAgent(meaning, has_memory=True), habit, played))


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("has_memory", [True, False])
@given(played=turns)
def test_running_totals_add_up_to_the_session(has_memory: bool, is_known: bool, played: list[AnyTurn]) -> None:
    habit = UsageHabit("a", "cumulative", "", restarts=is_known and not has_memory)

    check(*play(SimulatedAgent("cumulative", has_memory=has_memory), habit, played))


@given(played=turns)
def test_running_totals_of_an_unknown_agent_are_never_added_twice(played: list[AnyTurn]) -> None:
    steady = [AnyTurn(turn.requests, turn.reports, restarts=False) for turn in played]
    counter, found, provided = play(SimulatedAgent("cumulative", has_memory=True), None, steady)
    usage = counter.usage

    assert counter.state.meaning in (None, "cumulative")
    if usage.provenance in ("reported_per_turn", "cumulative"):
        assert usage.total == provided
    elif usage.provenance == "undecided":
        assert usage.total is None
    for turn, real in zip(found, steady, strict=True):
        if turn.provenance in ("reported_per_turn", "derived") and turn.turns == 1:
            assert turn.total == real.provided.total


@given(played=turns, falling=counts)
def test_tokens_of_turns_of_an_unknown_agent_add_up_once_they_fall(played: list[AnyTurn], falling: TokenCounts) -> None:
    low, high = plain(1, 1), falling.plus(plain(1, 1))
    first = [AnyTurn([high], True, False), AnyTurn([low], True, False)]
    counter, _, provided = play(SimulatedAgent("per_turn", has_memory=True), None, [*first, *played])
    usage = counter.usage

    assert counter.state.meaning == "per_turn"
    assert (usage.total == provided) if usage.provenance == "reported_per_turn" else ((usage.total or 0) <= provided)
