"""The thirty small tasks of the example suite, solved by the coding agent with a scripted model."""

from __future__ import annotations

import asyncio
import sys
import tomllib
from pathlib import Path
from typing import Any

from duologue.testing import ModelServer, ModelTurn, tool_call
from tests.coder.client import User, coder, open_client

EXAMPLES = Path(__file__).parents[2] / "examples" / "evals"
CASES: list[dict[str, Any]] = tomllib.loads((EXAMPLES / "suite.toml").read_text("utf-8"))["cases"]


def script_of(case: dict[str, Any]) -> list[ModelTurn]:
    """Return the turns of a model that looks at the files and writes the solution."""
    read = [tool_call("read_file", path=file["path"]) for file in case["files"]]
    write = [tool_call("write_file", path=file["path"], content=file["text"]) for file in case["solution"]]
    return [
        ModelTurn("I look. ", tools=read or [tool_call("list_directory")]),
        ModelTurn(tools=write),
        ModelTurn("Done."),
    ]


async def grade(case: dict[str, Any], root: Path) -> str:
    """Run the checks of a case in its directory; return what fails."""
    found: list[str] = []
    for grader in case["graders"]:
        if grader["type"] == "command":
            command = [word.replace("{tests}", str(EXAMPLES / "checks")) for word in grader["command"]]
            child = await asyncio.create_subprocess_exec(
                sys.executable, *command[1:], cwd=root, stderr=asyncio.subprocess.PIPE
            )
            _, errors = await child.communicate()
            found += [f"{case['id']}: {errors.decode()}"] if child.returncode else []
    return "\n".join(found)


async def solve_all(folder: Path) -> tuple[list[str], list[list[tuple[str, str]]]]:
    """Solve all tasks in sessions of one agent; return what fails, and the tool calls of each."""
    failures: list[str] = []
    calls: list[list[tuple[str, str]]] = []
    async with ModelServer() as server, open_client(folder, coder(server, folder / "data"), User()) as agent:
        for case in CASES:
            root = folder / case["id"]
            for file in case["files"]:
                path = root / file["path"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(file["text"])
            root.mkdir(exist_ok=True)
            server.add(*script_of(case))
            async with agent.new_session(root) as session:
                await session.prompt(case["prompts"][0])
                calls.append([(call.title, call.status) for call in session.transcript.tool_calls])
            failures += filter(None, [await grade(case, root)])
        server.check()
    return failures, calls


async def test_the_thirty_tasks_pass_with_a_scripted_model_and_are_identical_twice(tmp_path: Path) -> None:
    assert len(CASES) == 30
    async with asyncio.timeout(280):
        (tmp_path / "first").mkdir()
        (tmp_path / "second").mkdir()
        first = await solve_all(tmp_path / "first")
        second = await solve_all(tmp_path / "second")

    assert first[0] == []
    assert second == first
