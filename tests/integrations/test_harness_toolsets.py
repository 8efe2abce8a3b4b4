"""Toolsets of pydantic-ai-harness in the editor: the same agent, unchanged, with and without one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.workspaces import LocalWorkspaceBackend, WorkspaceBackend
from pydantic_ai_harness.filesystem import FileSystem
from pydantic_ai_harness.repo_context import RepoContext
from pydantic_ai_harness.shell import Shell

from duologue.agent.turn import Turn
from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from duologue.client.services.terminals import Terminals
from duologue.client.services.workspace import Workspace
from duologue.integrations.pydantic_ai import EditorWorkspace, acp_agent

TOOLS = [
    *("read_file", "write_file", "edit_file", "list_directory", "search_files", "find_files", "create_directory"),
    *("file_info", "grep", "list_files"),
]
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("read_file", {"path": "a.py"}),
    ("create_directory", {"path": "new"}),
    ("write_file", {"path": "new/b.py", "content": "print('b')\n"}),
    ("edit_file", {"path": "a.py", "replacements": [{"old_text": "'a'", "new_text": "'edited'"}]}),
    ("list_directory", {"path": "."}),
    ("search_files", {"pattern": "print"}),
    ("find_files", {"pattern": "**/*.py"}),
    ("grep", {"pattern": "print"}),
    ("list_files", {}),
    ("file_info", {"path": "new/b.py"}),
    ("read_file", {"path": "../outside"}),
    ("run_command", {"command": "cat a.py new/b.py; exit 3"}),
    ("read_file", {"path": "missing.py"}),
]


def agent_that_calls(calls: list[tuple[str, dict[str, Any]]], results: list[str]) -> PydanticAgent[object, str]:
    """Return an agent whose model makes these calls, one after the other, and notes their results."""

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        made = sum(isinstance(message, ModelResponse) for message in messages)
        last = messages[-1]
        if made and isinstance(last, ModelRequest):
            results.append(str(getattr(last.parts[-1], "content", "")))
        if made == len(calls):
            yield "done"
        else:
            name, arguments = calls[made]
            yield {0: DeltaToolCall(name=name, json_args=json.dumps(arguments), tool_call_id=f"call-{made}")}

    capabilities = [FileSystem(tools=TOOLS), Shell(tools=["run_command"]), RepoContext()]
    return PydanticAgent(FunctionModel(stream_function=answer), capabilities=capabilities, retries=5)


def project(directory: Path) -> Path:
    directory.mkdir(parents=True)
    (directory / "a.py").write_text("print('a')\n")
    (directory / "AGENTS.md").write_text("Be brief.\n")
    return directory


async def results_of(
    cwd: Path, make_workspace: Callable[[Turn[Any]], WorkspaceBackend], **services: Any
) -> tuple[list[str], list[str], list[str]]:
    """Let an agent make the calls; return their results, the questions to the user, and the methods called."""
    results, asked, methods = list[str](), list[str](), list[str]()

    async def allow(request: Any) -> Any:
        asked.append(request.tool.title)
        return request.allow()

    def observe(direction: str, frame: bytes) -> None:
        methods.append(json.loads(frame).get("method", ""))

    served = acp_agent(agent_that_calls(CALLS, results), run_options=lambda turn: {"workspace": make_workspace(turn)})
    permissions = Permissions(on_request=allow)
    async with (
        connect(served, permissions=permissions, observers=(observe,), **services) as remote,
        remote.new_session(cwd) as session,
    ):
        assert await session.ask("go") == "done"
    return results, asked, methods


async def test_the_same_agent_gets_the_same_results_in_an_editor_and_without_one(tmp_path: Path) -> None:
    first, second = project(tmp_path / "first" / "project"), project(tmp_path / "second" / "project")
    async with asyncio.timeout(60):
        alone, asked_alone, _ = await results_of(first, lambda turn: LocalWorkspaceBackend(turn.cwd))
        together, asked, methods = await results_of(
            second, EditorWorkspace, workspace=Workspace(), terminals=Terminals()
        )

    assert [text.replace(str(first.parent), "") for text in alone] == [
        text.replace(str(second.parent), "") for text in together
    ]
    assert together[-2] == "[stdout]\nprint('edited')\nprint('b')\n\n[exit code: 3]"
    assert (second / "a.py").read_text() == "print('edited')\n"
    # Only the command is asked for and runs in a terminal; searches do neither.
    assert asked_alone == []
    assert [title for title in asked if not title.startswith("edit ")] == [
        'run_command(command="cat a.py new/b.py; exit 3")'
    ]
    assert methods.count("terminal/create") == 1
    assert methods.count("fs/write_text_file") == 2


async def test_tools_read_and_edit_text_that_is_not_saved(tmp_path: Path) -> None:
    cwd = project(tmp_path / "project")
    editor = Workspace(overlay={str(cwd / "a.py"): "print('a')  # not saved\n"})
    async with asyncio.timeout(60):
        results, _, _ = await results_of(cwd, EditorWorkspace, workspace=editor, terminals=Terminals())

    assert "not saved" in results[0]
    assert (cwd / "a.py").read_text() == "print('edited')  # not saved\n"
