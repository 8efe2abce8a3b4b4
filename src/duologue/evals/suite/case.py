"""The structs of a case: what a suite file says, and what the runner reads."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, field

from duologue.client.permissions.rules import Outcome, Rule, Rules
from duologue.evals.suite.grader_specs import AnyGrader, Command
from duologue.evals.suite.limits import Budget, Seconds, Timeouts, VariableName

CaseId = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")]
"""Letters, digits, `.`, `_` and `-`: it is also the name of a directory."""

Isolation: TypeAlias = Literal["archive", "copy", "worktree", "empty"]
"""How the workspace of a trial is made: from a Git ref, as a copy, as a worktree (which shares Git's data with the
source), or empty."""

PermissionRule: TypeAlias = Outcome | dict[str, Outcome]


class PromptTurn(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One prompt of a case.

    Attributes:
        text: Its text.
        text_file: File of the suite with the text, instead of `text`.
        images: Images of the suite that are sent with it.
        files: Files of the suite that are sent with it as embedded resources.
    """

    text: str = ""
    text_file: str | None = None
    images: list[str] = []
    files: list[str] = []

    def __post_init__(self) -> None:
        if bool(self.text) == (self.text_file is not None):
            raise ValueError("a prompt has either `text` or `text_file`")


class WorkspaceSource(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The origin of the workspace of a trial.

    Attributes:
        source: Directory, relative to the suite; may lie outside of it. None for an empty workspace.
        isolation: How it is taken from there; None: `archive` for a Git repository, else `copy`; `empty` without
            a source.
        ref: The Git ref, for `archive` and `worktree`.
    """

    source: str | None = None
    isolation: Isolation | None = None
    ref: str = "HEAD"

    def __post_init__(self) -> None:
        if self.source is None and self.isolation not in (None, "empty"):
            raise ValueError(f"the isolation {self.isolation!r} needs a `source`")
        if self.source is not None and self.isolation == "empty":
            raise ValueError("the isolation 'empty' has no `source`")


class WorkspaceFile(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A file that is put into the workspace before the agent starts.

    Attributes:
        path: Its path in the workspace.
        text: Its content.
        source: File or directory of the suite that is copied, instead of `text`.
        executable: Whether it may be executed.
    """

    path: str
    text: str | None = None
    source: str | None = None
    executable: bool = False

    def __post_init__(self) -> None:
        if (self.text is None) == (self.source is None):
            raise ValueError("a file has either `text` or `source`")


class SolutionCommand(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A command that solves a task, with which graders are checked; the agent never sees it.

    Attributes:
        command: Program and arguments, run in the workspace; `{solution}` and `{workspace}` are directories.
        files: Directory of the suite that is copied to `{solution}`.
        paths: Absolute paths that are replaced in its text files, each by `{solution}` or `{workspace}`.
        variables: Environment variables with their values.
        env: Names of environment variables that it gets from the caller's environment.
        timeout: Seconds; those of a turn otherwise.
    """

    command: Command
    files: str
    paths: dict[str, str] = {}
    variables: dict[VariableName, str] = {}
    env: list[VariableName] = []
    timeout: Seconds | None = None


class SessionSettings(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Settings of the session, which are set before the first prompt, read back and recorded.

    Attributes:
        mode: Id of the session mode.
        model: Id of the model.
        options: Values of config options by their ids.
    """

    mode: str | None = None
    model: str | None = None
    options: dict[str, str | bool] = {}


class ElicitationReply(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An answer to forms of the agent; the first one that matches is used, and a form that none matches is cancelled.

    Attributes:
        matches: Regular expression that is found in the message of the form.
        action: What is done with the form.
        content: Values of its fields, for `accept`.
    """

    matches: str = ""
    action: Literal["accept", "decline", "cancel"] = "accept"
    content: dict[str, Any] = {}

    def __post_init__(self) -> None:
        _check_pattern("matches", self.matches)
        if self.content and self.action != "accept":
            raise ValueError(f"the action {self.action!r} has no `content`")


class SimulatedUser(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Another agent that writes the prompts after those of the case.

    Attributes:
        agent: Name or command of the agent that plays the user.
        persona: What it is instructed to be and to want.
        max_prompts: Largest number of prompts that it writes.
        ends_with: Regular expression; a message of the user that it is found in ends the conversation and is not sent.
    """

    agent: Annotated[str, Meta(min_length=1)]
    persona: Annotated[str, Meta(min_length=1)]
    max_prompts: Annotated[int, Meta(ge=1, le=1000)] = 10
    ends_with: str = r"\bDONE\b"

    def __post_init__(self) -> None:
        _check_pattern("ends_with", self.ends_with)


class CaseDefaults(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The fields of a case that all cases of a suite may share, and each may replace.

    Attributes:
        workspace: Where the workspace comes from.
        files: Files that are put into it.
        session: Settings of the session.
        permissions: Rules by kind of action, as in the configuration file: `{ edit = "allow", execute = "reject" }`.
        on_ask: Answer to what the rules ask about, or do not mention: there is no user.
        elicitations: Answers to forms.
        simulated_user: Agent that continues the conversation.
        graders: Checks of the result.
        tags: Words to select cases by.
        family: Cases of one family are variants of one task; intervals treat them as one unit.
        budget: Limits of use.
        timeouts: Limits of time.
        variables: Environment variables with their values, for the agent and for commands that check it; they are
            recorded.
        env: Names of environment variables that the agent gets from the caller's environment; values are not
            recorded.
    """

    workspace: WorkspaceSource = WorkspaceSource()
    files: list[WorkspaceFile] = field(default_factory=list[WorkspaceFile])
    session: SessionSettings = SessionSettings()
    permissions: dict[str, PermissionRule] = field(default_factory=dict[str, PermissionRule])
    on_ask: Literal["allow", "reject"] = "reject"
    elicitations: list[ElicitationReply] = field(default_factory=list[ElicitationReply])
    simulated_user: SimulatedUser | None = None
    graders: list[AnyGrader] = field(default_factory=list[AnyGrader])
    tags: list[str] = field(default_factory=list[str])
    family: str = ""
    budget: Budget = Budget()
    timeouts: Timeouts = Timeouts()
    variables: dict[VariableName, str] = field(default_factory=dict[str, str])
    env: list[VariableName] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        rules: dict[str, Rule] = {**self.permissions}
        try:
            Rules(rules)
        except ValueError as error:
            raise ValueError(f"`permissions`: {error}") from None


class Case(CaseDefaults, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One task of a suite.

    Attributes:
        id: Unique in the suite; it names a directory.
        prompts: The prompts, one after the other in one session; at least one. Each is a text or an object.
        description: What it is about, for people.
        hint: What a good answer has, for graders and judges.
        reference: A known good answer, with which graders are checked.
        solution: Files that solve the task, with which graders are checked; the agent never sees them.
        solution_command: Command that solves the task, after `solution` was copied.
        metadata: Anything else; passed to graders.
        quarantine: Why the case informs and does not gate; empty if it does gate.
        directory: Directory that its files are relative to; set when the suite is read.
    """

    id: CaseId
    prompts: Annotated[list[str | PromptTurn], Meta(min_length=1)]
    description: str = ""
    hint: str = ""
    reference: str | None = None
    solution: list[WorkspaceFile] = field(default_factory=list[WorkspaceFile])
    solution_command: SolutionCommand | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    quarantine: str = ""
    directory: str = ""

    @property
    def turns(self) -> list[PromptTurn]:
        """The prompts, each as an object."""
        return [PromptTurn(text=prompt) if isinstance(prompt, str) else prompt for prompt in self.prompts]


def _check_pattern(name: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"`{name}` is not a regular expression: {error}") from None
