"""The digest of a suite: of its cases, and of the content of every file that they name.

Where a suite lies, its name and its description do not change it. Neither does the source of a workspace, which is
often a repository with a life of its own: each trial records the commit that it was made from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import structs

from duologue.evals.suite.case import Case
from duologue.evals.suite.grader_specs import AnyGrader, CommandGrader, ExecutableGrader, FunctionGrader, JudgeGrader
from duologue.evals.suite.source_files import files_below, inside, read_source


def suite_digest(cases: Iterable[Case]) -> str:
    """Return the SHA-256 of cases and of the files that they name, in hexadecimal.

    Raises:
        FieldError: A file cannot be read.
    """
    digest = hashlib.sha256()
    for case in cases:
        digest.update(case_digest(case).encode())
    return digest.hexdigest()


def case_digest(case: Case) -> str:
    """Return the SHA-256 of a case and of the files that it names, in hexadecimal.

    Raises:
        FieldError: A file cannot be read.
    """
    return _digest(structs.replace(case, directory="", description=""), case, case_files(case))


def graders_digest(case: Case) -> str:
    """Return the SHA-256 of the graders of a case and of their files, in hexadecimal.

    Raises:
        FieldError: A file cannot be read.
    """
    files = (file for grader in case.graders for file in grader_files(grader, Path(case.directory)))
    return _digest([case.graders, case.hint, case.reference], case, files)


def _digest(value: object, case: Case, files: Iterable[tuple[str, str]]) -> str:
    digest = hashlib.sha256(msgspec.json.encode(value, order="sorted"))
    directory = Path(case.directory)
    for field, name in files:
        for file in files_below(inside(directory, name, field)):
            content = str(file.readlink()).encode() if file.is_symlink() else read_source(file)
            digest.update(f"\n{field} {file.relative_to(directory).as_posix()}\n".encode("utf-8", "surrogateescape"))
            digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()


def case_files(case: Case) -> Iterator[tuple[str, str]]:
    """Yield the field and the name of each file or directory of the suite that a case names."""
    for number, prompt in enumerate(case.turns):
        yield from ((f"prompts[{number}].images", name) for name in prompt.images)
        yield from ((f"prompts[{number}].files", name) for name in prompt.files)
        if prompt.text_file is not None:
            yield f"prompts[{number}].text_file", prompt.text_file
    for number, file in enumerate(case.files):
        if file.source is not None:
            yield f"files[{number}].source", file.source
    for number, file in enumerate(case.solution):
        if file.source is not None:
            yield f"solution[{number}].source", file.source
    if case.solution_command is not None:
        yield "solution_command.files", case.solution_command.files
    for number, grader in enumerate(case.graders):
        for field, name in grader_files(grader, Path(case.directory)):
            yield f"graders[{number}].{field}", name


def grader_files(grader: AnyGrader, directory: Path) -> Iterator[tuple[str, str]]:
    """Yield the field and the name of each file or directory of the suite that a grader uses."""
    match grader:
        case FunctionGrader() | JudgeGrader():
            file = (grader.function or "").rpartition(":")[0]
            if file.endswith(".py"):
                yield "function", file
        case CommandGrader():
            if grader.tests is not None:
                yield "tests", grader.tests
        case ExecutableGrader():
            # Arguments may be anything; those that are files of the suite are scripts or data of the grader.
            program = grader.command[0]
            if "/" in program and not program.startswith("/"):
                yield "command", program
            for word in grader.command[1:]:
                if not word.startswith(("-", "/")) and word and (directory / word).is_file():
                    yield "command", word
        case _:
            pass
