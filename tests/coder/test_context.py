"""Context and side effects of a turn: instructions, usage, compaction, questions, subagents, steering."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duologue.events import Compaction, Subagent, Usage, UsageChanged
from duologue.protocol.values import Elicitation, ElicitationAnswer
from duologue.testing import ModelServer, ModelTurn, ModelUsage, RequestPattern, tool_call
from tests.coder.client import User, coder, coding, open_client

READ = tool_call("read_file", path="calc.py")


async def test_instructions_of_the_project_and_skills_reach_the_model(project: Path) -> None:
    (project / "AGENTS.md").write_text("Always use tabs.\n")
    skill = project / ".agents/skills/release"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: release\ndescription: How to release\n---\nRun make release.\n")
    script = [
        ModelTurn(
            tools=[tool_call("load_capability", id="release")], expect=RequestPattern(contains="Always use tabs.")
        ),
        ModelTurn("Ready.", expect=RequestPattern(contains="Run make release.")),
    ]
    async with asyncio.timeout(120), ModelServer(script) as server, coding(project, server) as session:
        await session.prompt("release it")
        server.check()


async def test_usage_and_cost_are_reported_per_turn_and_summed_up(project: Path) -> None:
    turn = ModelTurn("Hi.", usage=ModelUsage(input=1000, output=100), times=0)
    model = ["openai:gpt-5.5"]  # a model whose price is known
    async with asyncio.timeout(120), ModelServer([turn]) as server, coding(project, server, models=model) as session:
        costs: list[float] = []
        for _ in range(2):
            async with session.prompt("hello") as prompt:
                events = [event async for event in prompt]
            (usage,) = [event for event in events if isinstance(event, Usage)]
            (changed,) = [event for event in events if isinstance(event, UsageChanged)]
            assert usage.used == 1100
            assert usage.cost is not None
            costs.append(usage.cost)
            assert (changed.turn.input, changed.turn.output) == (1000, 100)

    assert costs[0] > 0
    assert costs[1] == pytest.approx(2 * costs[0])


async def test_a_long_conversation_is_compacted_and_the_editor_shows_it(project: Path) -> None:
    script = [
        ModelTurn("Answer. " + "x" * 2000, times=0),
        ModelTurn("The user wants to fix add.", when=RequestPattern(contains="context summarization"), times=0),
        ModelTurn("Going on.", when=RequestPattern(contains="The user wants to fix add."), times=0),
    ]
    events: list[Any] = []
    texts: list[str] = []
    async with (
        asyncio.timeout(120),
        ModelServer(script) as server,
        coding(project, server, context_window=6000) as session,
    ):
        for number in range(12):
            async with session.prompt(f"Question {number}") as prompt:
                events += [event async for event in prompt]
            texts.append(prompt.text)

    assert texts[-1] == "Going on."
    states = [(event.status, str(event.summary)) for event in events if isinstance(event, Compaction)]
    assert states[0][0] == "in_progress"
    assert states[-1][0] == "completed"
    assert "The user wants to fix add." in states[-1][1]


async def test_a_short_conversation_that_fills_the_context_is_not_reported_as_compacted(project: Path) -> None:
    script = [ModelTurn("Answer. " + "x" * 8000, times=0)]
    events: list[Any] = []
    async with (
        asyncio.timeout(120),
        ModelServer(script) as server,
        coding(project, server, context_window=2000) as session,
    ):
        for number in range(3):
            async with session.prompt(f"Question {number}") as prompt:
                events += [event async for event in prompt]
            assert prompt.text.startswith("Answer.")

    assert [event for event in events if isinstance(event, Compaction)] == []


async def test_a_question_of_the_model_is_a_form_and_its_answer_reaches_the_model(project: Path) -> None:
    question = {
        "header": "Framework",
        "question": "Which one?",
        "options": [{"label": "pytest", "description": "The usual one"}, {"label": "unittest"}],
    }
    script = [
        ModelTurn(tools=[tool_call("ask_user_question", questions=[question])]),
        ModelTurn("Good.", expect=RequestPattern(tool_result='{"Framework":["pytest"]}')),
    ]
    forms: list[Elicitation] = []

    async def fill_in(form: Elicitation) -> ElicitationAnswer:
        forms.append(form)
        return ElicitationAnswer(action="accept", content={"answer_0": "pytest"})

    async with asyncio.timeout(120), ModelServer(script) as server:
        async with (
            open_client(project, coder(server, project.parent), User(), on_elicit=fill_in) as remote,
            remote.new_session(project) as session,
        ):
            await session.prompt("add tests")
        server.check()

    (form,) = forms
    assert form.schema is not None
    assert form.schema["properties"]["answer_0"]["enum"] == ["pytest", "unittest"]


async def test_a_client_without_forms_is_not_asked_questions(project: Path) -> None:
    script = [ModelTurn("Which?", expect=RequestPattern(tools_absent=["ask_user_question"]))]
    async with asyncio.timeout(120), ModelServer(script) as server, coding(project, server) as session:
        await session.prompt("hello")
        server.check()


async def test_a_subagent_is_a_session_of_its_own_and_asks_in_that_of_the_user(project: Path) -> None:
    user = User()
    child = RequestPattern(prompt="Run it in the child")
    script = [
        ModelTurn(tools=[tool_call("delegate_task", agent_name="self", task="Run it in the child")]),
        ModelTurn(
            "Working. ",
            tools=[tool_call("run_command", command="touch made")],
            when=child,
            expect=RequestPattern(tools_absent=["write_plan"]),
        ),
        ModelTurn("Made.", when=RequestPattern(history=["Run it in the child", "Working."])),
        ModelTurn("All done.", expect=RequestPattern(tool_result="Made.")),
    ]
    async with asyncio.timeout(120), ModelServer(script) as server, coding(project, server, user) as session:
        async with session.prompt("delegate it") as prompt:
            events = [event async for event in prompt]
        server.check()

    assert prompt.text == "All done."
    assert (project / "made").exists()
    assert user.titles == ["touch made"]
    children = [event for event in events if isinstance(event, Subagent)]
    assert children[0].title == "Run it in the child"
    assert children[-1].state == {"state": "idle", "stopReason": "end_turn"}


async def test_text_that_the_user_sends_meanwhile_reaches_the_model_with_its_next_request(project: Path) -> None:
    script = [
        ModelTurn(tools=[READ], hold_after=0),
        ModelTurn("In French, then.", expect=RequestPattern(contains="answer in French")),
    ]
    async with asyncio.timeout(120), ModelServer(script) as server, coding(project, server) as session:
        async with session.prompt("read it") as prompt:
            await server.held()
            async with asyncio.TaskGroup() as tasks:
                steered = tasks.create_task(prompt.steer("answer in French"))
                await session.set_mode("auto")  # answered after the text has arrived
                await server.release()
            await prompt
        server.check()
        assert steered.result().outcome == "injected"

    assert prompt.text == "In French, then."


@pytest.mark.parametrize(("command", "text"), [("/init", "Write AGENTS.md"), ("/review the parser", "the parser")])
async def test_a_command_sends_its_prompt(project: Path, command: str, text: str) -> None:
    script = [ModelTurn("Yes.", expect=RequestPattern(prompt=text))]
    async with asyncio.timeout(120), ModelServer(script) as server, coding(project, server) as session:
        assert (await session.prompt(command)).text == "Yes."
        described = {each.name: each.description for each in session.transcript.commands}
        server.check()

    assert described["init"] == "Write AGENTS.md for this project, or improve it."
    assert described["review"] == "Review changes for mistakes, and change nothing."


async def test_compact_replaces_the_conversation_by_a_summary(project: Path) -> None:
    script = [
        ModelTurn("Blue."),
        ModelTurn("It is blue."),
        ModelTurn("Blue.", expect=RequestPattern(absent="first prompt")),
    ]
    async with asyncio.timeout(120), ModelServer(script) as server, coding(project, server) as session:
        await session.prompt("my first prompt: which colour?")
        await session.prompt("/compact")
        await session.prompt("which was it?")
        server.check()
