"""The user's own rules: found in one place, kept private, and good to start from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from duologue.config.permissions import load_permissions, rules_files, state_folder, write_example_config
from tests.client.permission_requests import User, question, reads, rejecting_user, runs, writes


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a project and a home directory next to it."""
    monkeypatch.delenv("DUOLOGUE_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    project = tmp_path / "project"
    project.mkdir()
    return project


async def test_the_first_rules_can_be_used_as_they_are(project: Path) -> None:
    user = rejecting_user()
    path = write_example_config()
    permissions = load_permissions(on_request=user)

    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert await reads(permissions, project, project / "a")
    assert await runs(permissions, project, "git", "log", "-1")
    assert await permissions.decide(question(project, kind="think")) == "allow_once"
    assert not user.asked
    assert not await writes(permissions, project, project / "a")
    assert not await runs(permissions, project, "git", "push")
    assert not await reads(permissions, project, project / ".env")
    assert len(user.asked) == 3
    with pytest.raises(FileExistsError):
        write_example_config()


async def test_decisions_and_answers_are_kept_in_the_users_state(project: Path) -> None:
    permissions = load_permissions(on_request=User(lambda asked: asked.allow(remember="project")))
    assert await writes(permissions, project, project / "a")

    assert await writes(load_permissions(), project, project / "a")
    records = [json.loads(line) for line in (state_folder() / "audit.jsonl").read_text().splitlines()]
    assert [each["rule"] for each in records] == ["edit: *", "remembered"]
    assert {path.stat().st_mode & 0o777 for path in state_folder().iterdir()} == {0o600}


async def test_the_file_and_the_program_override_the_default_paths(project: Path, tmp_path: Path) -> None:
    path = write_example_config()
    path.write_text(f'[permissions]\naudit = "{tmp_path}/log"\n')

    assert await reads(load_permissions(memory=None), project, project / "a")
    assert len((tmp_path / "log").read_text().splitlines()) == 1
    assert await reads(load_permissions(audit=None), project, project / "a")
    assert len((tmp_path / "log").read_text().splitlines()) == 1
    assert not state_folder().exists()


def test_only_a_file_with_rules_is_used_and_a_broken_one_is_reported(project: Path) -> None:
    assert rules_files() == []
    path = write_example_config()
    assert rules_files() == [path]
    path.write_text("[agents.x]\ncommand = 'x'\n")
    assert rules_files() == []
    path.write_text("[permissions")
    with pytest.raises(ValueError, match=r"config\.toml"):
        load_permissions()


def test_a_relative_place_is_none(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "relative")

    assert state_folder() == Path.home() / ".local" / "state" / "duologue"


async def test_rules_in_a_project_are_not_looked_for(project: Path) -> None:
    (project / "config.toml").write_text('[permissions]\nedit = "allow"\n')
    (project / ".duologue").mkdir()
    (project / ".duologue" / "config.toml").write_text('[permissions]\nedit = "allow"\n')

    assert not await writes(load_permissions(), project, project / "a")
