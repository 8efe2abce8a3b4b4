"""The sums over what known agents send are what the provider of their model reported."""

from __future__ import annotations

import msgspec
import pytest

from duologue.conversation.session_setup import Implementation
from duologue.conversation.updates import Update
from duologue.protocol.v1.updates import update_from_wire
from duologue.schema import v1
from duologue.schema.codec import decode
from duologue.usage.amounts import TokenCounts, TurnUsage
from duologue.usage.counter import UsageCounter
from duologue.usage.habits import HABITS, habit_of
from duologue.usage.spellings import counts_in
from tests.usage.sequences import SEQUENCES, Json, WireSequence


def run(sequence: WireSequence) -> tuple[UsageCounter, list[TurnUsage]]:
    """Count a sequence."""
    counter = UsageCounter(habit_of(Implementation(name=sequence.name, version=sequence.version)))
    turns: list[TurnUsage] = []
    for turn in sequence.turns:
        if turn.restarts:
            counter.restart()
        for update in turn.updates:
            counter.add_update(_update(update), is_in_turn=True)
        turns.append(counter.end_turn(turn.usage or counts_in(turn.meta)))
    return counter, turns


def _update(update: Json) -> Update:
    params = msgspec.Raw(msgspec.json.encode({"sessionId": "s", "update": update}))
    return update_from_wire(decode(v1.SessionNotification, params).update)


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda each: f"{each.name} {each.version}")
def test_the_sums_are_those_of_the_provider(sequence: WireSequence) -> None:
    counter, turns = run(sequence)
    usage = counter.usage
    provided = TokenCounts()
    for turn in sequence.turns:
        provided = provided.plus(turn.provided)

    assert usage.provenance == sequence.provenance
    assert [turn.provenance for turn in turns] == list(sequence.of_turns)
    assert usage.warnings == ()
    for name in sequence.fields:
        counted, expected = getattr(usage, name), getattr(provided, name)
        if sequence.provenance == "partial":
            assert (counted or 0) <= (expected or 0)
        elif sequence.provenance != "not_reported":
            assert counted == expected
    for turn, counted_turn in zip(sequence.turns, turns, strict=True):
        if counted_turn.provenance in ("reported_per_turn", "derived"):
            shown = [getattr(counted_turn, name) for name in sequence.fields]
            assert shown == [getattr(turn.provided, name) for name in sequence.fields] or not turn.requests


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda each: f"{each.name} {each.version}")
def test_the_cost_of_each_turn_is_what_it_added(sequence: WireSequence) -> None:
    counter, turns = run(sequence)

    assert [turn.cost for turn in turns] == (list(sequence.costs) or [None] * len(turns))
    if sequence.costs:
        assert counter.usage.cost == pytest.approx(sum(filter(None, sequence.costs)))


def test_every_habit_has_a_sequence() -> None:
    played = {habit_of(Implementation(name=each.name, version=each.version)) for each in SEQUENCES}

    assert {row for row in HABITS if row not in played} == {
        habit_of(_info("@zed-industries/claude-agent-acp", "0.25.0"))
    }


@pytest.mark.parametrize(
    ("version", "meaning"),
    [
        ("1.13.1", "last_request"),
        ("2.2", "per_turn"),
        ("v2.6.0-beta.1", "per_turn"),
        ("nightly", "per_turn"),
        ("", "per_turn"),
    ],
)
def test_the_version_of_an_agent_decides(version: str, meaning: str) -> None:
    habit = habit_of(_info("@agentclientprotocol/codex-acp", version))

    assert habit is not None
    assert habit.meaning == meaning


def test_an_agent_without_a_name_or_with_an_unknown_one_has_no_habit() -> None:
    assert habit_of(None) is None
    assert habit_of(_info("an unknown agent", "1")) is None


def _info(name: str, version: str) -> Implementation:
    return Implementation(name=name, version=version)
