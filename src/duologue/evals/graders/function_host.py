"""Call a grader function in this process: JSON of a trial on stdin, JSON of its grade on stdout.

    python -m duologue.evals.graders.function_host checks.py:check < trial.json

What the function prints goes to stderr.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec

from duologue.evals.graders.interface import GraderInput
from duologue.evals.record.result import GraderOutput


def load_function(spec: str) -> Callable[[Any], object]:
    """Return the function of `module:function` or `file.py:function`.

    Raises:
        ImportError: There is no such module or file.
        AttributeError: It has no such function.
    """
    module_name, _, name = spec.rpartition(":")
    if module_name.endswith(".py"):
        path = Path(module_name).resolve()
        found = importlib.util.spec_from_file_location(path.stem, path)
        if found is None or found.loader is None or not path.is_file():
            raise ImportError(f"there is no file {module_name!r}")
        module = importlib.util.module_from_spec(found)
        sys.modules[path.stem] = module
        sys.path.insert(0, str(path.parent))
        found.loader.exec_module(module)
    else:
        sys.path.insert(0, str(Path.cwd()))
        module = importlib.import_module(module_name)
    function: Callable[[Any], object] = getattr(module, name)
    return function


def as_output(value: object) -> GraderOutput:
    """Return what a grader function returned as a grade: True or False, a score, a grade, or its fields.

    Raises:
        TypeError: It is something else.
        ValueError: A score is not from 0 to 1, or fields are missing.
    """
    if isinstance(value, GraderOutput):
        return value
    if isinstance(value, bool):
        return GraderOutput(passed=value, score=1.0 if value else 0.0)
    if isinstance(value, int | float):
        if not 0 <= value <= 1:
            raise ValueError(f"a score is from 0 to 1, not {value:g}")
        return GraderOutput(passed=value == 1, score=float(value))
    if isinstance(value, dict):
        try:
            return msgspec.convert(cast("dict[str, Any]", value), GraderOutput)
        except msgspec.ValidationError as error:
            raise ValueError(f"a grade has the fields pass, score, reasoning and outcome: {error}") from None
    raise TypeError(f"a grader returns True or False, a score, or a grade, not {type(value).__name__}")


def main() -> None:
    """Read a trial, call the function, and print its grade."""
    output = os.dup(1)
    os.dup2(2, 1)
    trial = msgspec.json.decode(sys.stdin.buffer.read(), type=GraderInput)
    grade = as_output(load_function(sys.argv[1])(trial))
    with os.fdopen(output, "wb") as file:
        file.write(msgspec.json.encode(grade))


if __name__ == "__main__":
    main()
