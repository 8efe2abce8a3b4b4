"""Trials without agents, for thousands of them: the result follows from the key, and is stored as that of any other.

Every execution leaves a line in `executions` of the run directory, so that tests can count them.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec

from duologue.evals.engines.execution import stored_report
from duologue.evals.engines.message import TrialMessage, decode_message, encode
from duologue.evals.engines.task import AttemptReport, ProbeReport, Report, Task, TrialTask
from duologue.evals.engines.worker import WorkerReply
from duologue.evals.record.key import TrialKey
from duologue.evals.record.manifest import AgentIdentity, RunManifest
from duologue.evals.record.outcomes import OutcomeKind, TrialOutcome
from duologue.evals.record.result import Grades, TrialMetrics, TrialResult
from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.run.options import TrialOptions
from duologue.evals.run.targets import EvalAgent

DEADLY = "one/case-2/3"
"""The trial that `run_deadly` does not survive."""
RETRIED = 40
"""One of so many trials fails at its first attempt."""


async def carry_out(task: Task) -> Report:
    """Carry out a task in this process, as workers do."""
    return perform(task)


def run_stub(content: bytes) -> bytes:
    """Carry out the message of a task on a worker."""
    message = decode_message(content)
    if isinstance(message, TrialMessage):
        manifest = RunManifest(
            id=message.run_id, started="", suite="", suite_digest=message.key.suite, cases=[], agents=[], trials=1
        )
        task: Task = TrialTask(
            key=message.key,
            run=RunDirectory(Path(message.run_path), manifest),
            case=message.case,
            agent=EvalAgent(label=message.agent.label, target="stub"),
            options=TrialOptions(),
            number=message.number,
            is_last=message.is_last,
        )
        report = perform(task)
    else:
        report = ProbeReport(label=message.agent.label, identity=AgentIdentity(label=message.agent.label))
    return msgspec.json.encode(WorkerReply(worker=f"stub {os.getpid()}", report=msgspec.Raw(encode(report))))


def perform(task: Task) -> Report:
    """Store the result of a trial; return its report."""
    if not isinstance(task, TrialTask):
        return ProbeReport(label=task.agent.label, identity=AgentIdentity(label=task.agent.label))
    known = stored_report(task)
    if known is not None:
        return known
    with task.run.begin(task.key) as attempt:
        note(task.run.path, task.key)
        number = number_of(task.key)
        kind: OutcomeKind = "harness_failed" if task.number == 1 and number % RETRIED == 0 else "completed"
        result = TrialResult(
            key=task.key,
            outcome=TrialOutcome(kind=kind),
            attempts=task.number,
            output=f"{number:x}",
            metrics=TrialMetrics(prompts=1),
        )
        report = AttemptReport(key=task.key, result=result)
        if kind != "completed":
            attempt.set_aside(result)
            return msgspec.structs.replace(report, is_final=False)
        grades = Grades(passed=number % 3 != 0, score=float(number % 3 != 0))
        if attempt.commit(result, grades):
            return msgspec.structs.replace(report, grades=grades)
    known = stored_report(task)
    assert known is not None, "another worker was faster"
    return known


def number_of(key: TrialKey) -> int:
    """Return a number that follows from the key."""
    return int.from_bytes(hashlib.sha256(msgspec.json.encode(key)).digest()[:6], "big")


def note(run: Path, key: TrialKey) -> None:
    """Add a line to the list of executions."""
    descriptor = os.open(run / "executions", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{key.directory}\n".encode())
    os.close(descriptor)


def idle(content: bytes) -> bytes:
    """Return a report at once and store nothing, to measure a cluster alone."""
    message = decode_message(content)
    report: Report = ProbeReport(label=message.agent.label, identity=AgentIdentity(label=message.agent.label))
    if isinstance(message, TrialMessage):
        result = TrialResult(key=message.key, outcome=TrialOutcome(kind="completed"))
        report = AttemptReport(key=message.key, result=result, is_stored=True)
    return msgspec.json.encode(WorkerReply(worker="idle", report=msgspec.Raw(encode(report))))


async def done_at_once(task: Task) -> Report:
    """Return a report at once and store nothing, in this process."""
    if not isinstance(task, TrialTask):
        return perform(task)
    return AttemptReport(
        key=task.key, result=TrialResult(key=task.key, outcome=TrialOutcome(kind="completed")), is_stored=True
    )


def run_deadly(content: bytes) -> bytes:
    """Carry out a message; one trial ends its worker at once."""
    message = decode_message(content)
    if isinstance(message, TrialMessage) and str(message.key.directory) == DEADLY:
        os._exit(1)
    return run_stub(content)


def run_unfit(content: bytes) -> bytes:
    """Say that the agent cannot be started, by a name that is not that of a worker of the cluster."""
    message = decode_message(content)
    report = ProbeReport(label=message.agent.label, error="there is no agent")
    return msgspec.json.encode(WorkerReply(worker="a process", report=msgspec.Raw(encode(report))))


def run_late(content: bytes) -> bytes:
    """Carry out a message; the first attempts at one case do not end in time."""
    message = decode_message(content)
    if isinstance(message, TrialMessage) and message.key.case == "case-0" and message.number == 1:
        return msgspec.json.encode(WorkerReply(worker="stub", problem="late", detail="it did not end within 1 s"))
    return run_stub(content)


def run_wrong(content: bytes) -> bytes:
    """Return something else than the report of a trial."""
    message = decode_message(content)
    if not isinstance(message, TrialMessage):
        return run_stub(content)
    other = msgspec.structs.replace(message.key, trial=message.key.trial + 1)
    report = AttemptReport(key=other, result=TrialResult(key=other, outcome=TrialOutcome(kind="completed")))
    answers = {
        "nothing": b"",
        "garbage": b"\xff\xfe",
        "another": msgspec.json.encode(WorkerReply(worker="stub", report=msgspec.Raw(encode(report)))),
    }
    return answers[os.environ["STUB_ANSWER"]]
