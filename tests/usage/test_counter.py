"""Counting tokens and cost over turns, restarts, gaps and contradictions."""

from __future__ import annotations

import msgspec
import pytest

from duologue.conversation.content import TextContent
from duologue.conversation.updates import MessageChunk, PlanUpdate, UsageUpdate
from duologue.usage.amounts import SessionUsage, TokenCounts, TurnUsage
from duologue.usage.counter import MOST_WARNINGS, UsageCounter, UsageState
from duologue.usage.habits import UsageHabit
from tests.usage.sequences import plain

PER_TURN = UsageHabit("a", "per_turn", "")
TOTALS = UsageHabit("a", "cumulative", "")
RESTARTING_TOTALS = UsageHabit("a", "cumulative", "", restarts=True)
LAST_REQUEST = UsageHabit("a", "last_request", "")


def restored(counter: UsageCounter, habit: UsageHabit | None) -> UsageCounter:
    """Return a counter of another program, which reads what this one saved."""
    state = msgspec.json.decode(msgspec.json.encode(counter.state), type=UsageState)
    return UsageCounter(habit, state)


def test_nothing_reported_is_nothing_counted() -> None:
    counter = UsageCounter()

    assert counter.end_turn(None) == TurnUsage()
    assert counter.usage == SessionUsage(turns=1)
    assert repr(counter.usage) == "<SessionUsage: nothing (not reported)>"


def test_the_numbers_have_a_readable_form() -> None:
    counter = UsageCounter(PER_TURN)
    counter.add_context(53_000, 200_000, 0.045, "USD")
    turn = counter.end_turn(TokenCounts(total=1_500, input=1_200, output=300))

    assert repr(turn) == "<TurnUsage: 1,500 tokens, 0.045 USD (1,200 input, 300 output, reported per turn)>"
    assert repr(counter.usage) == (
        "<SessionUsage: 1,500 tokens, 0.045 USD (1,200 input, 300 output, reported per turn); "
        "context 53,000 of 200,000 tokens>"
    )


@pytest.mark.parametrize(
    ("usage", "text"),
    [
        (TurnUsage(total=5, provenance="partial"), "at least 5 tokens"),
        (TurnUsage(total=5, provenance="undecided"), "5 tokens in the turn or the session"),
        (TurnUsage(input=5, provenance="derived"), "5 tokens in, 0 out"),
        (TurnUsage(output=5, provenance="derived"), "0 tokens in, 5 out"),
        (TurnUsage(cost=0.5), "0.5"),
        (TurnUsage(), ""),
    ],
)
def test_a_line_says_how_far_the_numbers_can_be_trusted(usage: TurnUsage, text: str) -> None:
    assert usage.text == text


def test_turns_that_report_nothing_make_the_sum_a_lower_bound() -> None:
    counter = UsageCounter(PER_TURN)
    counter.end_turn(plain(10, 1))
    counter.end_turn(None)

    assert (counter.usage.total, counter.usage.provenance, counter.usage.turns) == (11, "partial", 2)


def test_a_running_total_includes_the_turn_before_that_reported_nothing() -> None:
    counter = UsageCounter(TOTALS)
    counter.end_turn(plain(10, 1))
    counter.end_turn(None)
    assert counter.usage.provenance == "partial"
    turn = counter.end_turn(plain(40, 4))

    assert (turn.total, turn.turns, turn.provenance) == (33, 2, "derived")
    assert (counter.usage.total, counter.usage.provenance) == (44, "cumulative")


def test_a_running_total_that_falls_starts_anew() -> None:
    counter = UsageCounter(TOTALS)
    counter.end_turn(plain(100, 10))
    turn = counter.end_turn(plain(30, 3))

    assert (turn.total, turn.provenance) == (33, "derived")
    assert (counter.usage.total, counter.usage.provenance, counter.usage.warnings) == (143, "cumulative", ())


def test_a_total_that_goes_on_after_a_restart_may_have_started_anew() -> None:
    counter = UsageCounter(TOTALS)
    counter.end_turn(plain(10, 1))
    counter.restart()
    turn = counter.end_turn(plain(100, 10))

    assert (turn.total, turn.provenance) == (99, "partial")
    assert (counter.usage.total, counter.usage.provenance) == (110, "partial")


def test_a_total_that_is_known_to_restart_is_added() -> None:
    counter = UsageCounter(RESTARTING_TOTALS)
    counter.end_turn(plain(10, 1))
    counter.restart()
    counter.restart()
    turn = counter.end_turn(plain(100, 10))

    assert (turn.total, turn.provenance) == (110, "derived")
    assert (counter.usage.total, counter.usage.provenance) == (121, "cumulative")


def test_tokens_of_a_turn_that_was_killed_are_lost_with_the_total() -> None:
    counter = UsageCounter(RESTARTING_TOTALS)
    counter.end_turn(plain(10, 1))
    counter.end_turn(None)
    counter.restart()
    counter.end_turn(plain(100, 10))

    assert (counter.usage.total, counter.usage.provenance) == (121, "partial")


def test_the_usage_of_an_earlier_program_is_counted_on() -> None:
    counter = UsageCounter(PER_TURN)
    counter.add_context(1, 9, 0.5, "EUR")
    counter.end_turn(plain(10, 1))
    again = restored(counter, PER_TURN)
    assert again.usage == counter.usage
    again.add_context(2, 9, 0.75, "EUR")
    turn = again.end_turn(plain(5, 1))

    assert (turn.cost, again.usage.cost, again.usage.total, again.usage.turns) == (0.25, 0.75, 17, 2)


def test_a_restored_total_of_an_agent_whose_totals_restart_begins_at_zero() -> None:
    counter = UsageCounter(RESTARTING_TOTALS)
    counter.end_turn(plain(10, 1))
    again = restored(counter, RESTARTING_TOTALS)
    assert (again.usage.total, again.usage.provenance) == (11, "cumulative")
    again.end_turn(plain(20, 2))

    assert again.usage.total == 33


@pytest.mark.parametrize(
    ("habit", "of_turn", "of_session"),
    [
        (PER_TURN, "reported_per_turn", "partial"),
        (TOTALS, "cumulative", "cumulative"),
        (RESTARTING_TOTALS, "derived", "partial"),
        (LAST_REQUEST, "partial", "partial"),
        (None, "undecided", "undecided"),
    ],
)
def test_turns_before_the_session_was_opened_are_not_forgotten(
    habit: UsageHabit | None, of_turn: str, of_session: str
) -> None:
    counter = UsageCounter(habit)
    counter.add_history()
    turn = counter.end_turn(plain(10, 1))

    assert (turn.provenance, counter.usage.provenance) == (of_turn, of_session)
    assert counter.usage.total == (None if habit is None else 11)


def test_a_new_version_of_an_agent_may_count_in_another_way() -> None:
    counter = UsageCounter(LAST_REQUEST)
    counter.end_turn(plain(10, 1))
    newer = restored(counter, PER_TURN)
    newer.end_turn(plain(20, 2))
    assert (newer.usage.total, newer.usage.provenance) == (33, "partial")

    counter = UsageCounter(PER_TURN)
    counter.end_turn(plain(10, 1))
    newer = restored(counter, TOTALS)
    newer.end_turn(plain(5, 2))
    assert (newer.usage.total, newer.usage.provenance) == (18, "cumulative")


def test_an_agent_that_says_what_its_numbers_mean_is_believed() -> None:
    counter = UsageCounter()
    counter.end_turn(plain(10, 1), "per_turn")
    counter.end_turn(plain(20, 2), "per_turn")

    assert (counter.usage.total, counter.usage.provenance) == (33, "reported_per_turn")


def test_two_turns_with_growing_numbers_decide_nothing() -> None:
    counter = UsageCounter()
    counter.end_turn(plain(10, 1))
    turn = counter.end_turn(plain(20, 2))

    assert (turn.total, turn.provenance) == (22, "undecided")
    assert (counter.usage.total, counter.usage.provenance) == (None, "undecided")


def test_a_fall_after_a_restart_decides_nothing() -> None:
    counter = UsageCounter()
    counter.end_turn(plain(10, 5))
    counter.restart()
    counter.end_turn(plain(5, 1))

    assert counter.usage.provenance == "undecided"


def test_numbers_without_an_answer_grow_by_their_total() -> None:
    counter = UsageCounter()
    for total in (1, 2, 3, 4, 5):
        counter.end_turn(TokenCounts(total=total))

    assert (counter.usage.total, counter.usage.provenance) == (5, "cumulative")


def test_equal_numbers_decide_nothing_and_zeros_mean_turns() -> None:
    counter = UsageCounter()
    for _ in range(9):
        counter.end_turn(plain(10, 1))
    assert counter.usage.provenance == "undecided"
    counter.end_turn(plain(0, 0))

    assert (counter.usage.total, counter.usage.provenance) == (99, "reported_per_turn")


def test_requests_make_the_turn_if_the_response_has_no_tokens() -> None:
    counter = UsageCounter()
    counter.add_request(plain(10, 1))
    counter.add_request(plain(20, 2))
    assert counter.end_turn(None).total == 33
    counter.add_request(plain(30, 3))
    assert counter.end_turn(None).total == 33
    assert counter.end_turn(None).provenance == "not_reported"

    assert (counter.usage.total, counter.usage.provenance) == (66, "partial")


def test_requests_that_a_replay_repeats_are_not_counted() -> None:
    counter = UsageCounter()
    text = TextContent("")
    usage = MessageChunk(role="agent", content=text, meta={"usage": {"inputTokens": 5, "outputTokens": 1}})
    counter.add_update(usage, is_in_turn=False)
    counter.add_update(MessageChunk(role="agent", content=text, meta={"other": 1}), is_in_turn=True)
    counter.add_update(PlanUpdate(meta={"usage": {"inputTokens": 7}}), is_in_turn=True)
    assert counter.end_turn(None).provenance == "not_reported"
    counter.add_update(usage, is_in_turn=True)

    assert counter.end_turn(None).input == 5


# --- cost and context


def test_a_cost_between_turns_belongs_to_the_session_only() -> None:
    counter = UsageCounter()
    counter.add_context(1, 9, 0.5, "USD", is_in_turn=False)
    counter.add_update(UsageUpdate(used=2, size=9, cost=0.75, currency="USD"), is_in_turn=True)
    counter.add_update(UsageUpdate(used=3, size=9), is_in_turn=True)

    assert counter.end_turn(None).cost == 0.25
    assert (counter.usage.cost, counter.usage.used) == (0.75, 3)


def test_the_cost_of_the_first_turn_is_not_known_if_the_cost_before_is_not() -> None:
    counter = UsageCounter()
    counter.add_history()
    counter.add_context(1, 9, 0.5, "USD")
    assert counter.end_turn(None).cost is None
    counter.add_context(1, 9, 0.75, "USD")

    assert counter.end_turn(None).cost == 0.25


def test_a_cost_that_falls_starts_anew_and_is_a_contradiction_without_a_restart() -> None:
    counter = UsageCounter()
    counter.add_context(1, 9, 0.5, "USD")
    counter.restart()
    counter.add_context(1, 9, 0.25, "USD")
    assert (counter.usage.cost, counter.usage.warnings) == (0.75, ())
    counter.end_turn(plain(1, 1))
    counter.add_context(1, 9, 0.1, "USD")

    assert counter.usage.cost == 0.85
    assert counter.usage.warnings == ("the cost of the session fell",)


def test_costs_of_two_currencies_are_not_added() -> None:
    counter = UsageCounter()
    counter.add_context(1, 9, 0.5, "USD")
    counter.add_context(1, 9, 0.25, "EUR")

    assert (counter.usage.cost, counter.usage.currency) == (0.25, "EUR")
    assert counter.end_turn(None).cost is None
    assert "currency" in counter.usage.warnings[0]


# --- contradictions


@pytest.mark.parametrize(
    ("counts", "warning"),
    [
        (TokenCounts(total=5, input=4, output=2), "5 tokens in total are fewer than the 6 of input and output"),
        (TokenCounts(total=5, cached_read=6), "5 tokens in total are fewer than the 6 read from the cache"),
    ],
)
def test_a_total_that_is_less_than_its_parts_is_a_contradiction(counts: TokenCounts, warning: str) -> None:
    counter = UsageCounter(PER_TURN)
    counter.end_turn(counts)
    counter.end_turn(counts)

    assert counter.usage.warnings == (warning,)


def test_a_context_larger_than_its_window_is_a_contradiction() -> None:
    counter = UsageCounter()
    counter.add_context(5_216_000, 1_000_000, None, None)

    assert counter.usage.warnings == ("the context has 5,216,000 tokens, and its size is 1,000,000",)


def test_running_totals_that_fall_in_part_are_a_contradiction() -> None:
    counter = UsageCounter(TOTALS)
    counter.end_turn(plain(100, 10))
    counter.end_turn(plain(90, 50))

    assert counter.usage.warnings == ("some of the running totals of tokens fell while others grew",)


def test_warnings_are_limited() -> None:
    counter = UsageCounter()
    for number in range(100):
        counter.add_context(number + 1, number, None, None)

    assert len(counter.usage.warnings) == MOST_WARNINGS


def test_absurd_numbers_are_left_out_so_that_sums_can_be_saved() -> None:
    counter = UsageCounter(PER_TURN)
    for _ in range(3):
        counter.add_request(plain(2**64 - 1, 1))
        assert counter.end_turn(plain(1, 2**64 - 1)).provenance == "not_reported"
    counter.end_turn(plain(2**47, 0))

    assert restored(counter, PER_TURN).usage == counter.usage
    assert counter.usage.warnings == ("a report of more than 281,474,976,710,656 tokens was left out",)
