"""The rules of the house, each as a test; `docs/topics/design.md` says why they are what they are."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.house import MAY_IMPORT, PACKAGE, House, Module

ROOT = Path(__file__).parents[1]
HOUSE = House(ROOT / "src" / PACKAGE)
HAND_WRITTEN = [module for module in HOUSE.modules.values() if not module.is_generated]

MOST_LINES = 400
MOST_LINES_OF_A_FUNCTION = 50
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "managers", "misc"}

# Modules that own their tasks and say how each one ends. Everything else asks one of them, or a TaskGroup.
TASK_OWNERS = {
    "runtime.tasks",
    "transports.process",
    "transports.lines",
    "transports.stdio",
    "transports.websocket",
    "transports.http",
    "transports.asgi.connections",
}


def test_imports_point_down() -> None:
    assert HOUSE.wrong_directions() == []


def test_every_room_is_on_the_map() -> None:
    assert {module.room for module in HOUSE.modules.values()} <= set(MAY_IMPORT)


def test_no_module_needs_itself_to_be_imported() -> None:
    assert HOUSE.cycle() is None


def test_a_room_uses_only_public_names_of_another() -> None:
    assert HOUSE.broken_privacy() == []


def test_imports_are_absolute() -> None:
    assert [
        f"{module.name}:{node.lineno}"
        for module in HOUSE.modules.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and node.level
    ] == []


@pytest.mark.parametrize("module", HAND_WRITTEN, ids=lambda module: module.name)
def test_a_module_is_small_and_well_named(module: Module) -> None:
    lines = len(module.text.splitlines())

    assert lines <= MOST_LINES
    assert not VAGUE_NAMES & set(module.name.split("."))


@pytest.mark.parametrize("module", HAND_WRITTEN, ids=lambda module: module.name)
def test_every_function_fits_on_a_screen(module: Module) -> None:
    assert [
        f"{node.name}: {_lines(node)} lines"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _lines(node) > MOST_LINES_OF_A_FUNCTION
    ] == []


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


@pytest.mark.parametrize(
    "module", [m for m in HAND_WRITTEN if m.name not in TASK_OWNERS], ids=lambda module: module.name
)
def test_every_task_has_an_owner(module: Module) -> None:
    assert list(stray_tasks(module.tree)) == []


def stray_tasks(tree: ast.AST) -> list[int]:
    """Lines that start a task nobody waits for: on asyncio itself or on a loop, rather than in a TaskGroup."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    starts = re.compile(r"(asyncio\.|\w*loop\w*(\(\))?\.|^)(create_task|ensure_future)$")
    return [call.lineno for call in calls if starts.search(ast.unparse(call.func))]


ROOMS = [module for module in HAND_WRITTEN if module.is_package and module.name != PACKAGE]


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_every_room_has_a_sign_of_three_sentences_and_no_names_of_its_own(room: Module) -> None:
    sign = ast.get_docstring(room.tree) or ""
    names = [node for node in room.tree.body[1:] if not isinstance(node, ast.ImportFrom) or node.module != "__future__"]

    assert len(re.findall(r"[.](?:\s|$)", sign)) >= 3
    assert names == []


# What follows shows that the rules above can fail.


def _house(root: Path, files: dict[str, str]) -> House:
    for name, text in files.items():
        path = root / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return House(root)


@pytest.mark.parametrize(
    ("importer", "line"),
    [
        ("jsonrpc/codec", "import duologue.runtime.connection"),
        ("jsonrpc/codec", "from duologue.schema import base"),
        ("agent/agent", "from duologue.client.session import ClientSession"),
        ("client/session", "def late():\n    from duologue.agent import agent"),
        ("runtime/connection", "from duologue.schema.v1 import PromptRequest"),
        ("transports/stdio", "if TYPE_CHECKING:\n    from duologue.runtime.connection import Connection"),
        ("runtime/connection", "import duologue"),
    ],
)
def test_an_import_that_points_up_is_found(tmp_path: Path, importer: str, line: str) -> None:
    house = _house(
        tmp_path,
        {
            "schema/base": "",
            "schema/v1": "",
            "agent/agent": "",
            "client/session": "",
            "runtime/connection": "",
            importer: line,
        },
    )

    assert len(house.wrong_directions()) == 1


def test_an_import_that_points_down_passes(tmp_path: Path) -> None:
    house = _house(tmp_path, {"schema/base": "", "runtime/connection": "from duologue.schema import base"})

    assert house.wrong_directions() == []


def test_a_cycle_is_found_unless_only_the_type_checker_sees_it(tmp_path: Path) -> None:
    one = "from duologue.runtime.two import Two"
    late = "def late():\n    from duologue.runtime.one import One"
    typing = "if TYPE_CHECKING:\n    from duologue.runtime.one import One"

    assert _house(tmp_path / "late", {"runtime/one": one, "runtime/two": late}).cycle() is not None
    assert _house(tmp_path / "typing", {"runtime/one": one, "runtime/two": typing}).cycle() is None


def test_a_private_name_of_another_room_is_found(tmp_path: Path) -> None:
    house = _house(tmp_path, {"jsonrpc/peer": "", "runtime/calls": "from duologue.jsonrpc.peer import _state"})

    assert house.broken_privacy() == ["runtime.calls:1 imports jsonrpc.peer (_state)"]


@pytest.mark.parametrize(
    ("code", "strays"),
    [
        ("asyncio.create_task(work())", [1]),
        ("asyncio.get_running_loop().create_task(work())", [1]),
        ("self._loop.create_task(work())", [1]),
        ("create_task(work())", [1]),
        ("asyncio.ensure_future(work())", [1]),
        ("async with asyncio.TaskGroup() as group:\n    group.create_task(work())", []),
    ],
)
def test_a_task_without_an_owner_is_found(code: str, strays: list[int]) -> None:
    assert stray_tasks(ast.parse(code)) == strays
