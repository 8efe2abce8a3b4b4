"""The front door: which names a user may import from `duologue` itself, and what that import costs."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import duologue
from duologue import errors

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
    "__version__",
    "ask",
    "choice",
    "connect",
    "run",
    "toggle",
]


def test_the_front_door_offers_exactly_these_names() -> None:
    assert sorted(duologue.__all__) == NAMES
    assert len(NAMES) <= MOST_NAMES


def test_every_name_at_the_front_door_is_there_and_can_be_listed() -> None:
    assert [name for name in duologue.__all__ if not hasattr(duologue, name)] == []
    assert set(duologue.__all__) <= set(dir(duologue))


def test_importing_the_front_door_loads_nothing_behind_it() -> None:
    code = "import sys, json, duologue; print(json.dumps(sorted(m for m in sys.modules if m.startswith('duologue'))))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=30, check=True).stdout

    assert json.loads(output) == ["duologue"]


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
