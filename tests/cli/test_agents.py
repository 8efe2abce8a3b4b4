"""`duologue agents list`, `search`, `info`, `pin` and `approve`, and agents of a lock file by name."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import duologue, environment, terminal
from tests.registry.locked_agents import binary

ROOT = Path(__file__).parents[2]
EXAMPLE = str(ROOT / "examples" / "registry.json")
AGENT = f"#!{sys.executable}\nimport sys\nfrom duologue.cli.main import main\nsys.exit(main(['agent']))\n"


def installed(home: Path, lock: Path) -> Path:
    """Install an agent of one file as a lock file says; return its program."""
    entry = binary(programs={"bin/sample": hashlib.sha256(AGENT.encode()).hexdigest()})
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.write_text(json.dumps({"version": 1, "agents": {"sample": entry}}))
    code = (
        "from duologue.registry.lock_file import *; import pathlib, sys;"
        "print(installation_directory(read_lock(pathlib.Path(sys.argv[1])).agents['sample']))"
    )
    command = [sys.executable, "-c", code, str(lock)]
    directory = subprocess.run(command, capture_output=True, env=environment(home), check=True, timeout=60).stdout
    program = Path(os.fsdecode(directory).strip()) / "bin/sample"
    program.parent.mkdir(parents=True)
    program.write_text(AGENT)
    program.chmod(0o755)
    return program


def user_lock(home: Path) -> Path:
    return home / "config" / "duologue" / "agents.lock"


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_all_agents_of_a_registry_are_listed_and_searched(tmp_path: Path) -> None:
    listed = duologue(tmp_path, "agents", "list", "--all", "--json", "--registry", EXAMPLE)
    found = duologue(tmp_path, "agents", "search", "TEAM tried", "--registry", EXAMPLE)
    nothing = duologue(tmp_path, "agents", "search", "xyzzy", "--registry", EXAMPLE)

    versions = {line["id"]: (line["format"], line["locked"]) for line in lines(listed.stdout)}
    assert versions == dict.fromkeys(("team-agent", "gemini", "gptme"), (1, None))
    assert found.stdout == "gemini  0.61.0  npx  Gemini CLI: The version that the team has tried\n"
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert "nothing found for 'xyzzy' in 3 agents" in nothing.stderr


def test_while_the_public_registry_was_never_reached_the_examples_say_what_they_are(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "agents", "list", "--all", "--offline")

    assert "gemini " in ended.stdout
    assert "the public registry was never reached from here: these are the examples" in ended.stderr
    assert [len(line) < 150 for line in ended.stderr.splitlines()] == [True, True], ended.stderr


def test_an_agent_that_must_be_downloaded_is_no_matter_of_a_mirror_that_was_not_named(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "agents", "add", "gptme", "--offline")

    assert ended.returncode != 0
    assert "must be downloaded, and --offline was given" in ended.stderr
    assert "not in the mirror" not in ended.stderr


def test_info_shows_the_entry_and_what_is_locked(tmp_path: Path) -> None:
    program = installed(tmp_path, user_lock(tmp_path))

    shown = duologue(tmp_path, "agents", "info", "team-agent", "--registry", EXAMPLE)
    locked = duologue(tmp_path, "agents", "info", "sample", "--registry", EXAMPLE)
    unknown = duologue(tmp_path, "agents", "info", "gemni", "--registry", EXAMPLE)
    as_json = duologue(tmp_path, "agents", "info", "sample", "--json", "--registry", EXAMPLE)

    assert "(with checksum)" in shown.stdout
    assert f"starts    {program}" in locked.stdout
    assert (unknown.returncode, "did you mean 'gemini'?" in unknown.stderr) == (2, True)
    assert lines(as_json.stdout)[0]["locked"]["version"] == "1.2.3"


def test_a_registry_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    index = json.loads(Path(EXAMPLE).read_text())
    index["agents"][0]["description"] = "red\x1b[31m\nnext line"
    (tmp_path / "registry.json").write_text(json.dumps(index))

    with terminal(tmp_path, "agents", "list", "--all", "--registry", str(tmp_path / "registry.json")) as console:
        assert console.wait() == 0

    assert b"\x1b[31m" not in console.raw
    assert "\nnext line" not in console.text


def test_locked_agents_are_listed_and_pinned(tmp_path: Path) -> None:
    empty = duologue(tmp_path, "agents", "list")
    installed(tmp_path, user_lock(tmp_path))

    wrong = duologue(tmp_path, "agents", "pin", "sample@2.0.0")
    pinned = duologue(tmp_path, "agents", "pin", "sample")
    listed = duologue(tmp_path, "agents", "list")
    undone = duologue(tmp_path, "agents", "pin", "sample", "--undo")
    as_json = duologue(tmp_path, "agents", "list", "--json")
    overview = duologue(tmp_path, "agents", "--json")

    assert "has no agents" in empty.stderr
    assert (wrong.returncode, "run: duologue agents add sample@2.0.0" in wrong.stderr) == (2, True)
    assert pinned.stderr == "sample is pinned at 1.2.3\n"
    assert listed.stdout == "sample  1.2.3  binary  pinned\n"
    assert undone.stderr == "sample is no longer pinned\n"
    assert lines(as_json.stdout)[0]["states"] == []
    assert {"sample": "locked"}.items() <= {line["name"]: line["source"] for line in lines(overview.stdout)}.items()


@pytest.mark.parametrize("name", ["sample", "sample@1.2.3"])
def test_run_starts_a_locked_agent_by_its_name(name: str, tmp_path: Path) -> None:
    installed(tmp_path, user_lock(tmp_path))

    assert duologue(tmp_path, "run", "hi", "--agent", name).returncode == 0
    checked = duologue(tmp_path, "doctor", "--agent", name)
    assert (checked.returncode, "✓ agent sample" in checked.stdout) == (0, True)
    assert duologue(tmp_path, "sessions", "--agent", name).returncode == 0


def test_a_changed_program_is_not_started_until_it_is_approved(tmp_path: Path) -> None:
    program = installed(tmp_path, user_lock(tmp_path))
    program.write_text(f"{AGENT}# changed\n")

    refused = [duologue(tmp_path, *each, "--agent", "sample") for each in (["run", "hi"], ["serve"], ["doctor"])]
    unasked = duologue(tmp_path, "agents", "approve", "sample")
    approved = duologue(tmp_path, "agents", "approve", "sample", "--yes")
    again = duologue(tmp_path, "agents", "approve", "sample", "--yes")

    assert [ended.returncode for ended in refused] == [1, 1, 1]
    assert all("SHA-256" in ended.stdout + ended.stderr for ended in refused)
    assert (unasked.returncode, "there is no terminal to ask on" in unasked.stderr) == (2, True)
    assert approved.returncode == 0
    assert "there is nothing to approve" in again.stderr
    assert duologue(tmp_path, "run", "hi", "--agent", "sample").returncode == 0


def test_the_lock_file_of_a_project_starts_nothing_before_its_approval(tmp_path: Path) -> None:
    project = tmp_path / "project"
    program = installed(tmp_path, project / "agents.lock")
    used = ("run", "hi", "--agent", "sample")

    unnamed = duologue(tmp_path, *used, cwd=project)
    refused = duologue(tmp_path, *used, "--lock", "agents.lock", cwd=project)
    with terminal(tmp_path, "agents", "approve", "--lock", str(project / "agents.lock")) as console:
        console.until("starts: bin/sample")
        console.until("Permit starting it? [y/N]")
        console.type("y\n")
        assert console.wait() == 0
    started = duologue(tmp_path, *used, "--lock", "agents.lock", cwd=project)
    alone = duologue(tmp_path, "run", "hi", "--lock", "agents.lock", cwd=project)

    assert program.exists()
    assert (unnamed.returncode, "unknown agent 'sample'" in unnamed.stderr) == (2, True)
    assert "run: duologue agents approve sample --lock agents.lock" in refused.stderr
    assert started.returncode == 0
    assert "`--lock` needs the name of one of its agents" in alone.stderr
