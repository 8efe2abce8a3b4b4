"""The permission policy decides alike for an agent that asks and for one that acts without asking."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from duologue.client.permissions.actions import MOST_PATHS
from duologue.client.permissions.policy import Permissions
from duologue.client.permissions.request import PermissionRequest
from tests.client.permission_requests import User, allowing_user, question, reads, runs, writes

pytestmark = pytest.mark.timeout(30)

# --- acts


@pytest.mark.fault("PRM-09")
async def test_an_act_that_never_asked_is_judged_all_the_same(tmp_path: Path) -> None:
    unattended = Permissions()
    assert await reads(unattended, tmp_path, tmp_path / "a")
    assert not await writes(unattended, tmp_path, tmp_path / "a")
    assert not await runs(unattended, tmp_path, "ls")

    by_rule = Permissions(read="reject", edit={"a": "allow"}, execute={"ls": "allow"})
    assert not await reads(by_rule, tmp_path, tmp_path / "a")
    assert await writes(by_rule, tmp_path, tmp_path / "a")
    assert not await writes(by_rule, tmp_path, tmp_path / "b")
    assert await runs(by_rule, tmp_path, "ls")
    assert not await runs(by_rule, tmp_path, "ls", "-l")

    user = allowing_user()
    assert await writes(Permissions(on_request=user), tmp_path, tmp_path / "a")
    assert user.asked[0].method == "fs/write_text_file"
    assert user.asked[0].paths == [str(tmp_path / "a")]


@pytest.mark.fault("PRM-09")
@pytest.mark.parametrize("shown", ["paths", "changes"])
async def test_an_allowed_tool_call_covers_the_write_it_announced_once(tmp_path: Path, shown: str) -> None:
    user = allowing_user()
    permissions = Permissions(on_request=user)

    assert await permissions.decide(question(tmp_path, **{shown: [tmp_path / "a", tmp_path / "b"]})) == "allow_once"  # type: ignore[arg-type]
    assert await writes(permissions, tmp_path, tmp_path / "a")
    assert await writes(permissions, tmp_path, tmp_path / "b")
    assert len(user.asked) == 1
    assert await writes(permissions, tmp_path, tmp_path / "a")
    assert len(user.asked) == 2


@pytest.mark.fault("PRM-09")
@pytest.mark.parametrize(
    ("announced", "done"),
    [
        ("npm test", ["npm", "test"]),
        ("npm test", ["npm test"]),
        ("npm test", ["bash", "-lc", "npm test"]),
        (["bash", "-lc", "npm test"], ["npm", "test"]),
        (["npm", "test"], ["npm test"]),
        ("a | b", ["sh", "-c", "a | b"]),
        ("a | b", ["a | b"]),
    ],
)
async def test_an_allowed_tool_call_covers_the_command_it_announced_once(
    tmp_path: Path, announced: object, done: list[str]
) -> None:
    user = allowing_user()
    permissions = Permissions(on_request=user)

    assert await permissions.decide(question(tmp_path, kind="execute", command=announced)) == "allow_once"
    assert await runs(permissions, tmp_path, *done)
    assert len(user.asked) == 1
    assert await runs(permissions, tmp_path, *done)
    assert len(user.asked) == 2


async def test_a_rejected_tool_call_rejects_its_action_without_asking_again(tmp_path: Path) -> None:
    answers = iter([False, False, True])
    user = User(lambda asked: next(answers))
    permissions = Permissions(on_request=user)

    assert await permissions.decide(question(tmp_path, paths=[tmp_path / "a"])) == "reject_once"
    for _ in range(3):
        assert not await writes(permissions, tmp_path, tmp_path / "a")
    assert len(user.asked) == 1
    for _ in range(3):
        assert not await runs(permissions, tmp_path, "ls")
    assert len(user.asked) == 2
    # The agent may ask again, and the user may allow it then.
    assert await permissions.decide(question(tmp_path, paths=[tmp_path / "a"])) == "allow_once"
    assert await writes(permissions, tmp_path, tmp_path / "a")
    assert len(user.asked) == 3


@pytest.mark.fault("PRM-10")
async def test_an_act_that_differs_from_its_question_is_judged_afresh(tmp_path: Path) -> None:
    once = User(lambda asked: asked.allow() if asked.method == "session/request_permission" else asked.reject())
    permissions = Permissions(read="ask", on_request=once)
    (tmp_path / "sub").mkdir()

    assert await permissions.decide(question(tmp_path, kind="read", paths=[tmp_path / "a"])) == "allow_once"
    assert not await writes(permissions, tmp_path, tmp_path / "a")
    assert await reads(permissions, tmp_path, tmp_path / "a")

    assert await permissions.decide(question(tmp_path, kind="edit", paths=[tmp_path / "a"])) == "allow_once"
    assert not await writes(permissions, tmp_path, tmp_path / "b")
    assert not await writes(permissions, tmp_path, tmp_path / "a", session_id="t")
    assert not await writes(permissions.for_agent("another"), tmp_path, tmp_path / "a")

    assert await permissions.decide(question(tmp_path, kind="execute", command="make test")) == "allow_once"
    assert not await runs(permissions, tmp_path, "make", "test", "--eval=x")
    assert not await runs(permissions, tmp_path, "make test; x")
    assert not await runs(permissions, tmp_path, "make", "test", directory=tmp_path / "sub")
    assert not await runs(permissions, tmp_path, "make", "test", env={"MAKEFLAGS": "--eval=x"})
    assert await runs(permissions, tmp_path, "make", "test", env={"CI": "1"})


@pytest.mark.fault("PRM-10")
async def test_a_path_that_leads_elsewhere_by_now_is_judged_afresh(tmp_path: Path) -> None:
    once = User(lambda asked: asked.allow() if asked.method == "session/request_permission" else asked.reject())
    permissions = Permissions(on_request=once)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    link = tmp_path / "link"
    link.symlink_to("a")

    await permissions.decide(question(tmp_path, paths=[link / "x"]))
    link.unlink()
    link.symlink_to("b")
    assert not await writes(permissions, tmp_path, link / "x")


@pytest.mark.fault("PRM-10")
async def test_a_call_is_judged_by_all_it_shows_and_not_by_the_kind_it_names(tmp_path: Path) -> None:
    permissions = Permissions(read="allow", search="allow", execute={"ls": "allow"}, edit={"docs/**": "allow"})

    async def decided(**fields: Any) -> str | None:
        return await permissions.decide(question(tmp_path, **fields))

    assert await decided(kind="read", paths=[tmp_path / "a"]) == "allow_once"
    assert await decided(kind="read", paths=[tmp_path / "a"], changes=[tmp_path / "a"]) == "reject_once"
    assert await decided(kind="read", paths=[tmp_path / "a", "/etc/passwd"]) == "reject_once"
    assert await decided(kind="read", paths=[tmp_path / "a"], command="rm x") == "reject_once"
    assert await decided(kind="read", paths=[tmp_path / "a"], raw_input={"file_path": "/etc/passwd"}) == "reject_once"
    assert await decided(kind="read", paths=["file:///etc/passwd"]) == "reject_once"
    assert await decided(kind="read", paths=["~root/x\0"]) == "reject_once"
    assert await decided(kind="read", paths=["x" * 5000]) == "reject_once"
    assert await decided(kind="read", paths=["\ud800"]) == "reject_once"
    assert await decided(kind="read", paths=["~nobody-of-this-name/x"]) == "reject_once"
    assert await decided(kind="read", paths=[tmp_path / f"{number}" for number in range(300)]) == "reject_once"
    assert await decided(kind="read") == "reject_once"
    assert await decided(kind="search") == "allow_once"
    assert await decided(kind="execute", command="ls", raw_input={"cmd": "rm x"}) == "reject_once"
    assert await decided(kind="execute", command="ls", raw_input={"args": ["x"]}) == "reject_once"
    assert await decided(kind="execute", command="ls") == "allow_once"
    assert await decided(kind="execute", title="ls") == "reject_once"
    assert await decided(kind="edit", changes=[tmp_path / "docs" / "a"]) == "allow_once"
    assert await decided(kind="edit", changes=[tmp_path / "docs" / "a", tmp_path / "a"]) == "reject_once"
    assert await decided(kind="something new", paths=[tmp_path / "a"]) == "reject_once"


async def test_a_call_that_names_more_files_than_are_judged_is_not_covered_by_a_rule(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"file{number}") for number in range(MOST_PATHS + 1)]
    permissions = Permissions(edit="allow")

    assert await permissions.decide(question(tmp_path, kind="edit", paths=paths[:-1])) == "allow_once"
    assert await permissions.decide(question(tmp_path, kind="edit", paths=paths)) == "reject_once"


# --- the end of a turn


@pytest.mark.rule(79)
async def test_questions_still_open_when_the_turn_is_cancelled_are_cancelled(tmp_path: Path) -> None:
    asked: asyncio.Queue[PermissionRequest] = asyncio.Queue()

    async def never(each: PermissionRequest) -> None:
        asked.put_nowait(each)
        await asyncio.Event().wait()

    permissions = Permissions(on_request=never, max_concurrent=2)
    deciding = asyncio.ensure_future(permissions.decide(question(tmp_path)))
    acting = asyncio.ensure_future(writes(permissions, tmp_path, tmp_path / "a"))
    other = asyncio.ensure_future(permissions.decide(question(tmp_path, session_id="t")))
    shown = [await asked.get(), await asked.get()]

    permissions.cancel("s")
    assert await deciding is None
    assert await acting is False
    assert not any(each.is_open or each.allow() for each in shown)
    assert not other.done()
    permissions.reject_all()
    assert await other == "reject_once"


async def test_an_answer_that_meets_the_end_of_its_turn_grants_nothing(tmp_path: Path) -> None:
    def yes_but_too_late(asked: PermissionRequest) -> None:
        assert asked.allow(always=True)
        permissions.cancel("s")

    user = User(yes_but_too_late)
    permissions = Permissions(on_request=user)
    assert await permissions.decide(question(tmp_path, paths=[tmp_path / "a"])) is None
    assert not await writes(permissions, tmp_path, tmp_path / "a")
    assert len(user.asked) == 2


async def test_a_permission_ends_with_its_turn(tmp_path: Path) -> None:
    user = allowing_user()
    permissions = Permissions(on_request=user)

    await permissions.decide(question(tmp_path, paths=[tmp_path / "a"]))
    permissions.cancel("s")
    assert await writes(permissions, tmp_path, tmp_path / "a")
    assert len(user.asked) == 2


async def test_a_request_that_is_withdrawn_takes_its_question_along(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = []
    asked: asyncio.Queue[PermissionRequest] = asyncio.Queue()

    async def never(each: PermissionRequest) -> None:
        asked.put_nowait(each)
        await asyncio.Event().wait()

    deciding = asyncio.ensure_future(Permissions(on_request=never, audit=records.append).decide(question()))
    shown = await asked.get()
    deciding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await deciding
    assert not shown.is_open
    assert [record["decision"] for record in records] == ["cancelled"]


# --- sensitive files


@pytest.mark.fault("FSB-20")
@pytest.mark.parametrize(
    "path",
    [
        *(".git/hooks/pre-commit", ".git/config", "sub/.git/config", ".GIT/config", ".git", ".vscode/tasks.json"),
        *(".idea/workspace.xml", ".claude/settings.json", ".mcp.json", ".cursor/mcp.json", ".bashrc", ".zshenv"),
        *(
            ".envrc",
            ".husky/pre-push",
            ".ssh/authorized_keys",
            ".gi\u200bt/config",
            "a/../.git/config",
            ".npmrc",
            "docs/evil/HEAD",
        ),
        *(".githooks/pre-push", ".github/workflows/ci.yml", ".gitlab-ci.yml", "Jenkinsfile", ".gitattributes"),
        *(
            "AGENTS.md",
            "sub/CLAUDE.md",
            "CLAUDE.local.md",
            "GEMINI.md",
            ".cursorrules",
            ".clinerules",
            ".roo/rules/a.md",
        ),
        *(".gdbinit", ".nvim.lua", ".lldbinit-Xcode", ".pdbrc", ".Rprofile", "lib/sitecustomize.py", "lib/evil.pth"),
        *(".mise/tasks/x", ".yarn/releases/yarn.cjs", ".docker/config.json", ".mvn/jvm.config", ".tmux.conf"),
    ],
)
async def test_writing_what_other_programs_obey_needs_its_own_word(path: str, tmp_path: Path) -> None:
    user = allowing_user()

    assert not await writes(Permissions(edit="allow"), tmp_path, tmp_path / path)
    assert not await writes(Permissions(edit="allow", protected="reject", on_request=user), tmp_path, tmp_path / path)
    assert not user.asked
    assert await writes(Permissions(edit="allow", on_request=user), tmp_path, tmp_path / path)
    assert await writes(Permissions(edit="allow", protected="allow"), tmp_path, tmp_path / path)
    assert not await writes(Permissions(protected="allow"), tmp_path, tmp_path / path)
    assert await Permissions(edit="allow").decide(question(tmp_path, paths=[tmp_path / path])) == "reject_once"


@pytest.mark.fault("FSB-21")
@pytest.mark.parametrize(
    "path",
    [*(".env", "a/.env.local", "prod.env", "id_rsa", "server.key", "x.pem", ".aws/credentials", ".ENV", "token.json")],
)
async def test_reading_what_looks_secret_needs_its_own_word_and_is_written_down(path: str, tmp_path: Path) -> None:
    records: list[dict[str, Any]] = []
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text("hunter2")

    assert not await reads(Permissions(audit=records.append), tmp_path, tmp_path / path)
    assert await reads(Permissions(secrets="allow"), tmp_path, tmp_path / path)
    assert await reads(Permissions(on_request=allowing_user()), tmp_path, tmp_path / path)
    assert not await reads(Permissions(secrets="reject", on_request=allowing_user()), tmp_path, tmp_path / path)
    assert [(each["decision"], each["by"], each["rule"]) for each in records] == [
        ("reject", "no user to ask", "secrets: *")
    ]
    assert "hunter2" not in json.dumps(records)


async def test_a_link_does_not_hide_what_a_file_is(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("x")
    (tmp_path / "harmless").symlink_to(".env")
    (tmp_path / ".git").mkdir()
    (tmp_path / "docs").symlink_to(".git")

    assert not await reads(Permissions(), tmp_path, tmp_path / "harmless")
    assert not await writes(Permissions(edit="allow"), tmp_path, tmp_path / "docs" / "config")


async def test_a_project_may_stand_in_a_directory_with_a_telling_name(tmp_path: Path) -> None:
    project = tmp_path / ".config" / "secrets"
    project.mkdir(parents=True)

    assert await writes(Permissions(edit="allow"), project, project / "a")
    assert await reads(Permissions(), project, project / "a")


# --- dry run and everything


async def test_a_dry_run_rejects_without_asking_and_logs_what_the_rules_say(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = []
    user = allowing_user()
    permissions = Permissions(read="allow", delete="reject", on_request=user, dry_run=True, audit=records.append)

    assert not await reads(permissions, tmp_path, tmp_path / "a")
    assert not await writes(permissions, tmp_path, tmp_path / "a")
    assert await permissions.decide(question(tmp_path, kind="delete", paths=[tmp_path / "a"])) == "reject_once"
    assert not user.asked
    assert [(each["verdict"], each["decision"], each["by"]) for each in records] == [
        ("allow", "reject", "dry run"),
        ("ask", "reject", "dry run"),
        ("reject", "reject", "dry run"),
    ]


async def test_everything_is_everything_except_what_other_rules_forbid(tmp_path: Path) -> None:
    permissions = Permissions.allow_everything(delete="reject")

    assert await reads(permissions, tmp_path, "/etc/passwd")
    assert await writes(permissions, tmp_path, tmp_path / ".git" / "config")
    assert await runs(permissions, tmp_path, "a; b", env={"X": "y"})
    assert await permissions.decide(question(kind="edit")) == "allow_once"
    assert await permissions.decide(question(kind="delete")) == "reject_once"
