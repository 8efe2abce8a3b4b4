"""The life of a prompt in version 2: inserted, worked on, ended by an idle state, and cancelled in every phase."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from duologue.agent.turn import Turn
from duologue.conversation.work_state import TokenUsage
from duologue.errors import RequestError, ResourceNotFound
from tests.agent.v2.wire_client import both, chosen, wire_client


class Gate:
    """A prompt handler that says it has begun, and goes on when it may."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.may_end = asyncio.Event()

    async def __call__(self, turn: Turn[Any]) -> None:
        await turn.say(turn.text)
        self.begun.put_nowait(turn.text)
        await self.may_end.wait()
        await turn.say("!")


@pytest.mark.rule(141, 142)
async def test_a_prompt_is_answered_echoed_and_worked_on_in_this_order(tmp_path: Path) -> None:
    async with wire_client(both()) as client:
        session = await client.new(tmp_path)
        answer = await client.prompt(session, "hi")
        await client.until(client.ends)

        assert client.validator.order()[2:] == [
            "answer to session/prompt",
            "user_message",
            "state_update",
            "agent_message_chunk",
            "state_update",
        ]
        (echo,) = client.of("user_message")
        assert echo["messageId"] == answer["result"]["messageId"]
        assert echo["content"] == [{"type": "text", "text": "hi"}]
        assert client.states == ["running", "idle end_turn"]


@pytest.mark.rule(142)
@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "max_turn_requests", "refusal"])
async def test_the_idle_state_says_why_the_work_ended_and_what_it_used(reason: str) -> None:
    async def handle(turn: Turn[Any]) -> str:
        turn.tokens = TokenUsage(total=3, input=1, output=2)
        return reason

    async with wire_client(both(handle, unstable=True)) as client:
        end = await client.turn(await client.new(), "go")

        assert (end["state"], end["stopReason"]) == ("idle", reason)
        assert end["usage"] == {
            "totalTokens": 3,
            "inputTokens": 1,
            "outputTokens": 2,
            "_meta": {"duologue/scope": "turn"},
        }


async def test_prompts_wait_for_each_other_and_each_has_its_own_end() -> None:
    gate = Gate()
    async with wire_client(both(gate)) as client:
        session = await client.new()
        first, second = client.prompt(session, "one"), client.prompt(session, "two")
        await first
        assert await gate.begun.get() == "one"
        assert not second.done()
        gate.may_end.set()
        await client.until(lambda: len(client.ends()) == 2)

        words = client.validator.order()[2:]
        half = [
            "answer to session/prompt",
            "user_message",
            "state_update",
            *["agent_message_chunk"] * 2,
            "state_update",
        ]
        assert words == half * 2
        assert client.states == ["running", "idle end_turn"] * 2


async def test_a_turn_ends_before_the_next_prompt_is_inserted_even_if_the_client_is_slow() -> None:
    async def handle(turn: Turn[Any]) -> None:
        for _ in range(20):
            await turn.say("x" * 1000)

    async with wire_client(both(handle), bound=4000) as client:
        session = await client.new()
        client.reads.clear()
        for number in range(3):
            client.prompt(session, str(number))
        await asyncio.sleep(0)
        client.reads.set()
        await client.until(lambda: len(client.ends()) == 3)

        assert client.states == ["running", "idle end_turn"] * 3
        words = [word for word in client.validator.order() if word in ("answer to session/prompt", "state_update")]
        assert words == ["answer to session/prompt", "state_update", "state_update"] * 3


# --- what fails


async def test_a_prompt_that_cannot_be_taken_is_refused_and_nothing_is_said_of_it() -> None:
    async with wire_client(both()) as client:
        session = await client.new()
        image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
        bad = await client.refused("session/prompt", sessionId=session, prompt=[image])
        unknown = await client.refused("session/prompt", sessionId=session, prompt=[{"type": "smell", "of": "pine"}])
        empty = await client.refused("session/prompt", sessionId=session, prompt=[])
        uninitialized = await client.refused("session/prompt", sessionId="none", prompt=[{"type": "text", "text": "x"}])

        assert [error["code"] for error in (bad, unknown, empty, uninitialized)] == [-32602, -32602, -32602, -32002]
        assert client.updates == []


@pytest.mark.parametrize(
    ("raised", "code"),
    [(ValueError("secret"), -32603), (ResourceNotFound("gone"), -32002), (RequestError("x"), -32603)],
)
async def test_work_that_fails_ends_with_an_error_and_the_connection_lives_on(raised: Exception, code: int) -> None:
    async def handle(turn: Turn[Any]) -> None:
        if turn.text == "fail":
            raise raised

    async with wire_client(both(handle)) as client:
        session = await client.new()
        end = await client.turn(session, "fail")

        assert (end["state"], end["stopReason"], end["error"]["code"]) == ("idle", "error", code)
        assert "secret" not in end["error"]["message"]
        assert (await client.turn(session, "again"))["stopReason"] == "end_turn"
        assert client.states == ["running", "idle error", "running", "idle end_turn"]


@pytest.mark.rule(148)
@pytest.mark.parametrize(
    "block", [{"type": "text"}, {"type": "text", "text": 7}, {"type": "image", "data": "AAAA"}, {"type": "resource"}]
)
async def test_known_content_that_is_broken_is_refused(block: dict[str, Any]) -> None:
    async with wire_client(both(accepts=("image", "audio", "resource"))) as client:
        session = await client.new()
        refused = await client.refused("session/prompt", sessionId=session, prompt=[block])
        assert refused["code"] == -32602


# --- cancelling


async def test_prompts_that_are_not_inserted_are_withdrawn_by_a_cancellation() -> None:
    gate = Gate()
    async with wire_client(both(gate)) as client:
        session = await client.new()
        running, *waiting = [client.prompt(session, text) for text in ("one", "two", "three")]
        await running
        await gate.begun.get()
        client.notify("session/cancel", sessionId=session)

        assert [(await each)["error"]["code"] for each in waiting] == [-32800, -32800]
        await client.until(client.ends)
        assert client.states == ["running", "idle cancelled"]
        assert len(client.of("user_message")) == 1


async def test_a_prompt_that_waits_can_be_cancelled_alone_by_its_id() -> None:
    gate = Gate()
    async with wire_client(both(gate)) as client:
        session = await client.new()
        text = [{"type": "text", "text": "two"}]
        await client.prompt(session, "one")
        await gate.begun.get()
        second = client.start_as("second", "session/prompt", sessionId=session, prompt=text)
        client.notify("$/cancel_request", requestId="second")

        assert (await second)["error"]["code"] == -32800
        gate.may_end.set()
        await client.until(client.ends)
        assert client.states == ["running", "idle end_turn"]
        assert client.text == "one!"


@pytest.mark.parametrize("by_id", [True, False])
async def test_a_prompt_and_its_cancellation_in_one_breath_have_one_end(by_id: bool) -> None:
    """Whether it is inserted before it is cancelled or not, exactly one of the two endings is sent."""
    async with wire_client(both(Gate())) as client:
        session = await client.new()
        prompt = [{"type": "text", "text": "x"}]
        for number in range(20):
            id, ended = f"p{number}", len(client.ends())
            answer = client.start_as(id, "session/prompt", sessionId=session, prompt=prompt)
            for _ in range(number):
                await asyncio.sleep(0)
            if by_id:
                client.notify("$/cancel_request", requestId=id)
            else:
                client.notify("session/cancel", sessionId=session)
            if "error" in await answer:
                assert (await answer)["error"]["code"] == -32800
                continue
            client.notify("session/cancel", sessionId=session)  # an answered request can no longer be cancelled
            while len(client.ends()) == ended:
                await client.until_more()
        assert set(client.states) <= {"running", "idle cancelled"}
        assert await client.ask("session/close", sessionId=session) == {}


@pytest.mark.rule(143)
async def test_a_cancelled_turn_sends_its_final_updates_and_is_not_an_error() -> None:
    started = asyncio.Event()

    async def handle(turn: Turn[Any]) -> None:
        async with turn.tool("Work"):
            try:
                started.set()
                await asyncio.Event().wait()
            finally:
                raise ValueError("while being cancelled")

    async with wire_client(both(handle)) as client:
        session = await client.new()
        await client.prompt(session, "go")
        await started.wait()
        client.notify("session/cancel", sessionId=session)
        await client.until(client.ends)

        assert client.states == ["running", "idle cancelled"]
        assert client.of("tool_call_update")[-1]["status"] == "failed"  # it raised something else meanwhile
        assert client.validator.order()[-1] == "state_update"
        assert "error" not in client.ends()[0]


async def test_a_tool_call_of_a_cancelled_turn_is_cancelled_too() -> None:
    started = asyncio.Event()

    async def handle(turn: Turn[Any]) -> None:
        async with turn.tool("Work"):
            started.set()
            await asyncio.Event().wait()

    async with wire_client(both(handle)) as client:
        session = await client.new()
        await client.prompt(session, "go")
        await started.wait()
        client.notify("session/cancel", sessionId=session)
        await client.until(client.ends)

        assert client.of("tool_call_update")[-1]["status"] == "cancelled"
        assert client.states == ["running", "idle cancelled"]


@pytest.mark.rule(143)
@pytest.mark.parametrize("answers", [True, False])
async def test_a_question_ends_with_the_turn_that_asked_it(answers: bool) -> None:
    async def handle(turn: Turn[Any]) -> None:
        async with turn.tool("Delete it", kind="delete") as tool:
            await tool.request_permission()

    async with wire_client(both(handle)) as client:
        session = await client.new()
        await client.prompt(session, "go")
        question = await client.until_asked("session/request_permission")
        client.notify("session/cancel", sessionId=session)
        if answers:
            client.write(id=question["id"], result={"outcome": {"outcome": "cancelled"}})
        await client.until(client.ends)

        assert client.states == ["running", "requires_action", "running", "idle cancelled"]
        if not answers:
            (withdrawn,) = client.validator.calls("$/cancel_request")
            assert withdrawn["params"] == {"requestId": question["id"]}


async def test_a_cancellation_without_work_changes_nothing_and_other_sessions_go_on() -> None:
    gate = Gate()
    async with wire_client(both(gate)) as client:
        one, two = await client.new(), await client.new()
        await client.prompt(one, "x")
        await gate.begun.get()
        client.notify("session/cancel", sessionId=two)
        client.notify("session/cancel", sessionId="none")
        gate.may_end.set()
        await client.until(client.ends)

        assert client.states == ["running", "idle end_turn"]


# --- questions


@pytest.mark.rule(99, 149)
@pytest.mark.parametrize(
    "outcome",
    [
        {"outcome": "cancelled"},
        {"outcome": "selected", "optionId": "never offered"},
        {"outcome": "_delegated", "optionId": "allow_once"},
        {"outcome": "approved"},
    ],
)
async def test_only_a_chosen_option_that_allows_is_approval(outcome: dict[str, Any]) -> None:
    async with wire_client(both(_ask)) as client:
        client.answers["session/request_permission"] = lambda _: {"result": {"outcome": outcome}}
        await client.turn(await client.new(), "go")

        assert client.text == "no"


@pytest.mark.rule(99, 149)
@pytest.mark.parametrize(("kind", "text"), [("allow_once", "yes"), ("allow_always", "yes"), ("reject_once", "no")])
async def test_the_option_that_the_user_chose_is_returned(kind: str, text: str) -> None:
    async with wire_client(both(_ask)) as client:
        client.answers["session/request_permission"] = chosen(kind)
        await client.turn(await client.new(), "go")

        assert client.text == text
        assert client.states == ["running", "requires_action", "running", "idle end_turn"]
        (question,) = client.asked
        assert question["params"]["title"] == "Delete it"
        assert question["params"]["subject"]["type"] == "tool_call"


@pytest.mark.rule(99)
async def test_a_client_that_fails_to_ask_has_not_approved() -> None:
    async with wire_client(both(_ask)) as client:
        client.answers["session/request_permission"] = lambda _: {"error": {"code": -32603, "message": "no"}}
        await client.turn(await client.new(), "go")

        assert client.text == "no"


async def _ask(turn: Turn[Any]) -> None:
    async with turn.tool("Delete it", kind="delete") as tool:
        is_allowed = await tool.request_permission()
    await turn.say("yes" if is_allowed else "no")


@pytest.mark.rule(97)
async def test_usage_has_both_numbers_and_costs_have_a_currency() -> None:
    async def handle(turn: Turn[Any]) -> None:
        await turn.report_usage(used=0, size=10, cost=0.5)

    async with wire_client(both(handle)) as client:
        await client.turn(await client.new(), "go")
        (usage,) = client.of("usage_update")
        assert (usage["used"], usage["size"], usage["cost"]) == (0, 10, {"amount": 0.5, "currency": "USD"})


@dataclass
class Order:
    name: str
    count: int = 1


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"action": "accept", "content": {"name": "x", "count": 2}}, "x 2"),
        ({"action": "decline"}, "nothing"),
        ({"action": "cancel"}, "nothing"),
        ({"action": "_later", "when": "tomorrow"}, "nothing"),
    ],
)
async def test_a_form_is_asked_while_the_session_requires_action(answer: dict[str, Any], text: str) -> None:
    async def handle(turn: Turn[Any]) -> None:
        order = await turn.elicit(Order, "What do you want?")
        await turn.say("nothing" if order is None else f"{order.name} {order.count}")

    async with wire_client(both(handle)) as client:
        client.answers["elicitation/create"] = lambda _: {"result": answer}
        await client.turn(await client.new(), "go")

        assert client.text == text
        assert client.states == ["running", "requires_action", "running", "idle end_turn"]
        assert client.asked[0]["params"]["mode"] == "form"
