"""Graders that need no program: texts, files and JSON."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import UNSET

from duologue.evals.exceptions import GraderError, RecordError
from duologue.evals.graders.interface import GraderInput, GradingContext
from duologue.evals.record.result import GraderOutput
from duologue.evals.record.versioned_file import read_bounded
from duologue.evals.suite.grader_specs import FileGrader, JsonGrader, TextGrader
from duologue.schema.lenient_errors import is_array, is_object

MAX_CHECKED_BYTES = 64 << 20
"""Size of the largest file of a workspace that is checked."""

_FENCE = re.compile(r"^```[\w-]*\n(?P<body>.*?)^```", re.MULTILINE | re.DOTALL)


def grade_text(spec: TextGrader, trial: GraderInput) -> GraderOutput:
    """Grade a text of the trial."""
    text = {"output": trial.output, "last_message": trial.last_message, "patch": trial.patch}[spec.of]
    return _verdict(_text_problems(spec, text, f"the {spec.of.replace('_', ' ')}"))


def grade_file(spec: FileGrader, context: GradingContext) -> GraderOutput:
    """Grade a file of the workspace.

    Raises:
        GraderError: The workspace was not saved.
    """
    path = workspace_path(context, spec.path)
    exists = path is not None and path.exists()
    if exists != spec.exists:
        return _verdict([f"{spec.path} {'exists' if exists else 'does not exist'}"])
    if path is None or not exists:
        return _verdict([])
    if path.is_dir():
        wants_text = spec.equals is not None or spec.contains or spec.lacks or spec.matches is not None
        return _verdict([f"{spec.path} is a directory"] if wants_text else [])
    try:
        text = read_bounded(path, MAX_CHECKED_BYTES).decode("utf-8", "replace")
    except RecordError as error:
        return _verdict([str(error)])
    return _verdict(_text_problems(spec, text, spec.path))


def grade_json(spec: JsonGrader, context: GradingContext) -> GraderOutput:
    """Grade a value in JSON.

    Raises:
        GraderError: The workspace was not saved.
    """
    if spec.path is None:
        found = _FENCE.findall(context.trial.last_message)
        text, name = (found[-1] if found else context.trial.last_message).encode(), "the last message"
    else:
        path, name = workspace_path(context, spec.path), spec.path
        if path is None or not path.is_file():
            return _verdict([f"{spec.path} does not exist"])
        try:
            text = read_bounded(path, MAX_CHECKED_BYTES)
        except RecordError as error:
            return _verdict([str(error)])
    try:
        document: object = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return _verdict([f"{name} is not JSON: {error}"])
    try:
        value = _at(document, spec.pointer)
    except LookupError:
        return _verdict([f"{name} has no value at {spec.pointer!r}"])
    return _verdict(_value_problems(spec, value, f"the value at {spec.pointer!r}"))


def workspace_path(context: GradingContext, name: str) -> Path | None:
    """Return the path of a file of the workspace; None if it leads out of it, as a link of the agent may.

    Raises:
        GraderError: The workspace was not saved.
    """
    if context.workspace is None:
        raise GraderError("the workspace of the trial was not saved, so that its files cannot be graded")
    path = context.workspace / name
    # `Path.resolve` raises an error for links that lead to each other, which an agent can make.
    real, root = Path(os.path.realpath(path)), Path(os.path.realpath(context.workspace))
    return path if real.is_relative_to(root) else None


def _text_problems(spec: TextGrader | FileGrader, text: str, name: str) -> list[str]:
    problems: list[str] = []
    if spec.equals is not None and text.strip() != spec.equals.strip():
        problems.append(f"{name} is not {_short(spec.equals)}")
    problems += [f"{name} does not contain {_short(part)}" for part in spec.contains if part not in text]
    problems += [f"{name} contains {_short(part)}" for part in spec.lacks if part in text]
    if spec.matches is not None and not re.search(spec.matches, text, re.MULTILINE):
        problems.append(f"{name} does not match {_short(spec.matches)}")
    return problems


def _value_problems(spec: JsonGrader, value: object, name: str) -> list[str]:
    problems: list[str] = []
    if spec.equals is not UNSET and not _equal(value, spec.equals):
        problems.append(f"{name} is {_short(value)}, not {_short(spec.equals)}")
    if spec.matches is not None and not (isinstance(value, str) and re.search(spec.matches, value, re.MULTILINE)):
        problems.append(f"{name} is {_short(value)}, which does not match {_short(spec.matches)}")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    for limit, is_within in (
        (spec.at_least, is_number and cast("float", value) >= (spec.at_least or 0)),
        (spec.at_most, is_number and cast("float", value) <= (spec.at_most or 0)),
    ):
        if limit is not None and not is_within:
            problems.append(f"{name} is {_short(value)}, beyond {limit:g}")
    return problems


def _equal(one: object, two: object) -> bool:
    # In Python True == 1; in JSON it is not, also inside of arrays and objects.
    if is_array(one) and is_array(two):
        return len(one) == len(two) and all(map(_equal, one, two))
    if is_object(one) and is_object(two):
        return one.keys() == two.keys() and all(_equal(one[name], two[name]) for name in one)
    return isinstance(one, bool) == isinstance(two, bool) and one == two


def _at(document: object, pointer: str) -> object:
    """Return the value at a JSON pointer.

    Raises:
        LookupError: There is none.
    """
    value: Any = document
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if is_object(value):
            value = value[name]
        elif is_array(value) and re.fullmatch(r"0|[1-9]\d{0,8}", name):
            value = value[int(name)]
        else:
            raise LookupError(name)
    return value


def _verdict(problems: list[str]) -> GraderOutput:
    return GraderOutput(passed=not problems, score=0.0 if problems else 1.0, reasoning="; ".join(problems))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
