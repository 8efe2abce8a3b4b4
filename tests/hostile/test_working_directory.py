"""A command runs in the directory that the rules evaluated, or not at all.

The attacks swap or move the directory between the judgement and the start, by hand while a user is asked, and from a
process of its own as fast as it can.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from duologue.client.permissions.request import PermissionRequest
from duologue.client.services import working_directory
from duologue.client.services.terminals import Terminals
from tests.client.scripted_agent import Json, ScriptedAgent, result
from tests.transports.conftest import nothing_left

__all__ = ["nothing_left"]

pytestmark = [pytest.mark.timeout(60), pytest.mark.fault("TRM-27")]

# Makes `link` lead to each of the directories in turn, always by one rename, until its input ends.
SWAPPER = """
import itertools, os, select, sys
link, *places = sys.argv[1:]
for place in itertools.islice(itertools.cycle(places), 10_000_000):
    os.symlink(place, link + ".new")
    os.rename(link + ".new", link)
    if select.select([0], [], [], 0)[0]:
        break
"""


@contextmanager
def swapping(link: Path, *targets: Path) -> Generator[None]:
    link.symlink_to(targets[0])
    argv = [sys.executable, "-c", SWAPPER, str(link), *map(str, targets)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as swapper:
        yield
        swapper.communicate()
    assert swapper.returncode == 0


async def commands_in(cwd: Path, times: int, rules: Permissions, project: Path) -> list[str | int]:
    """Run `pwd -P` there several times over the wire; return each output, or the error code if it may not run."""
    seen: list[str | int] = []

    async def run(params: Json) -> Json:
        for _ in range(times):
            wanted = {"sessionId": "s1", "command": "pwd", "args": ["-P"], "cwd": str(cwd)}
            made = await agent.ask("terminal/create", wanted)
            if "error" in made:
                seen.append(made["error"]["code"])
                continue
            terminal = {"sessionId": "s1", "terminalId": made["result"]["terminalId"]}
            await agent.ask("terminal/wait_for_exit", terminal)
            seen.append((await agent.ask("terminal/output", terminal))["result"]["output"].strip())
            await agent.ask("terminal/release", terminal)
        return result(stopReason="end_turn")

    agent = ScriptedAgent(prompt=run)
    async with (
        asyncio.timeout(60),
        connect(agent, permissions=rules, terminals=Terminals()) as remote,
        remote.new_session(project) as session,
    ):
        await session.prompt("go")
    return seen


@pytest.fixture(params=["handles", "no handles"])
def handles(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the directory of open files that Linux has, and without it, as on other systems."""
    if request.param == "no handles":
        monkeypatch.setattr(working_directory, "OPEN_FILES", "/nowhere")
    return str(request.param)


async def test_a_link_that_is_swapped_all_the_time_never_leads_a_command_elsewhere(
    tmp_path: Path, handles: str
) -> None:
    """An allowing rule is about the session's directory itself, and not about one in it that the agent has filled."""
    project = tmp_path / "project"
    evil = project / "evil"
    evil.mkdir(parents=True)

    def slow(record: dict[str, Any]) -> None:
        """Delay the audit log after the decision until the link leads elsewhere."""
        for _ in range(1_000_000):
            if (project / "link").readlink() == evil:
                return

    rules = Permissions(execute={"pwd -P": "allow", "*": "reject"}, audit=slow)
    with swapping(project / "link", project, evil):
        seen = await commands_in(project / "link", 60, rules, project)

    assert len(seen) == 60
    assert set(seen) <= {str(project), -32600, -32602}


@pytest.mark.parametrize("attack", ["swap the link", "replace the directory", "move the directory", "remove it"])
async def test_a_directory_that_changes_while_a_user_is_asked_is_not_used(
    tmp_path: Path, attack: str, handles: str
) -> None:
    project, shown = tmp_path / "project", list[str]()
    checked, evil = project / "checked", project / "evil"
    checked.mkdir(parents=True)
    evil.mkdir()
    link = project / "link"
    link.symlink_to("checked")

    def swap() -> None:
        link.unlink()
        link.symlink_to("evil")

    def replace() -> None:
        checked.rename(project / "away")
        checked.symlink_to("evil")

    attacks: dict[str, Callable[[], object]] = {
        "swap the link": swap,
        "replace the directory": replace,
        "move the directory": lambda: checked.rename(tmp_path / "outside"),
        "remove it": checked.rmdir,
    }

    async def user(question: PermissionRequest) -> bool:
        shown.extend(question.notes)
        attacks[attack]()
        return True

    seen = await commands_in(link, 1, Permissions(on_request=user), project)

    assert shown == [f"runs in {checked}"]
    assert seen == ([str(checked)] if attack == "swap the link" else [-32602])


async def test_a_directory_swapped_before_the_evaluation_is_evaluated_where_it_was_opened(
    tmp_path: Path, handles: str
) -> None:
    """The agent moves its directory away and leaves a link to the session's own, where a rule would allow it."""
    project = tmp_path / "project"
    evil = project / "evil"
    evil.mkdir(parents=True)

    class Slow(Permissions):
        """The attack happens between opening and judging."""

        async def check_command(self, *args: object, **options: object) -> None:
            evil.rename(project / "moved")
            evil.symlink_to(".")
            await super().check_command(*args, **options)  # type: ignore[arg-type]

    seen = await commands_in(evil, 1, Slow(execute={"pwd -P": "allow", "*": "reject"}), project)
    assert seen == [-32600]


async def test_a_directory_outside_is_rejected_before_the_user_is_asked(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()

    async def user(question: PermissionRequest) -> bool:
        raise AssertionError("asked about a command that could never run")

    assert await commands_in(tmp_path, 1, Permissions(on_request=user), project) == [-32602]
