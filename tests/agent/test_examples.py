"""The agents of the examples, run as the programs they are."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from duologue.runtime.handlers import Context
from duologue.schema import v1
from duologue.testing import ModelServer, ModelTurn, RequestPattern, tool_call
from tests.agent.complete import ClientServices
from tests.agent.programs import EXAMPLES, program
from tests.agent.wire_client import EVERYTHING, RecordingClient


async def prompt(client: RecordingClient, session: str, text: str) -> str:
    """Return the agent's answer to a prompt."""
    client.updates.clear()
    assert (await client.prompt(session, text)).stop_reason == "end_turn"
    return client.text


async def test_the_smallest_agent_answers_and_keeps_its_sessions(tmp_path: Path) -> None:
    async with program(EXAMPLES / "smallest_agent.py", tmp_path) as (client, _):
        session = await client.new()
        assert await prompt(client, session, "hello") == "You said: hello"
        await client.close(session)
        client.updates.clear()
        await client.load(session)
        assert [type(update) for update in client.updates] == [v1.UserMessageChunk, v1.AgentMessageChunk]


async def test_the_notes_agent_reads_writes_runs_and_remembers(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("two words")
    home = tmp_path / "home"
    async with program(EXAMPLES / "notes_agent.py", tmp_path, home=str(home)) as (client, _):
        client.answer_permission()
        session = await client.new()
        assert "2 words" in await prompt(client, session, "What do I have?")
        assert client.asked == []
        await client.set_mode(session, "write")
        await client.prompt(session, " and more")
        [asked] = client.asked
        path = str(tmp_path / "notes.md")
        assert asked.tool_call.content == [v1.Diff(path=path, old_text="two words", new_text="two words and more")]
        assert asked.tool_call.locations == [v1.ToolCallLocation(path=path)]
        assert (tmp_path / "notes.md").read_text() == "two words and more"
        await client.prompt(session, "/clear")
        assert (tmp_path / "notes.md").read_text() == ""
    async with program(EXAMPLES / "notes_agent.py", tmp_path, home=str(home)) as (client, _):
        opened = await client.load(session)
        assert opened.modes is not None
        assert opened.modes.current_mode_id == "write"
        texts = [update.content.text for update in client.of(v1.UserMessageChunk)]
        assert texts == ["What do I have?", " and more", "/clear"]


async def test_the_careful_agent_asks_before_it_acts(tmp_path: Path) -> None:
    async with program(EXAMPLES / "careful_agent.py", tmp_path) as (client, _):
        client.answer_permission()
        session = await client.new()
        client.choose = "reject_once"
        await client.prompt(session, "write a.txt one")
        assert not (tmp_path / "a.txt").exists()
        assert client.asked[0].tool_call.content == [v1.Diff(path=str(tmp_path / "a.txt"), new_text="one")]

        client.choose = "allow_always"
        await client.prompt(session, "write a.txt one")
        await client.prompt(session, "write b.txt two")
        assert ((tmp_path / "a.txt").read_text(), (tmp_path / "b.txt").read_text()) == ("one", "two")
        assert len(client.asked) == 2

        await client.prompt(session, "delete a.txt")
        assert not (tmp_path / "a.txt").exists()
        client.choose = "reject_once"
        assert await prompt(client, session, "delete b.txt") == "I left b.txt alone."
        assert (tmp_path / "b.txt").exists()

        assert await prompt(client, session, "plan") == "The mode is plan."
        assert await prompt(client, session, "delete b.txt") == "I only plan for now."
        client.choose = "allow_once"
        assert await prompt(client, session, "plan") == "The mode is work."


@pytest.mark.parametrize("forms", [True, False])
async def test_the_release_agent_asks_for_what_it_needs(tmp_path: Path, forms: bool) -> None:
    capabilities = EVERYTHING if forms else {}
    async with program(EXAMPLES / "release_agent.py", tmp_path, **capabilities) as (client, _):
        services = ClientServices(client)
        session = await client.new()
        services.form = {"version": "1.2.3", "channel": "beta"}
        answer = await prompt(client, session, "go")
        assert answer == ("Releasing 1.2.3 on beta. Announced." if forms else "Then nothing is released.")
        services.form = {}
        assert await prompt(client, session, "go") == "Then nothing is released."
        asked = [message["params"]["mode"] for message in client.validator.calls("elicitation/create")]
        assert asked == (["form", "url", "form"] if forms else [])
        done = [message["params"]["elicitationId"] for message in client.validator.calls("elicitation/complete")]
        assert len(done) == (1 if forms else 0)


@pytest.mark.parametrize("offers", [True, False], ids=["the editor's terminal", "its own"])
async def test_the_watching_agent_runs_and_watches_commands(tmp_path: Path, offers: bool) -> None:
    async with program(EXAMPLES / "watching_agent.py", tmp_path, terminal=offers) as (client, _):
        services = ClientServices(client)
        services.output = "ready\n"
        session = await client.new()
        assert await prompt(client, session, "run echo one") == "It ended with 0 and printed 1 lines."
        assert await prompt(client, session, "serve sh -c 'echo ready; sleep 60'") == "The server is ready."
        assert client.statuses[-1] == "completed"
        assert services.released == (["term_0", "term_1"] if offers else [])
        if not offers:
            assert "could not be run" in await prompt(client, session, "run no-such-command")
            await prompt(client, session, "serve true")
            assert client.statuses[-1] == "failed"


async def test_the_remembering_agent_goes_on_where_it_was(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    async with program(EXAMPLES / "remembering_agent.py", tmp_path, home=home) as (client, _):
        session = await client.new()
        assert (await prompt(client, session, "one")).startswith("Prompt 1.")
        assert (await client.prompt(session, "a secret")).stop_reason == "refusal"
    async with program(EXAMPLES / "remembering_agent.py", tmp_path, home=home) as (client, _):
        [info] = (await client.sessions_page()).sessions
        assert (info.session_id, info.title) == (session, "one")
        await client.resume(session)
        answer = await prompt(client, session, "two")
        assert answer.startswith("Prompt 3. Before it we said: ['user: one', ")
        assert "agent: Prompt 1." in answer
        assert "secret" not in answer


async def test_the_wrapped_program_answers_and_is_killed_with_its_turn(tmp_path: Path) -> None:
    async with program(EXAMPLES / "wrap_program.py", tmp_path) as (client, _):
        session = await client.new()
        assert await prompt(client, session, "hello\nthere") == "HELLO\nTHERE"


async def test_the_agent_with_mcp_says_which_tools_there_are(tmp_path: Path) -> None:
    async with program(EXAMPLES / "agent_with_mcp.py", tmp_path) as (client, _):
        server = v1.McpServerStdio(name="broken", command="/bin/false", args=[], env=[])
        answer = await prompt(client, await client.new(mcp_servers=[server]), "what is there?")
        assert answer.startswith("broken does not work:")


async def test_an_editor_that_cancels_ends_any_of_them(tmp_path: Path) -> None:
    async with program(EXAMPLES / "watching_agent.py", tmp_path, terminal=True) as (client, _):
        services = ClientServices(client)
        waiting = asyncio.Event()

        @client.handlers.on(v1.TERMINAL_WAIT_FOR_EXIT)
        async def wait(context: Context, params: Any) -> v1.WaitForTerminalExitResponse:
            waiting.set()
            await asyncio.Event().wait()
            return v1.WaitForTerminalExitResponse()

        session = await client.new()
        turn = asyncio.ensure_future(client.prompt(session, "run sleep 60"))
        await waiting.wait()
        await client.cancel(session)
        assert (await turn).stop_reason == "cancelled"
        await client.until(lambda: services.released)


def test_the_tutorial_shows_what_the_first_agent_says(tmp_path: Path) -> None:
    page = (EXAMPLES.parent / "docs" / "tutorial" / "first-agent.md").read_text("utf-8")
    command = [sys.executable, "-m", "duologue.cli.main", "run", "hello", "--", sys.executable]
    ended = subprocess.run(
        [*command, str(EXAMPLES / "smallest_agent.py")],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        check=True,
    )

    assert f"```text\n{ended.stdout.strip()}\n```" in page


def test_the_settings_of_editors_name_a_command_and_its_arguments() -> None:
    page = (EXAMPLES.parent / "docs" / "how-to" / "editors.md").read_text("utf-8")
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]

    assert len(blocks) == 2
    for block in blocks:
        [server] = block["agent_servers"].values()
        assert (server["command"][0], server["args"], server["env"]) == ("/", ["/path/to/notes_agent.py"], {})


@pytest.mark.parametrize("offers", [True, False], ids=["the editor's files and terminal", "its own"])
async def test_the_workspace_agent_works_in_the_editor(tmp_path: Path, offers: bool) -> None:
    (tmp_path / "notes.txt").write_text("saved\n")
    capabilities = EVERYTHING if offers else {}
    async with program(EXAMPLES / "workspace_agent.py", tmp_path, **capabilities) as (client, _):
        services = ClientServices(client)
        services.files[str(tmp_path / "notes.txt")] = "not saved\n"
        services.output = "from the terminal"
        session = await client.new()
        before = "not saved\n" if offers else "saved\n"
        assert await prompt(client, session, "read notes.txt") == before
        assert client.asked == []
        assert await prompt(client, session, "append notes.txt more") == "appended"
        shown = [part for update in client.of(v1.ToolCallUpdate) for part in update.content or ()]
        path, file = str(tmp_path / "notes.txt"), tmp_path / "notes.txt"
        assert v1.Diff(path=path, old_text=before, new_text=f"{before}more\n") in shown
        assert (services.files[path] if offers else file.read_text()) == f"{before}more\n"

        output = "from the terminal" if offers else f"{tmp_path}\n"
        assert await prompt(client, session, "run pwd") == f"exit code 0\n{output}"
        assert [asked.tool_call.raw_input for asked in client.asked] == [{"command": "pwd"}]
        assert [terminal.args for terminal in services.terminals.values()] == ([["-c", "pwd"]] if offers else [])
        client.choose = "reject_once"
        assert await prompt(client, session, "run rm notes.txt") == "Run rm notes.txt: the user did not permit this"
        assert file.exists()


async def test_the_coding_agent_edits_and_runs_commands_where_its_mode_allows_it(
    tmp_path: Path, model_server: Callable[..., ModelServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tea.py").write_text("tea = 'black'\n")
    edit = {"path": "tea.py", "replacements": [{"old_text": "black", "new_text": "green"}]}
    server = model_server(
        [
            ModelTurn("It is black."),
            ModelTurn("", tools=[tool_call("edit_file", **edit)]),
            ModelTurn("", tools=[tool_call("run_command", command="cat tea.py")]),
            ModelTurn("Now it is green.", expect=RequestPattern(tool_result="tea = 'green'")),
        ]
    )
    monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
    monkeypatch.setenv("OPENAI_API_KEY", server.api_key)
    async with program(EXAMPLES / "coding_agent.py", tmp_path) as (client, _):
        client.answer_permission()
        session = await client.new()
        assert await prompt(client, session, "Which tea?") == "It is black."
        assert "edit_file" not in server.requests[0].tools
        await client.set_mode(session, "edit")
        assert await prompt(client, session, "I prefer green tea") == "Now it is green."
        assert (tmp_path / "tea.py").read_text() == "tea = 'green'\n"
        assert [asked.tool_call.raw_input for asked in client.asked] == [{"command": "cat tea.py"}]
    server.check()


@pytest.mark.parametrize("example", ["langgraph_agent", "pydantic_ai_agent"])
async def test_an_agent_of_another_library_reads_asks_before_it_deletes_and_has_a_mode(
    tmp_path: Path, example: str
) -> None:
    old = tmp_path / "old.txt"
    old.write_text("old text")
    async with program(EXAMPLES / f"{example}.py", tmp_path) as (client, _):
        client.answer_permission()
        session = await client.new()
        assert "old text" in await prompt(client, session, f"read {old}")
        assert "The result is" in await prompt(client, session, "/readme")
        await prompt(client, session, f"delete {old}")
        assert client.asked == []  # this mode only reads
        await client.set_mode(session, "edit")
        client.choose = "reject_once"
        assert "did not permit" in await prompt(client, session, f"delete {old}")
        assert old.exists()
        client.choose = "allow_once"
        assert "deleted" in await prompt(client, session, f"delete {old}")
        assert not old.exists()
        assert [asked.tool_call.raw_input for asked in client.asked] == [{"path": str(old)}] * 2


@pytest.mark.parametrize(
    "example",
    [
        "agent_with_mcp",
        "careful_agent",
        "langgraph_agent",
        "notes_agent",
        "pydantic_ai_agent",
        "release_agent",
        "remembering_agent",
        "smallest_agent",
        "watching_agent",
        "workspace_agent",
        "wrap_program",
    ],
)
async def test_every_agent_answers_hello_with_words(tmp_path: Path, example: str) -> None:
    async with program(EXAMPLES / f"{example}.py", tmp_path, home=str(tmp_path)) as (client, _):
        client.answer_permission()
        assert await prompt(client, await client.new(), "hello") != ""
