"""Autobahn's test suite, a program that needs Python 2.7: installed once, run as a process, its verdicts read.

It is the judge of WebSocket implementations. Where no Python 2.7 can be had the tests are skipped, and say so.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.interop.peers.building import cache

Verdicts: TypeAlias = dict[str, tuple[str, str]]
"""Of each case: what is said of the behaviour, and of the way it was closed."""

RELEASE = "25.10.1"
AGENT = "duologue"
LEFT_OUT = ["9.*", "12.*", "13.*"]
"""The speed of huge messages, and compression, which is off at both of our ends."""

CASES = 247
GOOD = {"OK", "NON-STRICT", "INFORMATIONAL", "UNIMPLEMENTED"}
START = "import autobahntestsuite.wstest; autobahntestsuite.wstest.run()"


def python2() -> str:
    """Return a Python 2.7 with pip; skip the test where there is none."""
    named = os.environ.get("DUOLOGUE_PYTHON2")
    installed = sorted(map(str, Path.home().glob(".pyenv/versions/2.7*/bin/python2.7")))
    for candidate in [named, *installed, shutil.which("python2.7"), shutil.which("python2")]:
        if candidate is None:
            continue
        found = subprocess.run([candidate, "-m", "pip", "--version"], capture_output=True, check=False)
        if found.returncode == 0:
            return candidate
    pytest.skip("Autobahn needs Python 2.7 with pip, and there is none here (DUOLOGUE_PYTHON2 names one)")


class Suite:
    """The suite, ready to be run.

    Args:
        folder: Where it writes what it found.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._python = python2()
        self._packages = _install(self._python)

    @asynccontextmanager
    async def running(self, mode: str, spec: Mapping[str, Any]) -> AsyncGenerator[Process]:
        """Run it as `fuzzingclient` or `fuzzingserver`."""
        path = self._folder / "spec.json"
        what = {"outdir": str(self._folder / "found"), "cases": ["*"], "exclude-cases": LEFT_OUT, **spec}
        path.write_text(json.dumps({**what, "exclude-agent-cases": {}}))
        command = [self._python, "-c", START, "-m", mode, "-s", str(path), "-u", "0"]
        env = {**os.environ, "PYTHONPATH": str(self._packages)}
        process = await asyncio.create_subprocess_exec(*command, cwd=self._folder, env=env, stdout=DEVNULL)
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    def verdicts(self) -> Verdicts:
        """Return the results of all cases."""
        index: dict[str, Any] = json.loads((self._folder / "found" / "index.json").read_text())
        return {case: (each["behavior"], each["behaviorClose"]) for case, each in index[AGENT].items()}


def failures(verdicts: Verdicts) -> set[str]:
    """Return the failed cases."""
    return {case for case, (behaviour, close) in verdicts.items() if not {behaviour, close} <= GOOD}


def _install(python: str) -> Path:
    packages = cache() / f"autobahn-{RELEASE}"
    marker = packages / "ready"
    if not marker.exists():
        shutil.rmtree(packages, ignore_errors=True)
        requirement = f"autobahntestsuite=={RELEASE}"
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(packages)]
        subprocess.run([*command, requirement], check=True, capture_output=True)
        (packages / "zope" / "__init__.py").touch()  # `--target` leaves out what makes it a package
        marker.touch()
    return packages
