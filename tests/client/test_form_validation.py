"""Questions of agents to the user: forms that are checked, addresses that are shown, and an end with the turn."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from duologue.client.connect import connect
from duologue.client.services.form_validation import completed, field_error, validation_error
from duologue.protocol.values import Elicitation, ElicitationAnswer
from tests.client.scripted_agent import Json, ScriptedAgent, result

pytestmark = pytest.mark.timeout(30)

FORM: Json = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2},
        "age": {"type": "integer", "minimum": 0, "default": 7},
    },
    "required": ["name"],
}
ACCEPTED = ElicitationAnswer(action="accept", content={"name": "Ada"})


async def answer_to(mode: Json, answer: ElicitationAnswer | None, cwd: Path) -> tuple[Json, list[Elicitation]]:
    """Return the reply that the agent receives, and the elicitations that the user saw."""
    asked: list[Elicitation] = []

    async def fill_in(question: Elicitation) -> ElicitationAnswer:
        asked.append(question)
        assert answer is not None
        return answer

    agent = ScriptedAgent()
    async with (
        asyncio.timeout(60),
        connect(agent, on_elicit=None if answer is None else fill_in) as remote,
        remote.new_session(cwd),
    ):
        return await agent.ask("elicitation/create", {"sessionId": "s1", "message": "?", **mode}), asked


@pytest.mark.rule(128)
async def test_a_kind_of_question_that_was_never_offered_is_a_wrong_request(tmp_path: Path) -> None:
    received, asked = await answer_to({"mode": "voice", "tune": "x"}, ACCEPTED, tmp_path)

    assert received["error"]["code"] == -32602
    assert "mode" in received["error"]["message"]
    assert asked == []


@pytest.mark.rule(134)
async def test_defaults_are_filled_in_and_a_fitting_answer_is_sent(tmp_path: Path) -> None:
    received, _ = await answer_to({"mode": "form", "requestedSchema": FORM}, ACCEPTED, tmp_path)

    assert received["result"] == {"action": "accept", "content": {"age": 7, "name": "Ada"}}


@pytest.mark.rule(134)
@pytest.mark.parametrize("content", [None, {"name": "A"}, {"name": "Ada", "age": "old"}, {"name": "Ada", "more": 1}])
async def test_an_answer_that_does_not_fit_its_form_is_not_sent(
    tmp_path: Path, content: Json | None, caplog: pytest.LogCaptureFixture
) -> None:
    answer = ElicitationAnswer(action="accept", content=content)
    with caplog.at_level(logging.WARNING, "duologue.client"):
        received, _ = await answer_to({"mode": "form", "requestedSchema": FORM}, answer, tmp_path)

    assert received["result"] == {"action": "cancel"}
    assert "does not match its form" in caplog.text


@pytest.mark.rule(130)
async def test_an_address_reaches_the_user_whole(tmp_path: Path) -> None:
    url = "https://example.com/login?next=%2F#there"
    answer = ElicitationAnswer(action="decline")
    received, asked = await answer_to({"mode": "url", "url": url, "elicitationId": "e"}, answer, tmp_path)

    assert [question.url for question in asked] == [url]
    assert received["result"] == {"action": "decline"}


@pytest.mark.parametrize("ends_by", ["cancel", "end_turn"])
async def test_a_question_dies_with_its_turn_also_if_the_agent_forgets_it(tmp_path: Path, ends_by: str) -> None:
    was_cancelled = asyncio.Event()

    async def think_for_ever(question: Elicitation) -> ElicitationAnswer:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            was_cancelled.set()
        raise AssertionError

    async def work(params: Json) -> Json:
        answers.append(agent.ask("elicitation/create", {**params, "mode": "form", **QUESTION}))
        await (agent.until("session/cancel") if ends_by == "cancel" else asked.wait())
        return result(stopReason="cancelled" if ends_by == "cancel" else "end_turn")

    asked, answers = asyncio.Event(), list[asyncio.Future[Json]]()
    agent = ScriptedAgent(prompt=work)
    async with (
        asyncio.timeout(60),
        connect(agent, on_elicit=think_for_ever) as remote,
        remote.new_session(tmp_path) as session,
        asyncio.TaskGroup() as group,
    ):
        turn = group.create_task(session.ask("go", check=False))
        await asked.wait()
        if ends_by == "cancel":
            await session.cancel()
        await turn
        assert (await answers[0])["result"] == {"action": "cancel"}
    assert was_cancelled.is_set()


QUESTION: Json = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}


async def test_a_timeout_error_of_the_elicitation_handler_is_raised(tmp_path: Path) -> None:
    async def be_slow(question: Elicitation) -> ElicitationAnswer:
        raise TimeoutError

    agent = ScriptedAgent()
    async with asyncio.timeout(60), connect(agent, on_elicit=be_slow) as remote, remote.new_session(tmp_path):
        received = await agent.ask("elicitation/create", {"sessionId": "s1", "mode": "form", **QUESTION})
    assert received["error"]["code"] == -32603


@pytest.mark.parametrize(
    ("field", "good", "bad", "message"),
    [
        ({"type": "boolean"}, True, "yes", "yes or no?"),
        ({"type": "integer", "minimum": 1, "maximum": 3}, 2, 4, "at most 3, please"),
        ({"type": "integer", "minimum": 1}, 1, 0, "at least 1, please"),
        ({"type": "integer"}, 1, True, "a whole number, please"),
        ({"type": "number"}, 0.5, float("nan"), "a number, please"),
        ({"type": "string"}, "x", 1, "a text, please"),
        ({"type": "string", "maxLength": 2}, "éé", "abc", "at most 2 characters, please"),
        ({"type": "string", "enum": ["a", "b"]}, "a", "c", "one of: a, b"),
        ({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}, "a", "A", "one of: a"),
        ({"type": "string", "format": "email"}, "a@b", "a b@c", "an e-mail address, please"),
        ({"type": "string", "format": "uri"}, "https://h", "h", "a URL such as https://example.com, please"),
        ({"type": "string", "format": "date"}, "2026-01-31", "31.1.", "a date such as 2026-01-31, please"),
        (
            *({"type": "string", "format": "date-time"}, "2026-01-31T12:00:00Z", "noon"),
            "a date and time such as 2026-01-31T12:00:00Z, please",
        ),
        ({"type": "string", "format": "unheard-of"}, "anything", 1, "a text, please"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, ["b"], ["c"], "c is none of: a, b"),
        ({"type": "array", "items": {"enum": ["a"]}, "minItems": 1}, ["a"], [], "at least 1 of them, please"),
        ({"type": "array", "items": {"enum": ["a"]}, "maxItems": 1}, ["a"], ["a", "a"], "at most 1 of them, please"),
        ({"type": "array"}, ["x"], "x", "a list, please"),
    ],
)
def test_an_invalid_value_of_a_field_is_reported(field: Json, good: Any, bad: Any, message: str) -> None:
    assert field_error(field, good) is None
    assert field_error(field, bad) == message


def test_a_field_of_an_unknown_type_accepts_any_value() -> None:
    assert field_error({"type": "colour"}, {"red": 1}) is None


def test_a_pattern_of_an_agent_is_never_tried() -> None:
    assert field_error({"type": "string", "pattern": "(a+)+$"}, "a" * 100 + "b") is None


def test_an_answer_of_the_user_wins_over_a_default() -> None:
    assert completed(FORM, {"age": 3}) == {"age": 3}
    assert validation_error(FORM, {"age": 3}) == "name: required"
