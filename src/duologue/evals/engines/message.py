"""Tasks as bytes for workers on other machines: JSON, without secrets, with the files of the suite that are small.

What is secret stays where it is: variables and credential files are named, and the worker reads its own.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Struct

from duologue.evals.engines.task import ProbeTask, Report, Task, TrialTask
from duologue.evals.exceptions import EvalError
from duologue.evals.record.key import TrialKey
from duologue.evals.run.credentials import CredentialFile
from duologue.evals.run.options import SandboxKind, TrialOptions
from duologue.evals.run.targets import REPLAY, EvalAgent
from duologue.evals.suite.case import Case
from duologue.evals.suite.conversion import FieldError
from duologue.evals.suite.digest import case_digest, case_files
from duologue.evals.suite.source_files import files_below, inside, read_source
from duologue.recording.redaction import Redactor, environment_secrets

MESSAGE_FORMAT = 1
"""Version of the messages to workers."""
MOST_MESSAGE_BYTES = 64 << 20
"""Length of the longest message."""
MOST_FILE_BYTES = 1 << 20
"""Size of all files of a case that travel with a task; larger ones must lie on a path that the workers see."""


class AgentMessage(Struct, frozen=True, kw_only=True):
    """An agent as a worker finds it.

    Attributes:
        label: Its label in the run.
        target: A name, a command, a URL, a configuration, or `replay:FILE`.
    """

    label: str
    target: str | list[str] | dict[str, Any]


class WorkerOptions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The options of a run that a worker needs.

    Attributes:
        sandbox: How agents are confined.
        env: Names of variables, of which the worker has the values.
        credentials: Credential files of the worker: each with its path and that below HOME.
        protocol_versions: Versions of the protocol that are offered.
        login: Id of the login method.
    """

    sandbox: SandboxKind = "auto"
    env: tuple[str, ...] = ()
    credentials: tuple[tuple[str, str], ...] = ()
    protocol_versions: tuple[int, ...] = (1,)
    login: str | None = None


class CaseFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file of the suite that travels with a task.

    Attributes:
        content: Its content.
        link: Target of a symbolic link, instead of the content.
        is_executable: It may be executed.
    """

    content: bytes = b""
    link: str = ""
    is_executable: bool = False


class TrialMessage(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="trial"):
    """A `TrialTask` for a worker.

    Attributes:
        format: Version of the format.
        id: Id of this submission.
        run_id: Id of the run.
        run_path: Its directory, used by workers that see it.
        key: The trial.
        case: The case.
        case_digest: Digest of the case and its files, which the worker compares with what it sees.
        files: Files of the case by their paths; None if they are too large to travel.
        agent: The agent.
        options: Options of the run.
        seed: Seed of the run.
        number: Number of the attempt.
        is_last: A failure is recorded instead of set aside.
        seconds: Time after which the worker ends the attempt.
    """

    format: int = MESSAGE_FORMAT
    id: str
    run_id: str
    run_path: str
    key: TrialKey
    case: Case
    case_digest: str
    files: dict[str, CaseFile] | None = None
    agent: AgentMessage
    options: WorkerOptions
    seed: int = 0
    number: int = 1
    is_last: bool = True
    seconds: float


class ProbeMessage(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="probe"):
    """A `ProbeTask` for a worker; its fields are those of the task."""

    format: int = MESSAGE_FORMAT
    id: str
    agent: AgentMessage
    options: WorkerOptions
    env: tuple[str, ...] = ()
    is_started: bool = True
    seconds: float


Message: TypeAlias = TrialMessage | ProbeMessage

PROBE_TASK_SECONDS = 180.0
"""Time for a worker to look at an agent."""


class MessageWriter:
    """Writes messages; the files of each case are read once, and each agent is checked once."""

    def __init__(self) -> None:
        self._agents: dict[str, AgentMessage] = {}
        self._files: dict[str, tuple[str, dict[str, CaseFile] | None]] = {}

    def write(self, task: Task, number: str) -> Message:
        """Return the message of a task.

        Args:
            task: The task.
            number: Id of the submission.

        Raises:
            EvalError: It cannot be sent: it has a secret, or an object of this program.
        """
        label = task.agent.label
        if label not in self._agents:
            self._agents[label] = _agent_message(task.agent)
        agent, options = self._agents[label], _worker_options(task.options)
        if isinstance(task, ProbeTask):
            return ProbeMessage(
                id=number,
                agent=agent,
                options=options,
                env=task.env,
                is_started=task.is_started,
                seconds=PROBE_TASK_SECONDS,
            )
        digest, files = self._files_of(task.case)
        return TrialMessage(
            id=number,
            run_id=task.run.manifest.id,
            run_path=str(task.run.path.resolve()),
            key=task.key,
            case=task.case,
            case_digest=digest,
            files=files,
            agent=agent,
            options=options,
            seed=task.seed,
            number=task.number,
            is_last=task.is_last,
            seconds=task.seconds,
        )

    def _files_of(self, case: Case) -> tuple[str, dict[str, CaseFile] | None]:
        if case.id not in self._files:
            if len(self._files) >= 256:
                self._files.pop(next(iter(self._files)))
            try:
                self._files[case.id] = case_digest(case), _read_files(case)
            except (FieldError, OSError) as error:
                raise EvalError(f"the files of the case {case.id!r} cannot be read: {error}") from None
        return self._files[case.id]


def _read_files(case: Case) -> dict[str, CaseFile] | None:
    directory = Path(case.directory)
    found: dict[str, CaseFile] = {}
    size = 0
    for field, name in case_files(case):
        for path in files_below(inside(directory, name, field)):
            if path.is_symlink():
                found[path.relative_to(directory).as_posix()] = CaseFile(link=str(path.readlink()))
                continue
            mode = path.stat()
            size += mode.st_size
            if size > MOST_FILE_BYTES:
                return None
            is_executable = bool(mode.st_mode & stat.S_IXUSR)
            file = CaseFile(content=read_source(path), is_executable=is_executable)
            found[path.relative_to(directory).as_posix()] = file
    return found


def _worker_options(options: TrialOptions) -> WorkerOptions:
    return WorkerOptions(
        sandbox=options.sandbox,
        env=options.env,
        credentials=tuple((str(file.source), file.target) for file in options.credentials),
        protocol_versions=options.protocol_versions,
        login=options.login,
    )


def trial_options(options: WorkerOptions) -> TrialOptions:
    """Return the options for trials on this worker."""
    return TrialOptions(
        sandbox=options.sandbox,
        env=options.env,
        credentials=tuple(CredentialFile(Path(source), target) for source, target in options.credentials),
        protocol_versions=options.protocol_versions,
        login=options.login,
    )


def _agent_message(agent: EvalAgent) -> AgentMessage:
    if agent.source.startswith(REPLAY):
        return AgentMessage(label=agent.label, target=agent.source)
    target = agent.target
    if isinstance(target, Mapping):
        shown: str | list[str] | dict[str, Any] = dict(target)
    elif isinstance(target, str):
        shown = target
    elif isinstance(target, Sequence):
        shown = [str(word) for word in cast("Sequence[object]", target)]
    else:
        raise EvalError(
            f"the agent {agent.label!r} is an object of this program, which workers of a cluster cannot start: "
            "name a command, a URL or replay:FILE"
        )
    redactor = Redactor(values=environment_secrets(os.environ))
    if redactor.redact(shown) != shown or (isinstance(shown, dict) and shown.get("env")):
        raise EvalError(
            f"the agent {agent.label!r} is named with a secret, which is not sent to workers: set a variable in their "
            "environment, and name it with --env"
        )
    return AgentMessage(label=agent.label, target=shown)


def encode(value: Message | Report) -> bytes:
    """Return a message or a report as one line of JSON, without the end of the line."""
    return msgspec.json.encode(value)


def decode_message(content: bytes) -> Message:
    """Return the message of a task.

    Raises:
        EvalError: It is damaged, or of a newer version.
    """
    return cast("Message", _decode(content, TrialMessage | ProbeMessage, MESSAGE_FORMAT, "task"))


def decode_report(content: bytes, most: int) -> Report:
    """Return the report of a worker.

    Raises:
        EvalError: It is damaged, too large, or of a newer version.
    """
    if len(content) > most:
        raise EvalError(f"a worker returned {len(content):,} bytes, more than {most:,}")
    from duologue.evals.engines.task import REPORT_FORMAT, AttemptReport, ProbeReport

    return cast("Report", _decode(content, AttemptReport | ProbeReport, REPORT_FORMAT, "report"))


class _Format(Struct):
    format: int = 1


def _decode(content: bytes, kind: Any, newest: int, what: str) -> object:
    try:
        version = msgspec.json.decode(content, type=_Format).format
        if version <= newest:
            return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise EvalError(f"a {what} is damaged: {error}") from None
    raise EvalError(
        f"a {what} has format {version}, and this version of duologue reads up to {newest}: install the same version "
        "of duologue on all machines"
    )


def task_name(task: Task) -> str:
    """Return a name that is unique in a run, for the tools of a cluster."""
    if isinstance(task, TrialTask):
        return f"{task.run.manifest.id}/{task.key.directory}/{task.number}"
    return f"probe/{task.agent.label}"
