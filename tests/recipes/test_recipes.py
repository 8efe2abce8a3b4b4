"""The recipes of CONTRIBUTING.md, each with a patch that follows it, done to a copy of the source.

A patch changes the official schemas, source files and one test; the classes of the schemas are generated from it. Its
source files are counted, and the schemas as one more: a release of the protocol replaces them, and `make schema` writes
the rest.

If a patch no longer applies because the lines around it changed: `git apply --reject` it to a clean tree, do by hand
what is in the `.rej` files, and write it again with `git diff -U1 -- scripts src ':!src/duologue/schema' tests`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECIPES = Path(__file__).parent
COPIED_TESTS = ("tests/protocol/test_update_kinds.py", "tests/protocol/test_client_request_kinds.py")
HEADINGS = {"update_kind": "A new kind of session update", "client_request": "A new request from agent to client"}
MOST_FILES = {"update_kind": 6, "client_request": 7}
RECIPE = pytest.mark.parametrize("name", MOST_FILES)


def changed_files(name: str) -> list[str]:
    return re.findall(r"^\+\+\+ b/(.+)$", (RECIPES / f"{name}.patch").read_text("utf-8"), re.MULTILINE)


@RECIPE
def test_a_change_touches_few_source_files(name: str) -> None:
    files = changed_files(name)
    source = [file for file in files if file.startswith("src/")]
    schemas = [file for file in files if file.startswith("scripts/schema/official/")]

    assert len(schemas) == 4
    assert len(source) + 1 <= MOST_FILES[name]
    assert [file for file in files if file not in (*source, *schemas)] == [file for file in files if "test_" in file]


@RECIPE
def test_a_recipe_names_the_files_that_its_patch_changes(name: str) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    recipe = re.search(rf"^### {HEADINGS[name]}\n(.*?)^##", text, re.MULTILINE | re.DOTALL)
    assert recipe is not None
    steps = re.findall(r"^\d\. (.*(?:\n   .*)*)", recipe[1], re.MULTILINE)
    named = {f"src/duologue/{path}" for step in steps for path in re.findall(r"`([\w/]+\.py)`", step)}

    assert named == {file for file in changed_files(name) if file.startswith("src/")}


@RECIPE
@pytest.mark.timeout(600)  # the first type check of a copy reads every module
def test_a_patch_is_typed_and_makes_a_round_trip(name: str, tmp_path: Path) -> None:
    for each in ("src", "scripts"):
        shutil.copytree(ROOT / each, tmp_path / each, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests").mkdir()
    for file in ("pyproject.toml", *COPIED_TESTS):
        shutil.copy(ROOT / file, tmp_path / ("" if file == "pyproject.toml" else "tests"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src"), "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}

    def run(*command: str) -> str:
        done = subprocess.run(
            command, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("git", "apply", str(RECIPES / f"{name}.patch"))
    run(sys.executable, "-m", "scripts.schema")
    python = [file for file in changed_files(name) if file.endswith(".py")]
    cache = ROOT / ".mypy_cache" / "recipes" / name
    run(sys.executable, "-m", "mypy", "--cache-dir", str(cache), *python)
    tested = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")

    assert " passed" in tested
    assert "skipped" not in tested
