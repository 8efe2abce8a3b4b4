"""Whole conversations with agents made with pydantic-ai: the library's test models, over several turns and restarts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import ApprovalRequired, ModelRetry, RunContext, UsageLimits
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    SystemPromptPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel

from duologue import Settings, Turn, choice
from duologue.errors import RequestError
from duologue.integrations.pydantic_ai import RunMode, acp_agent
from duologue.runtime.handlers import Context
from duologue.schema import v1
from tests.agent.wire_client import EVERYTHING, RecordingClient, client_for

Piece: TypeAlias = str | dict[int, DeltaToolCall] | dict[int, DeltaThinkingPart]


def prompt_of(messages: list[ModelMessage]) -> str:
    """Return the text of the last prompt."""
    prompts = [part for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
    content = prompts[-1].content
    return content if isinstance(content, str) else "".join(item for item in content if isinstance(item, str))


def call(name: str, call_id: str, **arguments: Any) -> dict[int, DeltaToolCall]:
    return {0: DeltaToolCall(name=name, json_args=json.dumps(arguments), tool_call_id=call_id)}


def model_of(answer: Callable[[str, list[ModelMessage], AgentInfo], list[Piece]]) -> FunctionModel:
    """Return a model that is asked with the last prompt, or with the result of a tool after a `:`."""

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        last = messages[-1].parts[-1]
        asked = f":{last.model_response_str()}" if isinstance(last, ToolReturnPart) else prompt_of(messages)
        for piece in answer(asked, messages, info):
            yield piece

    return FunctionModel(stream_function=stream)


def read_file() -> str:
    return "text"


def write_file() -> str:
    return "written"


def values_of(options: Any) -> dict[str, Any]:
    return {option.id: option.current_value for option in options}


def thoughts_of(client: RecordingClient) -> str:
    return "".join(chunk.content.text for chunk in client.of(v1.AgentThoughtChunk))


async def test_a_conversation_of_several_turns(tmp_path: Path) -> None:
    """Text, thinking, a tool, an approval, a denial, a tool that wants another try, and a history of it all."""
    deleted: list[str] = []

    def answer(asked: str, messages: list[ModelMessage], info: AgentInfo) -> list[Piece]:
        match asked:
            case "hello":
                return [{0: DeltaThinkingPart(content="A greeting.")}, "Hello", " there."]
            case "delete a" | "delete b":
                return ["I delete it.", call("delete_file", asked, path=asked[-1])]
            case "guess":
                return [call("guess", "g1", number=1)]
            case _ if "try again" in asked:
                return [call("guess", "g2", number=2)]
            case _:
                return [f"So: {asked[1:]}"]

    assistant = PydanticAgent(model_of(answer))

    @assistant.tool_plain(requires_approval=True)
    def delete_file(path: str) -> str:
        deleted.append(path)
        return "deleted"

    @assistant.tool_plain(retries=3)
    def guess(number: int) -> str:
        if number != 2:
            raise ModelRetry("try again")
        return "right"

    served = acp_agent(assistant, unstable={"usage"})
    async with asyncio.timeout(60), client_for(served, tmp_path, validate=True, **EVERYTHING) as client:
        client.answer_permission()
        session = await client.new()
        assert (await client.prompt(session, "hello")).stop_reason == "end_turn"
        assert (thoughts_of(client), client.text) == ("A greeting.", "Hello there.")

        await client.prompt(session, "delete a")
        assert (deleted, client.statuses[-1]) == (["a"], "completed")
        client.choose = "reject_once"
        await client.prompt(session, "delete b")
        assert (deleted, client.statuses[-1]) == (["a"], "failed")
        assert "So: the user did not permit this" in client.text

        ended = await client.prompt(session, "guess")
        assert client.statuses[-5:] == ["pending", "failed", "pending", "in_progress", "completed"]
        assert client.text.endswith("So: right")
        assert ended.usage is not None
        assert ended.usage.total_tokens == ended.usage.input_tokens + ended.usage.output_tokens > 0


async def test_a_session_is_loaded_with_its_history_and_settings_after_a_restart(tmp_path: Path) -> None:
    def answer(asked: str, messages: list[ModelMessage], info: AgentInfo) -> list[Piece]:
        return [f"{asked} is prompt {sum(isinstance(each, ModelRequest) for each in messages)}. "]

    def started() -> Any:
        modes = {"ask": RunMode(), "code": RunMode()}
        served = acp_agent(PydanticAgent(model_of(answer)), modes=modes, unstable=True)
        served.persist_sessions(tmp_path / "sessions")
        return served

    async with asyncio.timeout(60), client_for(started(), tmp_path) as client:
        session = await client.new()
        await client.prompt(session, "one")
        await client.set_mode(session, "code")
    async with asyncio.timeout(60), client_for(started(), tmp_path) as client:
        loaded = await client.load(session)
        assert loaded.modes is not None
        assert loaded.modes.current_mode_id == "code"
        await client.prompt(session, "two")
        assert client.text == "one is prompt 1. two is prompt 2. "

        fork = await client.fork(session)
        await client.prompt(session, "three")
        await client.prompt(fork, "four")
        assert client.text.endswith("three is prompt 3. four is prompt 3. ")


async def test_a_cancelled_turn_stays_in_the_history_with_its_open_calls_closed(tmp_path: Path) -> None:
    began = asyncio.Event()
    seen: list[ModelMessage] = []

    def answer(asked: str, messages: list[ModelMessage], info: AgentInfo) -> list[Piece]:
        seen[:] = messages
        return ["I wait. ", call("wait", "w1")] if asked == "wait" else ["Fine."]

    assistant = PydanticAgent(model_of(answer))

    @assistant.tool_plain
    async def wait() -> str:
        began.set()
        return await asyncio.Future()

    async with asyncio.timeout(60), client_for(acp_agent(assistant), tmp_path) as client:
        session = await client.new()
        turn = asyncio.ensure_future(client.prompt(session, "wait"))
        await began.wait()
        await client.cancel(session)
        assert (await turn).stop_reason == "cancelled"
        assert (await client.prompt(session, "and now?")).stop_reason == "end_turn"

        parts = [part for message in seen for part in message.parts]
        calls = [part.tool_call_id for part in parts if isinstance(part, ToolCallPart)]
        results = [(part.tool_call_id, part.outcome) for part in parts if isinstance(part, ToolReturnPart)]
        assert (calls, results) == (["w1"], [("w1", "interrupted")])
        assert client.text == "I wait. Fine."


async def test_an_error_of_the_model_names_its_cause_and_does_not_lose_what_was_done(tmp_path: Path) -> None:
    failing, done = ["model"], list[str]()
    seen: list[ModelMessage] = []

    def answer(asked: str, messages: list[ModelMessage], info: AgentInfo) -> list[Piece]:
        seen[:] = messages
        if asked == "write":
            return [call("write", "c1")]
        if asked.startswith(":") and failing:
            failing.clear()
            raise ModelHTTPError(503, "a-model", {"error": "overloaded"})
        if asked == "never answered":
            raise ModelHTTPError(400, "a-model", {"error": "no such image"})
        return ["Done."]

    assistant = PydanticAgent(model_of(answer))

    @assistant.tool_plain
    def write() -> str:
        done.append("written")
        return "written"

    async with asyncio.timeout(60), client_for(acp_agent(assistant), tmp_path) as client:
        session = await client.new()
        with pytest.raises(RequestError, match=r"ModelHTTPError.*503.*a-model"):
            await client.prompt(session, "write")
        with pytest.raises(RequestError, match="no such image"):
            await client.prompt(session, "never answered")
        await client.prompt(session, "go on")

        parts = [part for message in seen for part in message.parts]
        assert [part.content for part in parts if isinstance(part, ToolReturnPart)] == ["written"]
        assert "never answered" not in str(parts)
        assert (client.text, done) == ("Done.", ["written"])


async def test_a_usage_limit_ends_the_turn_and_the_next_one_goes_on(tmp_path: Path) -> None:
    assistant = PydanticAgent(TestModel(custom_output_text="read"))

    @assistant.tool_plain
    def read() -> str:
        return "text"

    served = acp_agent(assistant, run_options=lambda turn: {"usage_limits": UsageLimits(request_limit=len(turn.text))})
    async with asyncio.timeout(60), client_for(served, tmp_path) as client:
        session = await client.new()
        assert (await client.prompt(session, "1")).stop_reason == "max_turn_requests"
        assert (await client.prompt(session, "a longer one")).stop_reason == "end_turn"


# --- settings


async def test_model_and_mode_are_settings_that_the_next_turn_uses(tmp_path: Path) -> None:
    def named(name: str) -> FunctionModel:
        def answer(asked: str, messages: list[ModelMessage], info: AgentInfo) -> list[Piece]:
            tools = ",".join(tool.name for tool in info.function_tools)
            return [f"{name} {info.instructions} [{tools}] "]

        return model_of(answer)

    assistant = PydanticAgent(named("own"))
    assistant.tool_plain(read_file)
    assistant.tool_plain(write_file)

    class Extra(Settings):
        language = choice("en", "de")

    modes = {"code": RunMode(), "ask": RunMode("Only answer.", tools=["read_file"], description="Changes nothing")}
    served = acp_agent(
        assistant, models={"small": named("small"), "large": named("large")}, modes=modes, settings=Extra
    )
    async with asyncio.timeout(60), client_for(served, tmp_path, validate=True) as client:
        opened = await client.opened()
        session = opened.session_id
        assert opened.modes is not None
        assert [mode.id for mode in opened.modes.available_modes] == ["code", "ask"]
        assert values_of(opened.config_options) == {"language": "en", "mode": "code", "model": "small"}

        await client.prompt(session, "hi")
        chosen = v1.SetSessionConfigOptionId(session_id=session, config_id="model", value="large")
        changed = await client.connection.request(v1.SESSION_SET_CONFIG_OPTION, chosen)
        assert values_of(changed.config_options)["model"] == "large"
        await client.set_mode(session, "ask")
        await client.prompt(session, "hi")
        assert client.text == "small None [read_file,write_file] large Only answer. [read_file] "


async def test_a_mode_may_need_no_approval(tmp_path: Path) -> None:
    assistant = PydanticAgent(TestModel())
    assistant.tool_plain(requires_approval=True)(write_file)

    served = acp_agent(assistant, modes={"ask": RunMode(), "write": RunMode(approved=["write_file"])})
    async with asyncio.timeout(60), client_for(served, tmp_path) as client:
        client.answer_permission()
        for mode in ("ask", "write"):
            session = await client.new()
            await client.set_mode(session, mode)
            await client.prompt(session, "write")
        assert len(client.asked) == 1
        assert client.statuses == ["pending", "in_progress", "completed"] * 2


# --- slash commands


async def test_slash_commands_clear_the_history_choose_the_model_and_send_prompts(tmp_path: Path) -> None:
    def answer(asked: str, messages: list[ModelMessage], info: AgentInfo) -> list[Piece]:
        return [f"{len(messages)}: {asked}. "]

    commands = {"review": "Review {argument} now", "plan": "Make a plan"}
    models = {"small": model_of(answer), "large": model_of(answer)}
    served = acp_agent(PydanticAgent(model_of(answer)), models=models, commands=commands)

    @served.command("ping", "Answer pong")
    async def ping(turn: Turn, argument: str) -> None:
        await turn.say("pong")

    async with asyncio.timeout(60), client_for(served, tmp_path, validate=True) as client:
        opened = await client.opened()
        session = opened.session_id
        await client.until_updates(v1.AvailableCommandsUpdate)
        [update] = client.of(v1.AvailableCommandsUpdate)
        described = {each.name: each.description for each in update.available_commands}
        assert list(described) == ["clear", "compact", "model", "review", "plan", "ping"]
        assert described["plan"] == "Make a plan"

        async def answer_to(prompt: str) -> str:
            before = len(client.text)
            await client.prompt(session, prompt)
            return client.text[before:]

        assert await answer_to("one") == "1: one. "
        assert await answer_to("/review a.py") == "3: Review a.py now. "
        assert await answer_to("/plan for tomorrow") == "5: Make a plan\n\nfor tomorrow. "
        assert await answer_to("/clear") == "The model no longer sees the conversation so far."
        assert await answer_to("two") == "1: two. "
        assert await answer_to("/model large") == "The model is large. To choose from: small, large."
        assert client.of(v1.ConfigOptionUpdate)[-1].config_options[0].current_value == "large"
        assert "'huge' is not a value of 'model' (known: small, large)" in await answer_to("/model huge")
        assert await answer_to("/ping") == "pong"


async def test_compacting_replaces_the_history_by_a_summary(tmp_path: Path) -> None:
    seen: list[list[ModelMessage]] = []

    def answer(asked: str, messages: list[ModelMessage], info: AgentInfo) -> list[Piece]:
        if asked == "User: remember 42\n\nAssistant: noted":
            assert "keep numbers" in str(info.instructions)
            return ["The user ", "said 42."]
        seen.append(list(messages))
        return ["noted"]

    served = acp_agent(PydanticAgent(model_of(answer), system_prompt="Be brief."), unstable={"usage"})
    async with asyncio.timeout(60), client_for(served, tmp_path, validate=True, **EVERYTHING) as client:
        session = await client.new()
        await client.prompt(session, "/compact")
        assert client.text == "There is nothing to compact."
        await client.prompt(session, "remember 42")
        ended = await client.prompt(session, "/compact keep numbers")
        assert "The user said 42.\n\nThe model now sees this summary" in client.text
        assert ended.usage is not None
        assert [update.status for update in client.of(v1.CompactionUpdate)] == ["in_progress", "completed"]
        await client.prompt(session, "which number?")

        [first, *_] = seen[-1]
        assert isinstance(first.parts[0], SystemPromptPart)
        assert "The user said 42." in str(first.parts[1])
        assert "remember 42" not in str(seen[-1])


# --- approval


def deleting(deleted: list[Any]) -> PydanticAgent[None, str]:
    def answer(asked: str, messages: list[ModelMessage], info: AgentInfo) -> list[Piece]:
        if asked.startswith(":"):
            return [asked[1:]]
        arguments: dict[str, Any] = {"path": asked, "force": False, "tags": ["x"], "token": None}
        return [call("delete_file", f"c{len(messages)}", **arguments)]

    assistant = PydanticAgent(model_of(answer))

    @assistant.tool_plain(requires_approval=True)
    def delete_file(path: str, force: bool, tags: list[str], token: str | None) -> str:
        deleted.append((path, force, tags, token))
        return "deleted"

    return assistant


@pytest.mark.parametrize("content", [{"path": "b.txt", "force": True, "tags": '["y", "z"]'}, None])
async def test_the_user_edits_the_arguments_before_the_tool_runs(
    tmp_path: Path, content: dict[str, Any] | None
) -> None:
    deleted: list[Any] = []
    forms: list[Any] = []
    async with asyncio.timeout(60), client_for(acp_agent(deleting(deleted)), tmp_path, **EVERYTHING) as client:

        @client.handlers.on(v1.SESSION_REQUEST_PERMISSION)
        async def ask(context: Context, params: v1.RequestPermissionRequest) -> v1.RequestPermissionResponse:
            client.asked.append(params)
            return v1.RequestPermissionResponse(outcome=v1.SelectedPermissionOutcome(option_id="edit_arguments"))

        @client.handlers.on(v1.ELICITATION_CREATE)
        async def fill_in(context: Context, params: Any) -> Any:
            forms.append(params)
            if content is None:
                return v1.ElicitationDeclineAction()
            return v1.ElicitationAcceptAction(content=content)

        session = await client.new()
        await client.prompt(session, "a.txt")
        await client.prompt(session, "a.txt")

        names = {option.option_id: option.name for option in client.asked[0].options}
        assert names["edit_arguments"] == "Edit the arguments, then allow once"
        assert len(client.asked) == 2  # an edit is never remembered
        if content is None:
            assert deleted == []
            assert "did not permit" in client.text
        else:
            assert deleted == [("b.txt", True, ["y", "z"], None)] * 2
            [shown] = [each for each in client.of(v1.ToolCallUpdate) if each.title][:1]
            assert shown.title.startswith('delete_file(path="b.txt", force=true')
            assert shown.raw_input["path"] == "b.txt"


async def test_a_client_without_forms_is_not_offered_to_edit_and_always_says_what_it_covers(tmp_path: Path) -> None:
    async with asyncio.timeout(60), client_for(acp_agent(deleting([])), tmp_path) as client:
        client.answer_permission()
        await client.prompt(await client.new(), "a.txt")

        [asked] = client.asked
        assert [option.name for option in asked.options] == [
            "Allow once",
            "Always allow with these arguments",
            "Reject",
            "Always reject with these arguments",
        ]


async def test_the_reason_that_a_tool_gives_for_an_approval_is_shown_before_the_user_decides(tmp_path: Path) -> None:
    assistant = PydanticAgent(TestModel(custom_output_text="done"))

    @assistant.tool
    def pay(context: RunContext[Any]) -> str:
        if not context.tool_call_approved:
            raise ApprovalRequired(metadata={"reason": "costs 5 EUR"})
        return "paid"

    async with asyncio.timeout(60), client_for(acp_agent(assistant), tmp_path) as client:
        client.answer_permission()
        await client.prompt(await client.new(), "pay")

        [asked] = client.asked
        assert "costs 5 EUR" in str(asked.tool_call.content)
        assert client.statuses[-1] == "completed"


async def test_an_output_that_is_not_text_is_shown_as_json(tmp_path: Path) -> None:
    class City(BaseModel):
        name: str

    assistant = PydanticAgent(TestModel(custom_output_args={"name": "Berlin"}), output_type=City)
    async with asyncio.timeout(60), client_for(acp_agent(assistant), tmp_path) as client:
        await client.prompt(await client.new(), "which?")
        assert json.loads(client.text) == {"name": "Berlin"}


async def test_arguments_that_are_not_json_are_shown_and_the_model_tries_again(tmp_path: Path) -> None:
    def answer(asked: str, messages: list[ModelMessage], info: AgentInfo) -> list[Piece]:
        if asked == "read":
            return [{0: DeltaToolCall(name="read", json_args='{"path": ', tool_call_id="c1")}]
        return [asked[1:] if asked == ":text" else call("read", "c2", path="a")]

    assistant = PydanticAgent(model_of(answer))

    @assistant.tool_plain
    def read(path: str) -> str:
        return "text"

    async with asyncio.timeout(60), client_for(acp_agent(assistant), tmp_path) as client:
        assert (await client.prompt(await client.new(), "read")).stop_reason == "end_turn"
        assert client.text == "text"
        assert client.statuses[-1] == "completed"
