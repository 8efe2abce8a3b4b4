"""The agent gets what a case has: prompts, files, settings, answers, and a simulated user."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import pytest

from duologue import Agent, Turn, connect
from duologue.evals.run.conversation import Conversation
from duologue.evals.run.simulated_user import UserAgent
from duologue.evals.suite.case import Case, SimulatedUser
from duologue.evals.suite.limits import Timeouts
from duologue.testing import VirtualClock
from duologue.testing.agent_replay import replay_agent
from tests.evals.run.suites import python_agent, run_cases, write_suite

AGENT = python_agent("obedient_agent")
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


async def test_prompts_follow_each_other_in_one_session(tmp_path: Path) -> None:
    text = '[[cases]]\nid = "it"\nprompts = ["write a.txt one", "read a.txt"]\n'
    _, run = await run_cases(tmp_path, text, agents={"it": AGENT})

    result = next(iter(run.records())).result()
    assert (result.output, result.stop_reasons) == ("one", ["end_turn", "end_turn"])


async def test_images_and_files_are_sent_with_a_prompt(tmp_path: Path) -> None:
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite/dot.png").write_bytes(PIXEL)
    (tmp_path / "suite/notes.md").write_text("notes")
    text = '[[cases]]\nid = "it"\nprompts = [{ text = "kinds", images = ["dot.png"], files = ["notes.md"] }]\n'
    _, run = await run_cases(tmp_path, text, agents={"it": AGENT})

    assert next(iter(run.records())).result().output == "text resource image"


async def test_settings_are_set_read_back_and_recorded(tmp_path: Path) -> None:
    text = '[[cases]]\nid = "it"\nprompts = ["say x"]\nsession = { mode = "code" }\n'
    _, run = await run_cases(tmp_path, text, agents={"it": AGENT})

    settings = next(iter(run.records())).manifest().settings
    assert settings.requested == {"mode": "code"}
    assert settings.reported["mode"] == "code"


async def test_permissions_follow_the_rules_of_the_case(tmp_path: Path) -> None:
    text = """
[[cases]]
id = "allowed"
prompts = ["ask notes.txt"]
permissions = { edit = { "notes.txt" = "allow" } }
[[cases]]
id = "other"
prompts = ["ask other.txt"]
permissions = { edit = { "notes.txt" = "allow" } }
[[cases]]
id = "asked"
prompts = ["ask other.txt"]
on_ask = "allow"
"""
    _, run = await run_cases(tmp_path, text, agents={"it": AGENT})

    outputs = {record.result().key.case: record.result().output for record in run.records()}
    assert outputs == {"allowed": "allow_once", "other": "reject_once", "asked": "allow_once"}
    denied = {record.result().key.case: record.result().metrics.permissions_denied for record in run.records()}
    assert denied == {"allowed": 0, "other": 1, "asked": 0}


async def test_forms_are_answered_by_the_first_reply_that_matches(tmp_path: Path) -> None:
    text = """
[[cases]]
id = "it"
prompts = ["form Which colour?", "form Delete everything?", "form Anything else?"]
elicitations = [
  { matches = "colour", content = { color = "red" } },
  { matches = "Delete", action = "decline" },
]
"""
    _, run = await run_cases(tmp_path, text, agents={"it": AGENT})

    steps = next(iter(run.records())).trajectory()
    assert [step.status for step in steps if step.type == "elicitation"] == ["accept", "decline", "cancel"]


async def test_a_simulated_user_goes_on_until_it_is_done(tmp_path: Path) -> None:
    user = write_user(tmp_path)
    text = f"""
[[cases]]
id = "it"
prompts = ["say What do you want?"]
simulated_user = {{ agent = {json.dumps(user)}, persona = "You want tea." }}
graders = [{{ type = "text", equals = "tea with milk" }}]
"""
    end, run = await run_cases(tmp_path, text, agents={"it": AGENT})

    record = next(iter(run.records()))
    assert record.result().output == "tea with milk"
    assert len(record.result().stop_reasons) == 3
    assert "You want tea." in (record.directory / "user.acp").read_text()
    assert end.progress.passed == 1


@pytest.mark.parametrize(
    ("of_user", "of_agent", "kind", "output"),
    [(90.0, 5.0, "completed", "tea"), (0.0, 45.0, "agent_exhausted_budget", "")],
    ids=["slow user", "slow agent"],
)
async def test_the_time_of_a_simulated_user_is_not_that_of_the_agent(
    tmp_path: Path, virtual_time: VirtualClock, of_user: float, of_agent: float, kind: str, output: str
) -> None:
    agent, user = Agent("echo"), Agent("user")
    replies = iter(["tea", "DONE"])

    @agent.on_prompt
    async def answer(turn: Turn) -> None:
        await asyncio.sleep(of_agent)
        await turn.say(turn.text)

    @user.on_prompt
    async def reply(turn: Turn) -> None:
        await asyncio.sleep(of_user)
        await turn.say(next(replies))

    simulated = SimulatedUser(agent="user", persona="You want tea.")
    timeouts = Timeouts(trial=60, turn=1000)
    case = Case(id="it", prompts=["What do you want?"], simulated_user=simulated, timeouts=timeouts)
    async with (
        connect(agent) as evaluated,
        connect(user) as playing,
        evaluated.new_session(tmp_path) as session,
        playing.new_session(tmp_path) as own_session,
    ):
        conversation = Conversation(session, case, UserAgent(own_session, simulated, 1000.0))
        outcome = await conversation.run()

    assert (outcome.kind, conversation.output) == (kind, output)
    assert virtual_time.elapsed >= 60


async def test_a_simulated_user_that_fails_is_no_failure_of_the_agent(tmp_path: Path) -> None:
    text = (
        '[[cases]]\nid = "it"\nprompts = ["say x"]\nsimulated_user = { agent = "false", persona = "You want tea." }\n'
    )
    end, run = await run_cases(tmp_path, text, agents={"it": AGENT}, options={"retries": 0})

    result = next(iter(run.records())).result()
    assert (result.outcome.kind, end.progress.missing) == ("harness_failed", 1)
    assert "simulated user" in result.outcome.detail


def write_user(folder: Path) -> str:
    """Write what a user says who wants two things; return the command of the agent that plays this user."""
    lines = folder / "user.txt"
    lines.write_text("say tea\nsay tea with milk\nDONE\n")
    return f"{AGENT} --lines {lines}"


async def test_an_agent_object_is_run_in_this_process(tmp_path: Path) -> None:
    agent = Agent("echo")

    @agent.on_prompt
    async def answer(turn: Turn) -> None:
        await turn.say(turn.text.upper())

    text = '[[cases]]\nid = "it"\nprompts = ["hello"]\ngraders = [{ type = "text", equals = "HELLO" }]\n'
    end, run = await run_cases(tmp_path, text, agents={"mine": agent}, trials=2)

    assert end.progress.passed == 2
    assert run.manifest.agents[0].name == "echo"
    assert run.manifest.agents[0].command == []


async def test_a_recording_is_played_again(tmp_path: Path) -> None:
    text = '[[cases]]\nid = "it"\nprompts = ["say hello"]\ngraders = [{ type = "text", equals = "hello" }]\n'
    _, first = await run_cases(tmp_path / "one", text, agents={"it": AGENT})
    wire = next(iter(first.records())).wire_file

    end, run = await run_cases(tmp_path / "two", text, agents=[f"replay:{wire}"])

    assert end.progress.passed == 1
    assert run.manifest.agents[0].label == "wire"
    assert replay_agent(wire).notes is not None


async def test_a_suite_can_be_run_by_its_tags(tmp_path: Path) -> None:
    text = """
[[cases]]
id = "one"
prompts = ["say 1"]
tags = ["quick"]
[[cases]]
id = "two"
prompts = ["say 2"]
"""
    _, run = await run_cases(tmp_path, text, agents={"it": AGENT}, cases=["quick"])

    assert run.manifest.cases == ["one"]
    assert write_suite(tmp_path / "other", text).exists()
