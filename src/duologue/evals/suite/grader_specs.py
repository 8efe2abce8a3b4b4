"""The graders of a suite as its file has them: one class for each `type`."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, field

from duologue.evals.suite.limits import Seconds, VariableName

Command = Annotated[list[str], Meta(min_length=1)]
TrajectoryCheck: TypeAlias = Literal[
    "called", "never_called", "ran", "never_ran", "read_before_edit", "asked_before_writing", "tool_calls"
]  # fmt: skip
"""Predicates over the steps of a trial."""
JudgedPart: TypeAlias = Literal["input", "output", "patch", "trajectory", "hint", "reference"]
"""Parts of a trial that a judge can read."""


class GraderSpec(
    Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="type"
):  # fmt: skip
    """The fields that all graders have.

    Attributes:
        name: Its name in reports; the type and its number in the case otherwise.
        weight: Its part of the score of the trial.
        required: The trial passes only if this grader passes.
    """

    name: str = ""
    weight: Annotated[float, Meta(ge=0)] = 1.0
    required: bool = True


class FunctionGrader(GraderSpec, frozen=True, kw_only=True, tag="function"):
    """Calls a Python function with a `GraderInput`.

    Attributes:
        function: `module:function`, or `file.py:function` relative to the suite; it runs in a process of its own.
        timeout: Seconds; those of the case otherwise.
    """

    function: Annotated[str, Meta(pattern=r"\A[^:]+:[A-Za-z_]\w*\Z")]
    timeout: Seconds | None = None


class ExecutableGrader(GraderSpec, frozen=True, kw_only=True, tag="executable"):
    """Runs a program with a `GraderInput` as JSON on stdin; it prints a `GraderOutput` as JSON.

    Attributes:
        command: Program and arguments; it is started in the directory of the suite.
        env: Names of environment variables that it gets from the caller's environment, in addition to a safe minimum.
        timeout: Seconds; those of the case otherwise.
    """

    command: Command
    env: list[VariableName] = []
    timeout: Seconds | None = None


class CommandGrader(GraderSpec, frozen=True, kw_only=True, tag="command"):
    """Runs a test command in a copy of the workspace; it passes with exit code 0 or by its reward file.

    Attributes:
        command: Program and arguments; `{tests}`, `{workspace}` and `{logs}` are replaced by directories.
        reward_files: Files below `{logs}`, of which the first that exists has a number from 0 to 1, or a JSON object
            of numbers; without them, the exit code decides. A command that writes none has failed to grade.
        tests: Directory of the suite that is copied to `{tests}`; the agent never sees it.
        paths: Absolute paths that are replaced in the text files of `tests`, such as `/logs` for tests that were
            written for a container, each by `{tests}`, `{workspace}` or `{logs}`.
        pass_at: Least reward that passes.
        variables: Environment variables with their values, in addition to those of the case.
        env: Names of environment variables that it gets from the caller's environment, in addition to a safe minimum.
        timeout: Seconds; those of the case otherwise.
    """

    command: Command
    reward_files: list[str] = []
    tests: str | None = None
    paths: dict[str, str] = {}
    pass_at: Annotated[float, Meta(ge=0, le=1)] = 1.0
    variables: dict[VariableName, str] = {}
    env: list[VariableName] = []
    timeout: Seconds | None = None


class _TextChecks(GraderSpec, frozen=True, kw_only=True):
    """Conditions on a text; all that are given must hold.

    Attributes:
        equals: The whole text, without whitespace around it.
        contains: Texts that occur in it.
        lacks: Texts that do not occur in it.
        matches: Regular expression that is found in it; `^` and `$` match at lines.
    """

    equals: str | None = None
    contains: list[str] = []
    lacks: list[str] = []
    matches: str | None = None

    def __post_init__(self) -> None:
        _check_pattern("matches", self.matches)


class FileGrader(_TextChecks, frozen=True, kw_only=True, tag="file"):
    """Checks a file of the workspace after the trial.

    Attributes:
        path: The file, relative to the workspace.
        exists: Whether it must exist; with False, nothing else can be checked.
    """

    path: str
    exists: bool = True

    def __post_init__(self) -> None:
        _check_pattern("matches", self.matches)
        if not self.exists and (self.equals is not None or self.contains or self.lacks or self.matches is not None):
            raise ValueError("a file that must not exist has no content to check")


class TextGrader(_TextChecks, frozen=True, kw_only=True, tag="text"):
    """Checks a text of the trial.

    Attributes:
        of: The agent's messages (`output`), the last of them (`last_message`), or the `patch` of the workspace.
    """

    of: Literal["output", "last_message", "patch"] = "output"

    def __post_init__(self) -> None:
        _check_pattern("matches", self.matches)
        if self.equals is None and not self.contains and not self.lacks and self.matches is None:
            raise ValueError("give at least one of `equals`, `contains`, `lacks` and `matches`")


class JsonGrader(GraderSpec, frozen=True, kw_only=True, tag="json"):
    """Checks a value in JSON: a file of the workspace, or the agent's last message, which may be a fenced block.

    Attributes:
        path: The file; None for the last message.
        pointer: Where the value is, as RFC 6901 writes it: `/items/0/name`; empty for the whole document.
        equals: The value.
        matches: Regular expression for a text value.
        at_least: Least number.
        at_most: Largest number.
    """

    path: str | None = None
    pointer: Annotated[str, Meta(pattern=r"\A(/.*)?\Z")] = ""
    equals: Any | UnsetType = UNSET
    matches: str | None = None
    at_least: float | None = None
    at_most: float | None = None

    def __post_init__(self) -> None:
        _check_pattern("matches", self.matches)


class TrajectoryGrader(GraderSpec, frozen=True, kw_only=True, tag="trajectory"):
    """Checks the steps of the trial.

    Attributes:
        check: `called` and `never_called`: a tool call of this `kind` and `pattern` (title, input or path). `ran` and
            `never_ran`: a command that `pattern` matches. `read_before_edit`: each existing file was read before it
            was changed. `asked_before_writing`: each change and command followed a permission that was allowed.
            `tool_calls`: their number is between `at_least` and `at_most`.
        pattern: Regular expression, searched for.
        kind: Kind of tool call, such as `execute`; empty for all.
        at_least: Least number of calls.
        at_most: Largest number of calls.
    """

    check: TrajectoryCheck
    pattern: str | None = None
    kind: str = ""
    at_least: Annotated[int, Meta(ge=0)] | None = None
    at_most: Annotated[int, Meta(ge=0)] | None = None

    def __post_init__(self) -> None:
        _check_pattern("pattern", self.pattern)
        if self.check in ("ran", "never_ran") and self.pattern is None:
            raise ValueError(f"the check {self.check!r} needs a `pattern`")
        if self.check == "tool_calls" and self.at_least is None and self.at_most is None:
            raise ValueError("the check 'tool_calls' needs `at_least` or `at_most`")


def _judged_parts() -> list[JudgedPart]:
    return ["input", "output", "patch", "hint", "reference"]


class JudgeGrader(GraderSpec, frozen=True, kw_only=True, tag="judge"):
    """Lets a model or another agent vote on the trial.

    Attributes:
        rubric: What a trial that passes has; the judge decides by it alone.
        agent: The judge: name, command or URL of an agent. It gets no files, no terminals and no permissions.
        function: The judge: `file.py:function` or `module:function`, which gets a prompt and returns the answer of a
            model; instead of `agent`. It runs in a process of its own.
        votes: How often the judge is asked, each time anew.
        least: How many votes must pass; more than half of them otherwise.
        shows: Parts of the trial that the judge reads.
        timeout: Seconds for each vote; those of the case otherwise.
    """

    rubric: Annotated[str, Meta(min_length=1)]
    agent: str | None = None
    function: Annotated[str, Meta(pattern=r"\A[^:]+:[A-Za-z_]\w*\Z")] | None = None
    votes: Annotated[int, Meta(ge=1, le=99)] = 1
    least: Annotated[int, Meta(ge=1, le=99)] | None = None
    shows: Annotated[list[JudgedPart], Meta(min_length=1)] = field(default_factory=_judged_parts)
    timeout: Seconds | None = None

    def __post_init__(self) -> None:
        if bool(self.agent) == bool(self.function):
            raise ValueError("a judge has either an `agent` or a `function`")
        if self.least is not None and self.least > self.votes:
            raise ValueError(f"`least` is {self.least}, and there are only {self.votes} `votes`")


AnyGrader: TypeAlias = (
    FunctionGrader
    | ExecutableGrader
    | CommandGrader
    | FileGrader
    | TextGrader
    | JsonGrader
    | TrajectoryGrader
    | JudgeGrader
)


def _check_pattern(name: str, pattern: str | None) -> None:
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"`{name}` is not a regular expression: {error}") from None
