"""Remembered answers: for exactly what they were given, and no longer than was said."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from duologue.client.permissions.actions import Action
from duologue.client.permissions.policy import Permissions
from duologue.client.permissions.remembered import TurnGrants
from duologue.client.permissions.request import PermissionRequest, Scope
from tests.client.permission_requests import User, question, runs, writes

pytestmark = pytest.mark.timeout(30)


@pytest.mark.fault("PRM-05")
async def test_always_covers_exactly_what_it_was_said_about(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    user = User(lambda asked: asked.allow(always=True))
    permissions = Permissions(on_request=user).for_agent("one")

    async def is_asked(act: Any) -> bool:
        before = len(user.asked)
        assert await act
        return len(user.asked) > before

    assert await is_asked(writes(permissions, tmp_path, tmp_path / "a"))
    assert not await is_asked(writes(permissions, tmp_path, tmp_path / "a"))
    permissions.cancel("s")
    assert not await is_asked(writes(permissions, tmp_path, tmp_path / "a"))
    assert await is_asked(writes(permissions, tmp_path, tmp_path / "b"))
    assert await is_asked(writes(permissions, tmp_path, tmp_path / "a", session_id="t"))
    assert await is_asked(writes(permissions, other, tmp_path / "a"))
    assert await is_asked(writes(permissions.for_agent("two"), tmp_path, tmp_path / "a"))

    assert await is_asked(runs(permissions, tmp_path, "git", "status"))
    assert not await is_asked(runs(permissions, tmp_path, "git status"))
    assert await is_asked(runs(permissions, tmp_path, "git", "status", "-s"))
    assert await is_asked(runs(permissions, tmp_path, "git", "status", directory=other))
    assert await is_asked(runs(permissions, tmp_path, "git", "status", env={"GIT_PAGER": "x"}))
    assert await is_asked(runs(permissions, tmp_path, "git status; x"))
    assert not await is_asked(runs(permissions, tmp_path, "git status; x"))
    assert await is_asked(runs(permissions, tmp_path, "git status; y"))

    permissions.forget_session("s")
    assert await is_asked(writes(permissions, tmp_path, tmp_path / "a"))


@pytest.mark.fault("PRM-05")
async def test_always_for_a_tool_without_file_or_command_is_about_that_very_call() -> None:
    user = User(lambda asked: asked.allow(always=True))
    permissions = Permissions(on_request=user)

    for _ in range(2):
        await permissions.decide(question(kind="other", raw_input={"to": "ann"}))
    assert len(user.asked) == 1
    await permissions.decide(question(kind="other", raw_input={"to": "bob"}))
    await permissions.decide(question(kind="fetch", raw_input={"to": "ann"}))
    assert len(user.asked) == 3


def test_an_allowed_action_is_covered_completely_or_not_at_all() -> None:
    edit, protected = Action("edit", "/project/file"), Action("protected", "/project/file")
    turn = TurnGrants()
    turn.grant([edit])

    assert not turn.consume([edit, protected])
    assert turn.consume([edit])
    assert not turn.consume([edit])


async def test_an_answer_for_the_turn_ends_with_it(tmp_path: Path) -> None:
    user = User(lambda asked: asked.allow(remember="turn"))
    permissions = Permissions(on_request=user)

    for _ in range(3):
        assert await writes(permissions, tmp_path, tmp_path / "a")
    assert len(user.asked) == 1
    permissions.cancel("s")
    assert await writes(permissions, tmp_path, tmp_path / "a")
    assert len(user.asked) == 2


async def test_an_answer_for_the_project_is_kept_in_a_file_that_only_we_can_read(tmp_path: Path) -> None:
    memory, project, other = tmp_path / "state" / "answers", tmp_path / "project", tmp_path / "other"
    project.mkdir()
    other.mkdir()
    yes = User(lambda asked: asked.allow(remember="project"))
    first = Permissions(on_request=yes, memory=memory).for_agent("one")
    assert await writes(first, project, project / "a")
    first.forget_session("s")

    later = Permissions(memory=memory).for_agent("one")
    assert await writes(later, project, project / "a", session_id="another")
    assert not await writes(later, other, project / "a")
    assert not await writes(later, project, project / "b")
    assert not await writes(Permissions(memory=memory).for_agent("two"), project, project / "a")
    assert memory.stat().st_mode & 0o777 == 0o600


async def test_an_answer_is_forgotten_when_its_time_is_over(tmp_path: Path) -> None:
    past = User(lambda asked: asked.allow(remember="session", seconds=-1))
    soon = User(lambda asked: asked.allow(remember="session", seconds=3600))

    for user, times in ((past, 2), (soon, 1)):
        permissions = Permissions(on_request=user)
        assert [await writes(permissions, tmp_path, tmp_path / "a") for _ in range(2)] == [True, True]
        assert len(user.asked) == times


async def test_a_remembered_no_beats_a_rule_that_allows_and_a_remembered_yes_no_rule_that_rejects(
    tmp_path: Path,
) -> None:
    project, noes, yeses = tmp_path / "project", tmp_path / "noes", tmp_path / "yeses"
    project.mkdir()
    no = User(lambda asked: asked.reject(remember="project"))
    yes = User(lambda asked: asked.allow(remember="project"))
    assert not await writes(Permissions(on_request=no, memory=noes), project, project / "a")
    assert await writes(Permissions(on_request=yes, memory=yeses), project, project / "a")

    assert not await writes(Permissions(edit="allow", memory=noes), project, project / "a")
    assert await writes(Permissions(edit="allow", memory=noes), project, project / "b")
    assert await writes(Permissions(memory=yeses), project, project / "a")
    assert not await writes(Permissions(edit={"a": "reject"}, memory=yeses), project, project / "a")


@pytest.mark.fault("PRM-15")
@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e", "\r", "\n"])
@pytest.mark.parametrize("scope", ["turn", "session", "project"])
async def test_an_answer_about_a_name_with_a_line_separator_is_remembered(
    character: str, scope: Scope, tmp_path: Path
) -> None:
    project, memory = tmp_path / "project", tmp_path / "answers"
    project.mkdir()
    path = project / f"a{character}b"
    no = User(lambda asked: asked.reject(remember=scope))
    first = Permissions(on_request=no, memory=memory)
    assert [await writes(first, project, path) for _ in range(2)] == [False, False]
    assert len(no.asked) == 1

    later = Permissions(edit="allow", memory=memory)
    assert await writes(later, project, path) is (scope != "project")
    assert await writes(later, project, project / "ab")


SCOPES: list[Scope] = ["turn", "session", "project"]


@pytest.mark.fault("PRM-16")
@pytest.mark.parametrize(("yes", "no"), [(yes, no) for yes in SCOPES for no in SCOPES])
@pytest.mark.parametrize("is_no_first", [True, False])
async def test_a_remembered_yes_never_beats_a_remembered_no(
    yes: Scope, no: Scope, is_no_first: bool, tmp_path: Path
) -> None:
    """Two questions about the same thing are open at once, and get both answers."""
    asked: asyncio.Queue[PermissionRequest] = asyncio.Queue()

    async def never(each: PermissionRequest) -> None:
        asked.put_nowait(each)
        await asyncio.Event().wait()

    permissions = Permissions(on_request=never, memory=tmp_path / "answers", max_concurrent=2)
    project = tmp_path / "project"
    project.mkdir()

    def act(is_command: bool) -> Coroutine[Any, Any, bool]:
        if is_command:
            return runs(permissions, project, "git", "log", "-1")
        return writes(permissions, project, project / "a")

    for is_command in (False, True):
        waiting = [asyncio.ensure_future(act(is_command)) for _ in range(2)]
        first, second = [await asked.get() for _ in waiting]
        rejected, allowed = (first, second) if is_no_first else (second, first)
        if is_no_first:
            assert rejected.reject(remember=no)
        assert allowed.allow(remember=yes, rule=allowed.offered_rules[-1] if is_command else None)
        if not is_no_first:
            assert rejected.reject(remember=no)
        assert sorted(await asyncio.gather(*waiting)) == [False, True]

        assert not await act(is_command)
        assert asked.empty()


@pytest.mark.fault("PRM-16")
async def test_a_rejection_by_another_process_counts_at_once_and_what_it_allowed_from_the_next_start(
    tmp_path: Path,
) -> None:
    project, memory = tmp_path / "project", tmp_path / "answers"
    project.mkdir()
    yes = User(lambda asked: asked.allow(remember="project"))
    no = User(lambda asked: asked.reject(remember="project"))
    here = Permissions(on_request=yes, memory=memory)
    there = Permissions(on_request=no, memory=memory)
    assert await writes(here, project, project / "a")
    assert not await writes(there, project, project / "a")
    assert not await writes(here, project, project / "a")

    assert await writes(Permissions(on_request=yes, memory=memory), project, project / "b")
    assert await writes(here, project, project / "b")
    assert [Path(each.paths[0]).name for each in yes.asked] == ["a", "b", "b"]


@pytest.mark.fault("PRM-16")
async def test_a_rejection_that_cannot_be_written_still_counts_here(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = tmp_path / "answers"
    user = User(lambda asked: asked.reject(remember="project"))
    permissions = Permissions(on_request=user, memory=memory)
    memory.mkdir()

    assert [await writes(permissions, tmp_path, tmp_path / "a", session_id=each) for each in "st"] == [False, False]
    assert len(user.asked) == 1
    assert "could not be remembered" in caplog.text


async def test_a_damaged_memory_is_not_believed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    memory = tmp_path / "answers"
    memory.write_text('{"word":"allow"}\nnonsense\n{"word":"yes","agent":"","cwd":"/","kind":"edit"}\n')
    memory.chmod(0o600)

    assert not await writes(Permissions(memory=memory), tmp_path, tmp_path / "a")
    assert caplog.text.count("cannot be read") == 3


async def test_a_rule_that_was_offered_can_be_remembered(tmp_path: Path) -> None:
    user = User(lambda asked: asked.allow(rule=asked.offered_rules[-1]))
    permissions = Permissions(on_request=user)

    assert await runs(permissions, tmp_path, "git", "log", "-1")
    assert await runs(permissions, tmp_path, "git", "log", "--oneline")
    assert len(user.asked) == 1
    assert await runs(permissions, tmp_path, "git", "log", "--output=x")
    assert await runs(permissions, tmp_path, "git", "log; x")
    assert len(user.asked) == 3
    (tmp_path / "deeper").mkdir()
    assert await runs(permissions, tmp_path, "git", "log", "-1", directory=str(tmp_path / "deeper"))
    assert len(user.asked) == 4

    with pytest.raises(ValueError, match="none of `offered_rules`"):
        question(command="git log").allow(rule="*")


async def test_a_rule_in_the_memory_that_means_everything_is_not_obeyed(tmp_path: Path) -> None:
    project, memory = tmp_path / "project", tmp_path / "answers"
    project.mkdir()
    remember = User(lambda asked: asked.allow(remember="project", rule=asked.offered_rules[-1]))
    assert await runs(Permissions(on_request=remember, memory=memory), project, "git", "log", "-1")
    assert await runs(Permissions(memory=memory), project, "git", "log", "-2")

    memory.write_text(memory.read_text().replace("git log *", "git *"))
    assert not await runs(Permissions(memory=memory), project, "git", "log", "-2")


async def test_an_answer_that_cannot_be_kept_counts_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    memory = tmp_path / "answers"
    user = User(lambda asked: asked.allow(remember="project"))
    permissions = Permissions(on_request=user, memory=memory)
    memory.mkdir()

    assert [await writes(permissions, tmp_path, tmp_path / "a") for _ in range(2)] == [True, True]
    assert len(user.asked) == 2
    assert "could not be remembered" in caplog.text


def test_a_memory_that_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a regular file"):
        Permissions(memory=tmp_path)
