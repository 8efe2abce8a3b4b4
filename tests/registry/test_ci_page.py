"""The workflow and the commands of the page about CI are valid, and do what the page says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import yaml

from duologue.cli.parser import make_parser
from duologue.registry import installation
from duologue.registry.lock_file import read_lock
from tests.registry.conftest import Shop

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "pin-agents-in-ci.md").read_text("utf-8")


def commands() -> list[list[str]]:
    """Return the duologue commands of the page, those of the workflow included."""
    workflow = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0])
    lines = [step["run"] for step in workflow["jobs"]["ask"]["steps"] if "run" in step]
    lines += "".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)).splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    return [each[1:] for each in words if each[:1] == ["duologue"]]


def test_every_command_of_the_page_is_valid() -> None:
    parser, _ = make_parser()

    assert len(commands()) >= 9
    for words in commands():
        parser.parse_args(words)


def test_the_workflow_installs_and_verifies_a_projects_lock(shop: Shop, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    installation.add(shop.request(), project / "agents.lock", shop.source)
    agent = read_lock(project / "agents.lock").agents["tiny"]
    (shop.agents / "tiny").rename(tmp_path / "removed")

    for words in commands():
        if words[:2] in (["agents", "install"], ["agents", "verify"]) and "--mirror" not in words:
            done = subprocess.run(
                [sys.executable, "-m", "duologue", *words], cwd=project, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
    assert installation.verify(agent) == []
