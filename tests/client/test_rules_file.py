"""The client's own files: rules, and the log of decisions."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from duologue.client.permissions.policy import Permissions
from tests.client.permission_requests import allowing_user, question, rejecting_user, runs, writes

pytestmark = pytest.mark.timeout(30)

# --- rules in a file


def rules_file(directory: Path, text: str, mode: int = 0o600) -> Path:
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.write_text(text)
    directory.chmod(mode)
    return directory


async def test_rules_are_read_from_a_file(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    text = f"""
        [agents.claude]
        command = "claude"

        [permissions]
        delete = "reject"
        timeout = 5
        audit = "{tmp_path}/log"

        [permissions.edit]
        "docs/**" = "allow"
        "*" = "ask"

        [permissions.execute]
        "git status" = "allow"
    """
    permissions = Permissions.from_file(
        rules_file(tmp_path / "config" / "rules.toml", text), on_request=rejecting_user()
    )

    assert await writes(permissions, project, project / "docs" / "a")
    assert not await writes(permissions, project, project / "a")
    assert await runs(permissions, project, "git", "status")
    assert await permissions.decide(question(project, kind="delete", paths=[project / "a"])) == "reject_once"
    assert len((tmp_path / "log").read_text().splitlines()) == 4


@pytest.mark.fault("PRM-13")
async def test_of_several_files_the_strictest_word_counts(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    strict = rules_file(tmp_path / "a.toml", '[permissions]\nexecute = "reject"\n')
    loose = rules_file(tmp_path / "b.toml", '[permissions.execute]\n"git status" = "allow"\n')

    for files in ((strict, loose), (loose, strict)):
        assert not await runs(Permissions.from_file(*files, on_request=allowing_user()), project, "git", "status")
    assert await runs(Permissions.from_file(loose), project, "git", "status")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[permissions]\nnothing = 'allow'", "unknown kind or setting 'nothing'"),
        ("[permissions]\nread = 'yes'", "expected allow, ask or reject, not 'yes'"),
        ("[permissions]\nread = 1", "expected allow, ask or reject, not 1"),
        ("[permissions]\ntimeout = 'long'", "timeout: 'long' has the wrong type"),
        ("[permissions]\ntimeout = true", "timeout: True has the wrong type"),
        (
            "[permissions.execute]\n'python *' = 'allow'",
            "line 2: execute: 'python \\*' would allow any arguments",
        ),
        ("[permissions.execute]\n'a; b' = 'allow'", "one simple command"),
        ("permissions = 1", "must be a table"),
        ("[permissions", "rules.toml"),
    ],
)
def test_a_file_that_says_something_else_is_refused_with_its_name(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        Permissions.from_file(rules_file(tmp_path / "rules.toml", text))
    assert str(tmp_path / "rules.toml") in str(refused.value)


@pytest.mark.fault("PRM-23")
def test_every_line_that_is_refused_is_named_with_what_to_write_instead(tmp_path: Path) -> None:
    text = """
[agents.x]
command = "x"   # "git rebase *" = "allow"

[permissions]
timeout = "x"
fetch = {"a" = "allow", "b" = "maybe"}

[permissions.edit]
"git rebase *" = "allow"

[permissions.execute]
"git \\u0072ebase *" = "allow"
'npm test *' = \"\"\"
\\
allow\"\"\"
"git log *" = "allow"
"rm *" = "reject"
"git *" = "allow"
"""
    file = rules_file(tmp_path / "rules.toml", text)
    with pytest.raises(ValueError, match="line 6") as refused:
        Permissions.from_file(file)

    lines = str(refused.value).splitlines()
    assert [line.partition(": ")[0] for line in lines] == [f"{file}, line {number}" for number in (6, 7, 13, 16, 19)]
    assert "'git rebase *' would allow any arguments" in lines[2]
    assert "write a rule for each command with all its arguments, or one of 'git blame *', " in lines[2]
    assert lines[3].endswith("with all its arguments")


def test_a_file_that_is_not_there_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        Permissions.from_file("/nowhere/rules.toml")


@pytest.mark.fault("PRM-12")
@pytest.mark.parametrize("mode", [0o644, 0o620, 0o602, 0o640])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    file = rules_file(tmp_path / "rules.toml", "", mode)

    with pytest.raises(ValueError, match="chmod 600"):
        Permissions.from_file(file)
    with pytest.raises(ValueError, match="chmod 600"):
        Permissions(memory=file)
    with pytest.raises(ValueError, match="chmod 600"):
        Permissions(audit=file)


@pytest.mark.fault("PRM-12")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_rejected(tmp_path: Path) -> None:
    file = rules_file(tmp_path / "rules.toml", "")
    os.chown(file, 12345, 12345)

    with pytest.raises(ValueError, match="owned by another user"):
        Permissions.from_file(file)


@pytest.mark.fault("PRM-12")
async def test_the_clients_own_files_are_never_written_for_an_agent(tmp_path: Path) -> None:
    file = rules_file(tmp_path / "rules.toml", '[permissions]\nedit = "allow"\nprotected = "allow"\n')
    permissions = Permissions.from_file(
        file, audit=tmp_path / "log", memory=tmp_path / "memory", on_request=allowing_user()
    )
    (tmp_path / "memory").touch(0o600)
    (tmp_path / "link").symlink_to("rules.toml")
    os.link(file, tmp_path / "hard")

    for name in ("rules.toml", "log", "memory", "link", "hard", "x/../rules.toml"):
        assert not await writes(permissions, tmp_path, tmp_path / name)
        for kind in ("edit", "delete", "move"):
            assert await permissions.decide(question(tmp_path, kind=kind, paths=[tmp_path / name])) == "reject_once"
    assert await writes(permissions, tmp_path, tmp_path / "other")


@pytest.mark.fault("PRM-12")
async def test_rules_inside_the_directories_of_a_session_allow_nothing(tmp_path: Path) -> None:
    project, user = tmp_path / "project", rejecting_user()
    rules = '[permissions]\nedit = "allow"\ndelete = "reject"\n'
    permissions = Permissions.from_file(rules_file(project / "rules.toml", rules), on_request=user)

    assert not await writes(permissions, project, project / "a")
    assert len(user.asked) == 1
    assert await permissions.decide(question(project, kind="delete", paths=[project / "a"])) == "reject_once"
    assert len(user.asked) == 1
    (tmp_path / "elsewhere").mkdir()
    assert await writes(permissions, tmp_path / "elsewhere", tmp_path / "elsewhere" / "a")


@pytest.mark.fault("PRM-12")
async def test_rules_that_change_are_reported_and_not_obeyed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    project = tmp_path / "project"
    project.mkdir()
    records: list[dict[str, Any]] = []
    file = rules_file(tmp_path / "rules.toml", '[permissions]\nedit = "reject"\n')
    permissions = Permissions.from_file(file, audit=records.append)
    assert not await writes(permissions, project, project / "a")

    rules_file(file, '[permissions]\nedit = "allow"  # by the agent\n')
    for _ in range(2):
        assert not await writes(permissions, project, project / "a")
    assert caplog.text.count("have changed") == 1
    assert [each["event"] for each in records if "event" in each] == ["rules changed"]
    file.unlink()
    assert not await writes(permissions, project, project / "a")
    assert caplog.text.count("have changed") == 2


# --- the log


async def test_every_decision_is_written_down_without_any_content(tmp_path: Path) -> None:
    log = tmp_path / "state" / "audit.jsonl"
    permissions = Permissions(on_request=allowing_user(), audit=log, edit={"b": "allow"}).for_agent("one")
    asked = question(tmp_path, changes=[tmp_path / "a"], title="TITLE", raw_input={"new_text": "CONTENT"})
    await permissions.decide(asked)
    await writes(permissions, tmp_path, tmp_path / "a")
    await writes(permissions, tmp_path, tmp_path / "b")
    await runs(permissions, tmp_path, "ls", "-l", env={"X": "VALUE"})

    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(each["method"], each["decision"], each["by"], each["rule"]) for each in records] == [
        ("session/request_permission", "allow", "user", "edit: *"),
        ("fs/write_text_file", "allow", "rule", "allowed tool call"),
        ("fs/write_text_file", "allow", "rule", "edit: b"),
        ("terminal/create", "allow", "user", "execute: *"),
    ]
    assert records[0]["tool_call"] == "call"
    assert records[2]["actions"] == [{"kind": "edit", "path": str(tmp_path / "b")}]
    assert records[3]["actions"] == [{"kind": "execute", "command": "ls -l", "cwd": str(tmp_path), "env": ["X"]}]
    assert {each["agent"] for each in records} == {"one"}
    for secret in ("TITLE", "CONTENT", "VALUE", '"b"'):
        assert secret not in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


async def test_an_action_that_cannot_be_audited_is_not_allowed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def full(record: dict[str, Any]) -> None:
        raise OSError("no space left")

    assert not await writes(Permissions(edit="allow", audit=full), tmp_path, tmp_path / "a")
    assert (
        await Permissions(edit="allow", audit=full).decide(question(tmp_path, paths=[tmp_path / "a"])) == "reject_once"
    )
    assert "could not be written to the audit log" in caplog.text
