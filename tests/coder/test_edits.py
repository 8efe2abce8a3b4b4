"""The coding agent edits files and runs commands, if the mode and the user allow it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from duologue.client.permissions.request import PermissionRequest
from duologue.testing import ModelServer, ModelTurn, RequestPattern, tool_call
from tests.coder.client import User, coding

FIXED = "def add(a, b):\n    return a + b\n"
EDIT = tool_call("edit_file", path="calc.py", old_text="a - b", new_text="a + b")
COMMAND = "python3 -c 'import calc; print(40 + calc.add(1, 1))'"
RUN = tool_call("run_command", command=COMMAND)


async def test_a_file_is_read_and_edited_in_edit_mode_without_a_question(project: Path) -> None:
    user = User()
    script = [
        ModelTurn("I look. ", tools=[tool_call("read_file", path="calc.py")]),
        ModelTurn(tools=[EDIT], expect=RequestPattern(tool_result="return a - b")),
        ModelTurn("Fixed.", expect=RequestPattern(tool_result="Edited calc.py")),
    ]
    async with asyncio.timeout(120), ModelServer(script) as server, coding(project, server, user) as session:
        turn = await session.prompt("fix add")
        server.check()

    assert (turn.stop_reason, turn.text) == ("end_turn", "I look. Fixed.")
    assert (project / "calc.py").read_text() == FIXED
    assert user.requests == []
    read, edit = session.transcript.tool_calls
    assert (read.title, read.kind, read.status) == ("Read calc.py", "read", "completed")
    assert (edit.title, edit.kind, edit.status) == ("Edit calc.py", "edit", "completed")
    (change,) = edit.changes
    assert (change.path, change.new_text) == (str(project / "calc.py"), FIXED)


async def test_a_command_is_asked_about_once_and_runs_in_the_terminal_of_the_editor(project: Path) -> None:
    user = User()
    script = [ModelTurn(tools=[RUN]), ModelTurn("Ran.", expect=RequestPattern(tool_result="40"))]
    async with asyncio.timeout(120), ModelServer(script) as server, coding(project, server, user) as session:
        turn = await session.prompt("run it")
        server.check()

    assert turn.text == "Ran."
    # The editor's own policy sees the command again when it starts, and finds that the user allowed exactly this.
    assert user.methods == {"session/request_permission"}
    assert user.titles == [COMMAND]
    (call,) = session.transcript.tool_calls
    assert call.status == "completed"


async def test_a_rejected_command_does_not_run_and_the_model_learns_of_it(project: Path) -> None:
    user = User(["reject_once"])
    script = [
        ModelTurn(tools=[tool_call("run_command", command="touch made")]),
        ModelTurn("I did not.", expect=RequestPattern(tool_result="the user did not permit this")),
    ]
    async with asyncio.timeout(120), ModelServer(script) as server, coding(project, server, user) as session:
        turn = await session.prompt("make it")
        server.check()

    assert turn.stop_reason == "end_turn"
    assert not (project / "made").exists()
    assert session.transcript.tool_calls[0].status == "failed"


async def test_a_protected_file_is_asked_about_with_the_exact_change(project: Path) -> None:
    (project / "AGENTS.md").write_text("old\n")
    user = User(["reject_once"])
    write = tool_call("write_file", path="AGENTS.md", content="new\n")
    script = [ModelTurn(tools=[write]), ModelTurn("No."), ModelTurn(tools=[write]), ModelTurn("Yes.")]
    async with asyncio.timeout(120), ModelServer(script) as server, coding(project, server, user) as session:
        await session.prompt("write it")
        assert (project / "AGENTS.md").read_text() == "old\n"
        await session.prompt("write it all the same")

    assert (project / "AGENTS.md").read_text() == "new\n"
    (change,) = user.requests[0].tool.changes
    assert (change.old_text, change.new_text) == ("old\n", "new\n")
    assert user.methods == {"session/request_permission"}  # it is the agent that asks, also in editors without rules


async def test_a_file_that_changes_while_the_user_is_asked_is_not_overwritten(project: Path) -> None:
    agents = project / "AGENTS.md"
    agents.write_text("old\n")

    def type_meanwhile(request: PermissionRequest) -> None:
        agents.write_text("typed by the user\n")

    user = User(on_request=type_meanwhile)
    script = [
        ModelTurn(tools=[tool_call("write_file", path="AGENTS.md", content="new\n")]),
        ModelTurn("Hm.", expect=RequestPattern(tool_result="changed while the user was asked")),
    ]
    async with asyncio.timeout(120), ModelServer(script) as server, coding(project, server, user) as session:
        await session.prompt("write it")
        server.check()

    assert agents.read_text() == "typed by the user\n"


@pytest.mark.parametrize("name", [".env", "keys/server.pem", "id_rsa", ".aws/credentials"])
async def test_a_file_with_secrets_is_neither_read_nor_found_nor_written(project: Path, name: str) -> None:
    secret = project / name
    secret.parent.mkdir(exist_ok=True)
    secret.write_text("PASSWORD=hunter2\n")
    (project / "link.txt").symlink_to(secret)
    script = [
        ModelTurn(
            tools=[
                tool_call("read_file", path=name),
                tool_call("read_file", path="link.txt"),
                tool_call("search_files", pattern="PASSWORD"),
                tool_call("write_file", path=name, content="x"),
            ]
        ),
        ModelTurn("I cannot.", expect=RequestPattern(absent="hunter2", tool_result="denied by pattern")),
    ]
    async with asyncio.timeout(120), ModelServer(script) as server, coding(project, server) as session:
        await session.prompt("what is the password?")
        server.check()

    assert secret.read_text() == "PASSWORD=hunter2\n"


async def test_a_command_that_is_known_is_offered_with_any_arguments_and_no_option_twice(
    project: Path, tmp_path: Path
) -> None:
    user = User(["allow_rule_0"])
    commands = ["git status", "git status --short", "git commit"]
    runs = [ModelTurn(tools=[tool_call("run_command", command=command)]) for command in commands]
    script = [turn for run in runs for turn in (run, ModelTurn("Ran."))]
    async with (
        asyncio.timeout(120),
        ModelServer(script) as server,
        coding(project, server, user, memory=tmp_path / "decisions.jsonl") as session,
    ):
        for command in commands:
            await session.prompt(command)

    asked = [request for request in user.requests if request.method == "session/request_permission"]
    assert [request.tool.title for request in asked] == ["git status", "git commit"]
    names = [option.name for option in asked[0].options]
    assert names == [
        "Allow once",
        "Always allow `git status` in this directory",
        "Always allow `git status *` in this directory",
        "Reject",
        "Always reject `git status` in this directory",
    ]


async def test_an_always_answer_counts_in_this_directory_also_for_later_sessions(project: Path, tmp_path: Path) -> None:
    first, second = User(["allow_always"]), User(["allow_once", "reject_once"])
    run = ModelTurn(tools=[tool_call("run_command", command="touch made")])
    other = ModelTurn(tools=[tool_call("run_command", command="touch other")])
    memory = tmp_path / "decisions.jsonl"
    script = [run, ModelTurn("1"), run, ModelTurn("2"), other, ModelTurn("3")]
    async with asyncio.timeout(120), ModelServer(script) as server:
        async with coding(project, server, first, memory=memory) as session:
            await session.prompt("make it")
        (project / "made").unlink()
        async with coding(project, server, second, memory=memory) as session:
            await session.prompt("make it again")
            await session.prompt("make another")

    assert (project / "made").exists()
    assert not (project / "other").exists()
    # The agent does not ask about the first command again; the editor, which has rules of its own, does.
    assert [request.method for request in second.requests] == ["terminal/create", "session/request_permission"]


async def test_a_command_that_was_allowed_once_is_asked_about_again(project: Path, tmp_path: Path) -> None:
    user = User()
    run = ModelTurn(tools=[tool_call("run_command", command="touch made")])
    script = [run, ModelTurn("1"), run, ModelTurn("2")]
    async with (
        asyncio.timeout(120),
        ModelServer(script) as server,
        coding(project, server, user, memory=tmp_path / "decisions.jsonl") as session,
    ):
        await session.prompt("make it")
        await session.prompt("make it again")

    assert user.titles == ["touch made", "touch made"]
    assert not (tmp_path / "decisions.jsonl").exists()


async def test_keys_of_models_are_not_in_the_environment_of_commands(project: Path) -> None:
    script = [
        ModelTurn(tools=[tool_call("run_command", command="env")]),
        ModelTurn("Looked.", expect=RequestPattern(tool_result="PATH=", absent="OPENAI_API_KEY")),
    ]
    async with asyncio.timeout(120), ModelServer(script) as server, coding(project, server) as session:
        await session.prompt("look")
        server.check()
