"""Suites and runs of real agents that the tests of this directory share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.run.options import TrialOptions
from duologue.evals.run.suite_run import RunEnd, run_suite

HERE = Path(__file__).parent

GREET = """
[[cases]]
id = "greet"
prompts = ["/hello"]
graders = [{ type = "text", matches = "(?i)hello" }]
"""

WRITE = """
[[cases]]
id = "write"
prompts = ["/write notes.txt one line"]
permissions = { edit = "allow" }
graders = [{ type = "file", path = "notes.txt", contains = ["one line"] }]
"""


def write_suite(folder: Path, *cases: str, header: str = 'name = "small"') -> Path:
    """Write a suite of these cases and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "suite.toml"
    path.write_text("\n".join([header, *cases]))
    return path


def python_agent(name: str, *arguments: str) -> str:
    """Return the command of a program of this directory."""
    return " ".join([sys.executable, str(HERE / f"{name}.py"), *arguments])


async def run_cases(folder: Path, *cases: str, agents: Any = ("builtin",), **more: Any) -> tuple[RunEnd, RunDirectory]:
    """Run cases once with agents, unconfined unless said otherwise; return the end and the directory."""
    header = more.pop("header", 'name = "small"')
    options: dict[str, Any] = {"sandbox": "none", "backoff": 0.0, **more.pop("options", {})}
    suite = write_suite(folder / "suite", *cases, header=header)
    end = await run_suite(suite, agents, folder / "run", options=TrialOptions(**options), **more)
    return end, RunDirectory.open(folder / "run")
