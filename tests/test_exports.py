"""The public modules: which names each one offers, and what importing it loads."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import duologue
from duologue import errors, evals, lowlevel, sync, testing, types

ROOT = Path(__file__).parents[1]
READ_BY_USERS = [
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("examples/*.py")),
    ROOT / "README.md",
]
MOST_NAMES = 25

# Change this list on purpose, with a line in the changelog: every name here is a promise.
NAMES = [
    "Agent",
    "Permissions",
    "Session",
    "Settings",
    "Terminals",
    "Turn",
    "Workspace",
    "ask",
    "choice",
    "connect",
    "run",
    "toggle",
]


LAZY_MODULES = [duologue, evals, lowlevel, testing, types]


def test_the_package_exports_exactly_these_names() -> None:
    assert exported(duologue) == NAMES
    assert len(NAMES) <= MOST_NAMES


def exported(module: ModuleType) -> list[str]:
    """Return `__all__` of a module, which type checkers do not see if it is computed."""
    return list(vars(module)["__all__"])


@pytest.mark.parametrize("module", [*LAZY_MODULES, sync], ids=lambda module: module.__name__)
def test_every_exported_name_exists_and_can_be_listed(module: ModuleType) -> None:
    assert [name for name in exported(module) if not hasattr(module, name)] == []
    assert set(exported(module)) <= set(dir(module))


@pytest.mark.parametrize("module", LAZY_MODULES, ids=lambda module: module.__name__)
def test_a_lazy_module_shows_type_checkers_the_names_that_it_loads(module: ModuleType) -> None:
    tree = ast.parse(Path(module.__file__ or "").read_text("utf-8"))
    imports = [node for block in tree.body if isinstance(block, ast.If) for node in block.body]

    shown = {alias.asname: node.module for node in imports if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert shown == inspect.getclosurevars(vars(module)["__getattr__"]).nonlocals["modules"]


@pytest.mark.parametrize("module", LAZY_MODULES, ids=lambda module: module.__name__)
def test_importing_a_lazy_module_loads_nothing_else(module: ModuleType) -> None:
    code = f"import sys, json, {module.__name__}; print(json.dumps(list(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True).stdout

    loaded = {name for name in json.loads(output) if name.startswith("duologue")}
    assert loaded == {"duologue", "duologue.lazy_exports", module.__name__}


def test_an_unknown_name_of_a_lazy_module_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module .duologue.types. has no attribute"):
        _ = types.Nonsense  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


PUBLIC = re.compile(
    r"duologue(\.(types|events|errors|sync|testing|evals|recording|proxy|lowlevel|schema(\.v[12])?|integrations\.\w+))?$"
)


@pytest.mark.parametrize("file", READ_BY_USERS, ids=lambda file: str(file.relative_to(ROOT)))
def test_docs_and_examples_import_only_public_modules(file: Path) -> None:
    text = file.read_text("utf-8")
    imports = re.findall(r"^\s*from (duologue[\w.]*) import|^\s*import (duologue[\w.]*)", text, re.MULTILINE)

    assert [name for pair in imports for name in pair if name and not PUBLIC.match(name)] == []


def test_the_tree_of_errors_names_every_error_once() -> None:
    drawn = re.findall(r"^ {4}[│├└─ ]*(\w+)", errors.__doc__ or "", re.MULTILINE)
    classes = [name for name in errors.__all__ if isinstance(getattr(errors, name), type)]

    assert sorted(drawn) == sorted(classes)


def test_the_tree_of_errors_is_drawn_as_it_is() -> None:
    path: list[str] = []
    for indent, name in re.findall(r"^ {4}([│├└─ ]*)(\w+)", errors.__doc__ or "", re.MULTILINE):
        del path[len(indent) // 4 :]
        parent = path[-1] if path else "Exception"
        path.append(name)

        assert getattr(errors, name).__base__.__name__ == parent
