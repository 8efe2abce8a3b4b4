"""Read a suite: a TOML file, JSON lines, or a directory; all of it is checked before anything starts."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import structs

from duologue.evals.exceptions import SuiteError
from duologue.evals.suite.case import Case, PromptTurn
from duologue.evals.suite.conversion import FieldError, convert
from duologue.evals.suite.digest import case_files, suite_digest
from duologue.evals.suite.grader_specs import CommandGrader, FileGrader, JsonGrader
from duologue.evals.suite.harbor import is_harbor_task, read_harbor_task
from duologue.evals.suite.prompt_cases import is_prompt_case, read_prompt_case
from duologue.evals.suite.source_files import inside, read_source, read_text, relative
from duologue.evals.suite.suite import SUITE_FORMAT, Suite, SuiteFile

MAX_CASES = 100_000
"""Number of cases in the largest suite."""
MAX_PROBLEMS = 50
"""Number of mistakes that are reported at once."""

_MERGED = ("timeouts", "budget", "session", "permissions")
"""Tables of the defaults that a case completes instead of replacing them."""


def load_suite(path: str | Path) -> Suite:
    """Read a suite and check it: every case, and every file that a case names.

    Args:
        path: A TOML file; a file of JSON lines; a directory with `suite.toml` and `cases/NAME/case.toml`; or a Harbor
            task or a directory of Harbor tasks.

    Raises:
        SuiteError: There are mistakes; each is named with its file, case and field.
    """
    return _Loader(Path(path)).load()


class _Loader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._problems: list[str] = []
        self._cases: dict[str, Case] = {}
        self._header = SuiteFile()
        self._defaults: dict[str, Any] = {}

    def load(self) -> Suite:
        try:
            self._read()
        except FieldError as error:
            self._problems.append(f"{self._path}: {error}")
        if not self._problems and not self._cases:
            self._problems.append(f"{self._path}: there are no cases")
        if self._problems:
            raise SuiteError(self._shown_problems())
        cases = tuple(self._cases.values())
        try:
            digest = suite_digest(cases)
        except FieldError as error:
            raise SuiteError([f"{self._path}: {error}"]) from None
        return Suite(
            name=self._header.name or self._path.resolve().stem,
            digest=digest,
            cases=cases,
            description=self._header.description,
            trials=self._header.trials,
            path=str(self._path),
        )

    def _shown_problems(self) -> list[str]:
        more = len(self._problems) - MAX_PROBLEMS
        return [*self._problems[:MAX_PROBLEMS], *([f"and {more} more"] if more > 0 else [])]

    def _read(self) -> None:
        path = self._path
        if not path.exists():
            raise FieldError("there is no such file or directory")
        if path.is_dir():
            self._read_directory(path)
        elif path.suffix == ".toml":
            self._read_toml(path)
        elif path.suffix in (".jsonl", ".ndjson"):
            self._read_lines(path)
        else:
            raise FieldError("a suite is a .toml or a .jsonl file, or a directory")

    # --- directories

    def _read_directory(self, path: Path) -> None:
        if (path / "suite.toml").exists():
            self._read_toml(path / "suite.toml")
        elif is_harbor_task(path):
            self._add(path, path.name, partial(read_harbor_task, path))
        else:
            tasks = [task for task in sorted(path.iterdir()) if is_harbor_task(task)]
            if not tasks:
                raise FieldError("the directory has no suite.toml, and no Harbor tasks (NAME/task.toml)")
            for task in tasks:
                self._add(task, task.name, partial(read_harbor_task, task))

    def _read_toml(self, path: Path) -> None:
        content = _parse_toml(path)
        cases = content.pop("cases", [])
        self._read_header(content)
        if not isinstance(cases, list):
            raise FieldError("`cases` must be a list of tables: [[cases]]")
        for number, value in enumerate(cast("list[object]", cases), 1):
            self._add_value(path, f"number {number}", value, path.parent)
        for file in sorted((path.parent / "cases").glob("*/case.toml")):
            name = file.parent.name
            self._add(file, name, partial(self._case_file, file, name))

    def _read_header(self, content: dict[str, Any]) -> None:
        """Read what a suite says about itself and what its cases share."""
        version = content.get("format", SUITE_FORMAT)
        if isinstance(version, int) and version > SUITE_FORMAT:
            raise FieldError(
                f"the suite has format {version}, and this version of duologue reads up to {SUITE_FORMAT}: "
                "install a newer duologue"
            )
        self._header = convert(content, SuiteFile)
        self._defaults = dict(content.get("defaults", {}))

    # --- JSON lines

    def _read_lines(self, path: Path) -> None:
        is_first = True
        for number, line in enumerate(read_source(path).splitlines(), 1):
            if not line.strip():
                continue
            try:
                value: object = msgspec.json.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                self._problems.append(f"{path}, line {number}: {error}")
                continue
            is_table = isinstance(value, dict)
            fields = cast("dict[str, Any]", value)
            if is_first and is_table and "id" not in fields:
                self._read_header(fields)
            else:
                self._add_value(path, f"of line {number}", fields if is_table else value, path.parent)
            is_first = False

    # --- cases

    def _add_value(self, path: Path, position: str, value: object, directory: Path) -> None:
        if not isinstance(value, dict):
            self._problems.append(f"{path}: the case {position} must be a table, not {type(value).__name__}")
            return
        fields = cast("dict[str, Any]", value)
        name = fields.get("id")
        label = repr(name) if isinstance(name, str) else position
        self._add(path, label, lambda: self._case(fields, directory), is_label=True)

    def _case_file(self, file: Path, name: str) -> Case:
        return self._case({"id": name, **_parse_toml(file)}, file.parent)

    def _case(self, fields: dict[str, Any], directory: Path) -> Case:
        if is_prompt_case(fields):
            case = read_prompt_case(fields)
        else:
            if "directory" in fields:
                raise FieldError("unknown field 'directory'")
            case = convert(_with_defaults(fields, self._defaults), Case)
        return structs.replace(case, directory=str(directory.resolve()))

    def _add(self, path: Path, name: str, read: Callable[[], Case], *, is_label: bool = False) -> None:
        """Add a case, or what is wrong with it."""
        label = name if is_label else repr(name)
        try:
            case = _complete(read())
            if case.id in self._cases:
                raise FieldError("id: another case has the same id")
            if len(self._cases) >= MAX_CASES:
                raise FieldError(f"a suite has at most {MAX_CASES:,} cases")
            self._cases[case.id] = case
        except FieldError as error:
            self._problems.append(f"{path}: case {label}: {error}")


def _parse_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise FieldError(f"{path} is not TOML: {error}") from None
    except RecursionError:
        raise FieldError(f"{path} is nested too deeply") from None


def _with_defaults(fields: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Return a case with what all cases share: tables of limits and settings are completed, the rest is replaced."""
    merged = {**defaults, **fields}
    for name in _MERGED:
        shared, own = defaults.get(name), fields.get(name)
        if isinstance(shared, dict) and isinstance(own, dict):
            merged[name] = {**shared, **own}
    return merged


def _complete(case: Case) -> Case:
    """Return a case with the texts of its prompts, after checking every file that it names.

    Raises:
        FieldError: A file is missing, or leads out of the suite or of the workspace.
    """
    directory = Path(case.directory)
    for field, name in case_files(case):
        inside(directory, name, field)
    for field, name in _workspace_paths(case):
        relative(name, field)
    source = case.workspace.source
    if source is not None and not (directory / source).is_dir():
        raise FieldError(f"workspace.source: there is no directory {source!r} in {directory}")
    return structs.replace(case, prompts=[_with_text(turn, directory) for turn in case.turns])


def _with_text(turn: PromptTurn, directory: Path) -> PromptTurn:
    if turn.text_file is None:
        return turn
    text = read_text(directory / turn.text_file)
    if not text.strip():
        raise FieldError(f"prompts: {turn.text_file} is empty")
    return PromptTurn(text=text, images=turn.images, files=turn.files)


def _workspace_paths(case: Case) -> Iterator[tuple[str, str]]:
    yield from ((f"files[{number}].path", file.path) for number, file in enumerate(case.files))
    for number, grader in enumerate(case.graders):
        if isinstance(grader, FileGrader | JsonGrader) and grader.path is not None:
            yield f"graders[{number}].path", grader.path
        if isinstance(grader, CommandGrader):
            yield from ((f"graders[{number}].reward_files", name) for name in grader.reward_files)
