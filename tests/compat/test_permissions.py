"""Permissions fail closed: no ambiguous answer and no rejection ever becomes a permission."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duologue.compat.normaliser import Normaliser
from tests.compat.vectors import play

IDS = ["allow", "reject", "allow_once", "cancelled", "selected", ""]
KINDS = ["allow_once", "allow_always", "reject_once", "reject_always", "deny", "_new"]

options = st.lists(
    st.fixed_dictionaries({"optionId": st.sampled_from(IDS), "name": st.just("n"), "kind": st.sampled_from(KINDS)}),
    max_size=4,
)
named: st.SearchStrategy[Any] = st.sampled_from([*IDS, None, True, 1, ["allow"], {"optionId": "allow"}])
NO_OBJECT: list[Any] = [None, [], "allow", True, {"optionId": "allow"}, {"outcome": {}}]
outcomes = named | st.fixed_dictionaries({"outcome": named}, optional={"optionId": named})
answers: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {}, optional={"outcome": outcomes, "selectedOptionId": named, "optionId": named}
) | st.sampled_from(NO_OBJECT)


def question(options: Any) -> dict[str, Any]:
    params = {"sessionId": "s", "toolCall": {"toolCallId": "t", "title": "T"}, "options": options}
    return {"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": params}


def answer(result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": result}


def read(options: Any, result: Any, dialect: Any = None) -> Any:
    normaliser = Normaliser(dialect, "agent")
    play(normaliser, "outgoing", question(options))
    [message] = play(normaliser, "incoming", answer(result))
    return message["result"]


@given(options, answers, st.sampled_from(["seed-003", "seed-004", None]))
def test_an_answer_selects_only_what_it_names_without_contradiction_and_what_was_offered_once(
    options: list[dict[str, Any]], result: Any, dialect: Any
) -> None:
    became = read(options, result, dialect)
    if became == result:
        assert isinstance(result["outcome"], dict)
        return
    outcome = became["outcome"]
    if outcome == {"outcome": "cancelled"}:
        return
    chosen = outcome["optionId"]
    assert outcome == {"outcome": "selected", "optionId": chosen}
    assert [option["optionId"] for option in options].count(chosen) == 1
    assert result.get("selectedOptionId", chosen) == chosen
    assert result.get("outcome", chosen) in (chosen, {"outcome": "selected", "optionId": chosen})
    assert "selectedOptionId" in result or "outcome" in result


@given(options, st.sampled_from([{"outcome": "cancelled"}, {"outcome": "_new"}, {"outcome": "selected"}]))
def test_an_answer_that_selects_nothing_is_never_written_as_a_permission(
    options: list[dict[str, Any]], outcome: dict[str, Any]
) -> None:
    normaliser = Normaliser("seed-004", "client")
    play(normaliser, "incoming", question(options))
    [message] = play(normaliser, "outgoing", answer({"outcome": outcome}))
    chosen = message["result"]["selectedOptionId"]
    kinds = {option["kind"] for option in options if option["optionId"] == chosen}

    assert chosen is None or kinds <= {"reject_once", "deny"}


@given(options, st.sampled_from(IDS))
def test_a_choice_written_and_read_again_is_the_same_or_cancelled(options: list[dict[str, Any]], chosen: str) -> None:
    selected = {"outcome": {"outcome": "selected", "optionId": chosen}}
    client, agent = Normaliser("seed-004", "client"), Normaliser("seed-004", "agent")
    for asked in play(agent, "outgoing", question(options)):
        play(client, "incoming", asked)
    [written] = play(client, "outgoing", answer(selected))
    [message] = play(agent, "incoming", written)

    assert written == answer({"selectedOptionId": chosen})
    assert message["result"] in (selected, {"outcome": {"outcome": "cancelled"}})


@pytest.mark.parametrize("options", [None, {}, "allow", [1, None], [{"optionId": 1}], [{"name": "allow"}]])
def test_without_valid_options_nothing_is_allowed(options: Any) -> None:
    assert read(options, {"selectedOptionId": "allow"}) == {"outcome": {"outcome": "cancelled"}}


def test_an_option_id_that_was_offered_twice_selects_nothing() -> None:
    twice = [
        {"optionId": "x", "name": "Yes", "kind": "allow_once"},
        {"optionId": "x", "name": "No", "kind": "reject_once"},
    ]

    assert read(twice, {"selectedOptionId": "x"}) == {"outcome": {"outcome": "cancelled"}}


def test_an_answer_to_a_forgotten_request_is_unchanged() -> None:
    """A reader of today's form finds no outcome in it, so nothing is allowed."""
    stray = answer({"selectedOptionId": "allow"})

    assert play(Normaliser(None, "agent"), "incoming", stray) == [stray]


def test_other_members_of_an_answer_stay() -> None:
    offered = [{"optionId": "allow", "name": "Yes", "kind": "allow_once"}]

    assert read(offered, {"selectedOptionId": "allow", "_meta": {"a": 1}}) == {
        "outcome": {"outcome": "selected", "optionId": "allow"},
        "_meta": {"a": 1},
    }


def test_a_tool_call_and_a_title_are_unchanged() -> None:
    offered = [{"optionId": "allow", "name": "Yes", "kind": "allow_once"}]
    both = question(offered)
    both["params"]["title"] = "Not for you"

    assert play(Normaliser(None, "client"), "incoming", both) == [both]
