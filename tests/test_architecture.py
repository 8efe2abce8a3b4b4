"""The rules of the architecture, each as a test; `docs/topics/design.md` gives the reasons."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.source_tree import MAY_IMPORT, PACKAGE, Module, SourceTree

ROOT = Path(__file__).parents[1]
TREE = SourceTree(ROOT / "src" / PACKAGE)
HAND_WRITTEN = [module for module in TREE.modules.values() if not module.is_generated]

MOST_MODULES = 20
MOST_LINES = 400
MOST_LINES_OF_A_FUNCTION = 50
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "managers", "misc"}

# Adverbs, participles and prepositions that once were module names, and their like.
NOT_NOUNS = {
    *(
        "known",
        "held",
        "lent",
        "gathered",
        "recorded",
        "overheard",
        "guarded",
        "shared_with",
        "chosen",
        "asked",
        "taken",
    ),
    *(
        "beneath",
        "between",
        "beyond",
        "plainly",
        "again",
        "here",
        "late",
        "aside",
        "within",
        "without",
        "unread",
        "settable",
    ),
}
GERUNDS_OF_THE_FIELD = {"hosting", "blocking", "recording", "testing", "framing", "steering", "grading", "nesting"}

# Modules that own their tasks and say how each one ends. Everything else asks one of them, or a TaskGroup.
TASK_OWNERS = {
    "runtime.tasks",
    "transports.process.transport",
    "transports.stdio.line_stream",
    "transports.stdio.stdio",
    "transports.remote.websocket",
    "transports.remote.http",
    "transports.server.registry",
}


def test_imports_point_down() -> None:
    assert TREE.wrong_directions() == []


def test_every_package_has_its_allowed_imports() -> None:
    assert {module.package for module in TREE.modules.values()} <= set(MAY_IMPORT)


def test_no_module_needs_itself_to_be_imported() -> None:
    assert TREE.cycle() is None


def test_a_package_uses_only_public_names_of_another() -> None:
    assert TREE.broken_privacy() == []


def test_imports_are_absolute() -> None:
    assert [
        f"{module.name}:{node.lineno}"
        for module in TREE.modules.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and node.level
    ] == []


def test_no_package_has_more_than_twenty_modules() -> None:
    assert {
        name: len(modules) for name, modules in TREE.modules_in_packages().items() if len(modules) > MOST_MODULES
    } == {}


def test_no_two_classes_of_one_name_mean_different_things() -> None:
    # Private names stay in their module.
    found = {name: set(modules) for name, modules in TREE.classes().items() if not name.startswith("_")}

    assert {name: modules for name, modules in found.items() if len(modules) > 1} == {}


@pytest.mark.parametrize("module", HAND_WRITTEN, ids=lambda module: module.name)
def test_a_module_is_named_by_a_noun(module: Module) -> None:
    last = module.name.rpartition(".")[2]

    assert last not in NOT_NOUNS
    assert last in GERUNDS_OF_THE_FIELD or not re.search(r"(ing|ly)$", last)


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
    """Return how long a function is without its docstring, in which every parameter has a line."""
    first = node.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    text = (first.end_lineno or first.lineno) - first.lineno + 1 if is_docstring else 0
    return (node.end_lineno or node.lineno) - node.lineno + 1 - text


@pytest.mark.parametrize(
    "module", [m for m in HAND_WRITTEN if m.name not in TASK_OWNERS], ids=lambda module: module.name
)
def test_every_task_has_an_owner(module: Module) -> None:
    assert list(stray_tasks(module.tree)) == []


def stray_tasks(tree: ast.AST) -> list[int]:
    """Return the lines that start a task without an owner: on asyncio itself or on a loop, not in a TaskGroup."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    starts = re.compile(r"(asyncio\.|\w*loop\w*(\(\))?\.|^)(create_task|ensure_future)$")
    return [call.lineno for call in calls if starts.search(ast.unparse(call.func))]


PACKAGES = [module for module in HAND_WRITTEN if module.is_package and module.name != PACKAGE]


# Packages that users import from: they re-export their public names and define nothing of their own.
PUBLIC_PACKAGES = {"evals", "proxy", "recording", "testing", "integrations.langgraph", "integrations.pydantic_ai"}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_package_describes_itself_in_three_sentences_and_defines_nothing(package: Module) -> None:
    docstring = ast.get_docstring(package.tree) or ""
    names = [
        node for node in package.tree.body[1:] if not isinstance(node, ast.ImportFrom) or node.module != "__future__"
    ]

    assert len(re.findall(r"[.](?:\s|$)", docstring)) >= 3
    if package.name in PUBLIC_PACKAGES:
        names = [node for node in names if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    assert names == []


# What follows shows that the rules above can fail.


def _tree(root: Path, files: dict[str, str]) -> SourceTree:
    for name, text in files.items():
        path = root / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return SourceTree(root)


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
    tree = _tree(
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

    assert len(tree.wrong_directions()) == 1


def test_an_import_that_points_down_passes(tmp_path: Path) -> None:
    tree = _tree(tmp_path, {"schema/base": "", "runtime/connection": "from duologue.schema import base"})

    assert tree.wrong_directions() == []


def test_a_cycle_is_found_unless_only_the_type_checker_sees_it(tmp_path: Path) -> None:
    one = "from duologue.runtime.two import Two"
    late = "def late():\n    from duologue.runtime.one import One"
    typing = "if TYPE_CHECKING:\n    from duologue.runtime.one import One"

    assert _tree(tmp_path / "late", {"runtime/one": one, "runtime/two": late}).cycle() is not None
    assert _tree(tmp_path / "typing", {"runtime/one": one, "runtime/two": typing}).cycle() is None


def test_a_private_name_of_another_package_is_found(tmp_path: Path) -> None:
    tree = _tree(tmp_path, {"jsonrpc/peer": "", "runtime/calls": "from duologue.jsonrpc.peer import _state"})

    assert tree.broken_privacy() == ["runtime.calls:1 imports jsonrpc.peer (_state)"]


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
