"""`duologue eval run` with agents that the configuration names."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.report.run_summary import read_run
from tests.cli.program import duologue
from tests.evals.run.suites import GREET, HERE, write_suite

AGENT = HERE / "obedient_agent.py"
SECRET = "quite-plain-words-4711"


def entry(name: str, *arguments: object, **env: str) -> str:
    """Return the entry of an agent in the configuration file."""
    args = json.dumps([str(AGENT), *map(str, arguments)])
    variables = ", ".join(f"{key} = {json.dumps(value)}" for key, value in env.items())
    return f"[agents.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\nenv = {{ {variables} }}\n"


def test_agents_users_and_judges_are_found_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "user").write_text("say tea\nDONE\n")
    (tmp_path / "judge").write_text('{"pass": true, "score": 0.75}\n')
    config = tmp_path / "config.toml"
    entries = entry("mine", PLACE="north", ACCESS_TOKEN=SECRET), entry("guest", "--lines", tmp_path / "user")
    config.write_text("\n".join([*entries, entry("critic", "--lines", tmp_path / "judge")]))
    case = """
[[cases]]
id = "tea"
prompts = ["env PLACE ACCESS_TOKEN"]
simulated_user = { agent = "guest", persona = "You want tea." }
graders = [{ type = "judge", agent = "critic", rubric = "It is tea." }]
"""
    write_suite(tmp_path / "suite", case)
    words = ["--agent", "mine", "--sandbox", "none", "-o", "out"]
    ended = duologue(tmp_path, "eval", "run", "suite/suite.toml", *words, DUOLOGUE_CONFIG=str(config))

    assert ended.returncode == 0, ended.stderr
    (trial,) = read_run(tmp_path / "out").trials()
    (record,) = RunDirectory.open(tmp_path / "out").records()
    assert (trial.agent, trial.passed, trial.score) == ("mine", True, 0.75)
    assert (record.result().output, record.manifest().agent.command) == ("tea", [sys.executable, str(AGENT)])
    assert record.manifest().env == ["PLACE", "ACCESS_TOKEN"]
    assert '"PLACE": "north"' in next(step.text for step in record.trajectory() if step.type == "message")
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


def test_a_name_that_nothing_has_is_an_error_that_says_where_names_are_looked_up(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(entry("mine"))
    write_suite(tmp_path / "suite", GREET)
    words = ["--agent", "it=min", "-o", "out"]
    ended = duologue(tmp_path, "eval", "run", "suite/suite.toml", *words, DUOLOGUE_CONFIG=str(config))

    assert ended.returncode == 1
    assert "the agent 'it' cannot be started: unknown agent 'min'" in ended.stderr
    assert "lock file, in the configuration and on PATH" in ended.stderr
    assert "sandbox" not in ended.stderr
