"""The lock file: what is read and written, and that a hostile one is refused in a sentence."""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from duologue.registry import lock_file
from duologue.registry.index import RegistryError
from duologue.registry.lock_file import (
    AgentsLock,
    LockedAgent,
    ProbedAuthMethod,
    ProbeResult,
    edit_lock,
    installation_directory,
    read_lock,
    user_lock,
    write_lock,
)
from tests.registry.locked_agents import binary, locked

NPX: dict[str, Any] = {"kind": "npx", "package": "sample@1.2.3", "package_lock": {"packages": {"": {}}}, "url": None}
UVX = {"kind": "uvx", "package": "sample==1.2.3", "requirements": "sample==1.2.3 --hash=sha256:00", "python": "3.12"}
PROBE = ProbeResult(
    probed_at="2026-11-16T12:00:00Z",
    protocol_versions=[1, 2],
    agent_info={"name": "sample", "version": "1.2.3"},
    capabilities={"loadSession": True},
    auth_methods=[ProbedAuthMethod(id="key", name="API key", type="agent")],
    session="opened",
    modes=["ask"],
    models=["small"],
    config_options=["model"],
    quirks=["replays_late"],
    start_seconds=0.25,
)


def written(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def refusal(path: Path) -> str:
    with pytest.raises(RegistryError) as caught:
        read_lock(path)
    return str(caught.value)


@pytest.mark.parametrize("changes", [{}, NPX, UVX, {"pinned": True, "probe": PROBE, "env": {"A": "1"}}])
def test_a_written_lock_is_read_again(changes: dict[str, Any], tmp_path: Path) -> None:
    agent = locked(**changes)
    lock = AgentsLock(agents={"sample": agent})

    write_lock(tmp_path / "agents.lock", lock)

    assert read_lock(tmp_path / "agents.lock") == lock


def test_a_missing_file_is_an_empty_lock(tmp_path: Path) -> None:
    assert read_lock(tmp_path / "agents.lock") == AgentsLock(version=1, agents={})


def test_the_file_is_sorted_indented_and_only_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "new" / "agents.lock"

    write_lock(path, AgentsLock(agents={"sample": locked()}))

    text = path.read_text("utf-8")
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["agents.lock"]


def test_a_newer_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = written(tmp_path / "agents.lock", {"version": 2, "agents": []})

    assert refusal(path) == f"{path} has version 2; this duologue reads lock files up to version 1: update duologue"


def test_an_impossible_version_is_refused(tmp_path: Path) -> None:
    assert "the first version of a lock file is 1" in refusal(written(tmp_path / "a", {"version": 0, "agents": {}}))


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", "null", '{"version": "1"}', '{"version": 1, "agents": []}', '{"version":1,"agents":' + "[" * 9999],
)
def test_a_file_without_a_lock_is_refused(content: str, tmp_path: Path) -> None:
    assert "is not a valid lock file" in refusal(written(tmp_path / "agents.lock", content))


def test_deeply_nested_content_is_refused(tmp_path: Path) -> None:
    deep = '{"a":' * 100_000 + "1" + "}" * 100_000
    entry = json.dumps(binary(**NPX)).replace('{"packages": {"": {}}}', deep)
    path = written(tmp_path / "agents.lock", f'{{"version": 1, "agents": {{"sample": {entry}}}}}')

    assert "is not a valid lock file" in refusal(path)


def test_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "agents.lock"
    path.write_bytes(b'{"version": 1, "agents": {"\xff": 1}}')

    assert "is not a valid lock file" in refusal(path)


@pytest.mark.parametrize("path", ["../x", "/bin/sh", "a/../b", "..", ".", "a\\b", "C:x", "a\nb", ""])
def test_a_path_that_leaves_the_installation_is_refused(path: str, tmp_path: Path) -> None:
    entry = binary(program=path, programs={path: "b" * 64})
    lock = written(tmp_path / "agents.lock", {"version": 1, "agents": {"sample": entry}})

    assert "inside of the installation" in refusal(lock) or "length >= 1" in refusal(lock)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"programs": {"bin/other": "b" * 64}}, "no checksum of `program`"),
        ({"url": None}, "needs the field `url`"),
        ({"kind": "npx", "package": "a"}, "needs the field `package_lock`"),
        ({"kind": "uvx", "package": "a"}, "needs the field `requirements`"),
        ({"kind": "bunx"}, "Invalid enum value 'bunx'"),
        ({"id": "../sample"}, "matching regex"),
        ({"id": "other"}, "the agent 'other' is listed as 'sample'"),
        ({"version": "../../1.0.0"}, "matching regex"),
        ({"version": "1.0.0/.."}, "matching regex"),
        ({"url": "http://downloads.example/a.zip"}, "matching regex"),
        ({"archive_sha256": "b"}, "matching regex"),
        ({"env": {"A=B": "1"}}, "matching regex"),
        ({"args": ["a\0b"]}, "matching regex"),
        ({"args": ["a"] * 1001}, "length <= 1000"),
        ({"platform": "../x"}, "matching regex"),
    ],
)
def test_an_entry_that_cannot_be_is_refused(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    lock = {"version": 1, "agents": {"sample": binary(**changes)}}

    assert reason in refusal(written(tmp_path / "agents.lock", lock))


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_file, "MAX_LOCK_BYTES", 100)

    assert "has more than 100 bytes" in refusal(written(tmp_path / "agents.lock", " " * 101))


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "agents.lock")

    assert refusal(tmp_path / "agents.lock").endswith("not a regular file")


def test_a_directory_cannot_be_read_or_written(tmp_path: Path) -> None:
    assert refusal(tmp_path).startswith("cannot read")
    with pytest.raises(RegistryError, match="cannot write"):
        write_lock(tmp_path, AgentsLock())
    assert list(tmp_path.parent.glob(f".{tmp_path.name}-*")) == []


def test_the_lock_file_cannot_be_below_a_file(tmp_path: Path) -> None:
    file = written(tmp_path / "file", "")

    with pytest.raises(RegistryError, match="cannot write"):
        write_lock(file / "agents.lock", AgentsLock())
    with pytest.raises(RegistryError, match="cannot write"), edit_lock(file / "agents.lock"):
        pass


def test_a_link_to_a_lock_file_stays_a_link(tmp_path: Path) -> None:
    real = written(tmp_path / "real.lock", {"version": 1, "agents": {}})
    link = tmp_path / "agents.lock"
    link.symlink_to(real)

    write_lock(link, AgentsLock(agents={"sample": locked()}))

    assert link.is_symlink()
    assert "sample" in read_lock(real).agents


def test_a_link_that_leads_nowhere_is_replaced(tmp_path: Path) -> None:
    link = tmp_path / "agents.lock"
    link.symlink_to(tmp_path / "elsewhere")

    write_lock(link, AgentsLock())

    assert not link.is_symlink()
    assert not (tmp_path / "elsewhere").exists()


def test_an_edit_adds_replaces_and_removes(tmp_path: Path) -> None:
    path = tmp_path / "agents.lock"
    with edit_lock(path) as edit:
        edit.put(locked())
        edit.put(locked(id="other"))
    with edit_lock(path) as edit:
        edit.put(locked(pinned=True))
        edit.remove("other")
        edit.remove("unknown")

    assert read_lock(path).agents == {"sample": locked(pinned=True)}


def test_an_edit_that_changes_nothing_or_fails_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "agents.lock"
    with edit_lock(path):
        pass
    with pytest.raises(KeyError), edit_lock(path) as edit:
        edit.put(locked())
        raise KeyError

    assert os.listdir(tmp_path) == []


def test_an_edit_does_not_wait_forever_for_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_file, "EDIT_SECONDS", 0.05)
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        with pytest.raises(RegistryError, match="another program has been changing"), edit_lock(tmp_path / "a"):
            pass
    finally:
        os.close(held)


def test_the_installation_depends_on_what_is_installed_only() -> None:
    agent = locked()

    assert agent.install_digest() == locked(pinned=True, args=["x"], tree_sha256="d" * 64).install_digest()
    assert agent.install_digest() != locked(archive_sha256="d" * 64).install_digest()


@pytest.mark.parametrize(
    "changes", [{"args": ["x"]}, {"env": {"A": "1"}}, {"programs": {"bin/sample": "d" * 64}}, {"tree_sha256": "d" * 64}]
)
def test_the_digest_of_the_start_depends_on_what_is_started(changes: dict[str, Any]) -> None:
    assert locked().start_digest() != locked(**changes).start_digest()
    assert locked().start_digest() == locked(pinned=True, probe=PROBE, resolved_at="later").start_digest()


def test_the_lock_of_the_user_is_in_the_directory_of_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUOLOGUE_CONFIG", str(tmp_path / "other.toml"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))

    assert user_lock() == tmp_path / "agents.lock"
    directory = installation_directory(locked())
    assert directory.parent == tmp_path / "duologue/agents/sample"
    assert directory.name == f"1.2.3-{locked().install_digest()[:12]}"


def test_the_reference_lists_every_field() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/lock-file.md").read_text("utf-8")
    rows = re.findall(r"^\| (`[^|]+`) \|", page, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    fields = {field for struct in (AgentsLock, LockedAgent, ProbeResult) for field in struct.__struct_fields__}

    assert listed - {"DIGEST"} == fields


def test_the_example_of_the_reference_is_a_valid_lock_file(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/reference/lock-file.md").read_text("utf-8")
    example = page.partition("```json\n")[2].partition("```")[0]

    assert list(read_lock(written(tmp_path / "agents.lock", example)).agents) == ["team-agent"]
