"""The reference: every public name has a page, and every public name and method has a docstring."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "reference").rglob("*.md"))
DIRECTIVES = {
    target for page in PAGES for target in re.findall(r"^::: ([\w.]+)$", page.read_text("utf-8"), re.MULTILINE)
}
MODULES = [
    "duologue",
    "duologue.types",
    "duologue.events",
    "duologue.errors",
    "duologue.sync",
    "duologue.lowlevel",
    "duologue.testing",
    "duologue.recording",
    "duologue.evals",
    "duologue.proxy",
    "duologue.integrations.langgraph",
    "duologue.integrations.pydantic_ai",
    "duologue.schema.base",
    "duologue.schema.codec",
]
CLASSES = [
    "duologue.Agent",
    "duologue.Session",
    "duologue.Turn",
    "duologue.types.RemoteAgent",
    "duologue.types.ClientSession",
    "duologue.types.ClientTurn",
    "duologue.sync.BlockingAgent",
    "duologue.sync.BlockingSession",
    "duologue.sync.BlockingTurn",
]


def _names(module: str) -> list[str]:
    return list(vars(importlib.import_module(module))["__all__"])


def _value(dotted: str) -> Any:
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_a_place_in_the_reference(module: str) -> None:
    missing = [name for name in _names(module) if not {module, f"{module}.{name}"} & DIRECTIVES]

    assert missing == [], f"add `::: {module}.NAME` to a page of docs/reference"


def test_both_versions_of_the_messages_are_in_the_reference() -> None:
    assert {f"duologue.schema.v{v}.{part}" for v in (1, 2) for part in ("methods", "models")} <= DIRECTIVES


@pytest.mark.parametrize("module", MODULES)
def test_every_public_class_and_function_has_a_docstring(module: str) -> None:
    found = importlib.import_module(module)
    named = {name: getattr(found, name) for name in _names(module)}
    ours = {name: value for name, value in named.items() if inspect.isclass(value) or inspect.isfunction(value)}

    assert [name for name, value in ours.items() if not (value.__doc__ or "").strip()] == []


@pytest.mark.parametrize("dotted", CLASSES)
def test_every_public_method_has_a_docstring(dotted: str) -> None:
    cls = _value(dotted)
    methods = [
        name
        for name in dir(cls)
        if not name.startswith("_") and (callable(getattr(cls, name)) or isinstance(getattr(cls, name), property))
    ]

    assert methods
    assert [name for name in methods if not (inspect.getdoc(getattr(cls, name)) or "").strip()] == []
