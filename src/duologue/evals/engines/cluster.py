"""The common part of engines of clusters: submit lost tasks again, and never wait silently."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec
from msgspec import structs

from duologue.evals.engines.interface import Engine, EngineError
from duologue.evals.engines.message import MessageWriter, decode_report, encode, task_name
from duologue.evals.engines.task import AttemptReport, ProbeTask, Report, Task, failure
from duologue.evals.engines.worker import MOST_REPORT_BYTES, STOPPED, WorkerReply
from duologue.evals.exceptions import EvalError
from duologue.runtime.tasks import TaskScope

LOST_SECONDS = 60.0
"""Time without a scheduler, or without any worker, after which the run ends."""
QUEUE_SECONDS = 3600.0
"""Time that a task may wait for a worker beyond its own limit; then it counts as lost."""
MOST_CONNECTIONS = 20
"""How often a task survives that the connection is lost."""
MOST_PROBES = 10
"""Looks at an agent before the first trial, until a worker can start it; a cluster may choose the same one again."""
UNFIT = frozenset({"CommandNotFound", "EvalError"})
"""Reasons of outcomes that are those of a worker without the agent, a variable or a file."""
WATCH_SECONDS = 1.0
"""Time between two looks at the workers."""
END_SECONDS = 30.0
"""Time for cancelled tasks to end."""


class TaskLost(Exception):
    """The worker that had a task is gone."""


class ClusterLost(Exception):
    """The connection to the scheduler is gone, and all tasks with it."""


class ClusterEngine(Engine):
    """An engine whose workers are other processes, perhaps on other machines.

    Args:
        timeout: Seconds without a scheduler, or without any worker, after which the run ends.

    Attributes:
        most_losses: How often a task is submitted again because its worker was lost; then it is a failure.
    """

    most_losses = 8

    def __init__(self, timeout: float = LOST_SECONDS) -> None:
        self._timeout = timeout
        self._writer = MessageWriter()
        self._reports: asyncio.Queue[Report | EvalError] = asyncio.Queue()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._connected = asyncio.Lock()
        self._generation = 0
        self._submissions = 0
        self._workers: dict[str, int] = {}
        self._most_workers = 0
        self._unfit: dict[str, set[str]] = {}
        self._abandoned: list[str] = []

    # --- what a cluster has to offer

    @abstractmethod
    async def _connect(self) -> None:
        """Connect to the cluster; raise any `Exception` if that is not possible now."""

    @abstractmethod
    async def _disconnect(self) -> None:
        """Close the connection; what is closed already does not matter."""

    @abstractmethod
    async def _call(self, name: str, message: bytes, unfit: frozenset[str]) -> bytes:
        """Have a worker carry out a message, and return its answer; forget the task afterwards.

        Args:
            name: Id of the submission.
            message: The message.
            unfit: Workers to avoid, unless there are no others.

        Raises:
            TaskLost: Its worker is gone.
            ClusterLost: The connection is gone.
        """

    @abstractmethod
    async def _stop(self, ids: list[str]) -> None:
        """End tasks that run on workers."""

    @abstractmethod
    async def _find_workers(self) -> dict[str, int]:
        """Return the slots of each worker; raise any `Exception` if the cluster does not answer."""

    # --- the interface of engines

    @property
    def slots(self) -> int:
        """The slots of all workers that are there."""
        return sum(self._workers.values())

    async def open(self) -> None:
        """Connect, and wait for a first worker."""
        self._scope = TaskScope()
        await self._reconnect(self._generation)
        await self._wait_for_workers()
        self._scope.start(self._watch())

    async def close(self) -> None:
        """Cancel what runs and disconnect."""
        await self._scope.cancel(END_SECONDS)
        await self._stop_abandoned()
        await self._disconnect()

    def submit(self, task: Task) -> None:
        """Send a task to a worker."""
        self._running[task.name] = self._scope.start(self._run(task))

    async def results(self) -> AsyncIterator[Report]:
        """Yield reports as they come."""
        while True:
            report = await self._reports.get()
            if isinstance(report, EvalError):
                raise report
            yield report

    def cancel(self, task: Task) -> None:
        """Cancel a task; what runs on a worker is ended there."""
        if (running := self._running.get(task.name)) is not None:
            running.cancel()
            self._scope.start(self._stop_abandoned())

    async def _stop_abandoned(self) -> None:
        """End what was cancelled here and still runs on workers."""
        await asyncio.sleep(0)
        ids, self._abandoned = self._abandoned, []
        if not ids:
            return
        try:
            await self._stop(ids)
        except asyncio.CancelledError:
            # Closing does it again.
            self._abandoned += ids
            raise
        except Exception as error:
            self.notice(f"{len(ids)} trials may still run on workers: {_line(error)}")

    # --- one task

    async def _run(self, task: Task) -> None:
        try:
            self._reports.put_nowait(await self._report_of(task))
        except EvalError as error:
            self._reports.put_nowait(error)
        finally:
            self._running.pop(task.name, None)

    async def _report_of(self, task: Task) -> Report:
        losses: list[str] = []
        connections = looks = 0
        while len(losses) <= self.most_losses:
            generation = self._generation
            try:
                report = await self._submitted(task)
            except ClusterLost:
                connections += 1
                if connections > MOST_CONNECTIONS:
                    return failure(task, "ClusterLost", f"the connection was lost {connections} times")
                await self._reconnect(generation)
                await self._wait_for_workers()
            except TaskLost as error:
                losses.append(str(error))
                self.notice(f"{task.name}: {error}; it is submitted again")
            except EngineError:
                raise
            except EvalError as error:
                return failure(task, type(error).__name__, str(error))
            else:
                looks += 1
                if not self._is_unfit(task, report) or looks >= MOST_PROBES:
                    return report
        lost = failure(task, "WorkerLost", f"{len(losses)} workers were lost with it: {losses[-1]}")
        # What kills its workers is not tried on all of them.
        return structs.replace(lost, is_final=True) if isinstance(lost, AttemptReport) else lost

    def _is_unfit(self, task: Task, report: Report) -> bool:
        """Remember a worker that cannot start an agent; return True if another one shall look at it."""
        if isinstance(report, AttemptReport):
            outcome = report.result.outcome
            cannot = not outcome.rule.counts and outcome.reason in UNFIT
        else:
            cannot = report.identity is None
        if not cannot or not report.worker:
            return False
        unfit = self._unfit.setdefault(task.agent.label, set())
        if report.worker not in unfit:
            unfit.add(report.worker)
            self.notice(f"the worker {report.worker} cannot start {task.agent.label}; others are tried first")
        return isinstance(task, ProbeTask) and not unfit.issuperset(self._workers)

    async def _submitted(self, task: Task) -> Report:
        """Submit a task once; return its report.

        Raises:
            TaskLost: Its worker is gone, or did not answer in time.
            ClusterLost: The connection is gone.
            EvalError: A worker returned something else than a report.
        """
        self._submissions += 1
        name = f"{task_name(task)}/{self._generation}.{self._submissions}"
        message = self._writer.write(task, name)
        limit = message.seconds + QUEUE_SECONDS
        try:
            async with asyncio.timeout(limit):
                content = await self._call(name, encode(message), frozenset(self._unfit.get(task.agent.label, ())))
        except TimeoutError:
            raise TaskLost(f"no worker answered within {limit:,.0f} s") from None
        except asyncio.CancelledError:
            self._abandoned.append(name)
            raise
        return _read_reply(task, content)

    # --- the cluster

    async def _reconnect(self, generation: int) -> None:
        """Connect, unless another task has done so since this generation.

        Raises:
            EngineError: The cluster cannot be reached for too long.
        """
        async with self._connected:
            if self._generation != generation:
                return
            if generation:
                self.notice(f"the connection to {self.name} is lost; connecting again")
            deadline = time.monotonic() + self._timeout
            while True:
                await self._disconnect()
                try:
                    await self._connect()
                    self._generation += 1
                    return
                except EvalError:
                    raise
                except Exception as error:
                    if time.monotonic() >= deadline:
                        raise EngineError(
                            f"{self.name} cannot be reached for {self._timeout:g} s: {_line(error)}; start it, or "
                            "check its address"
                        ) from error
                await asyncio.sleep(min(WATCH_SECONDS, self._timeout / 4))

    async def _wait_for_workers(self) -> None:
        deadline = time.monotonic() + self._timeout
        is_reported = False
        while True:
            with suppress(Exception):
                self._see(await self._find_workers())
                if self._workers:
                    return
            if time.monotonic() >= deadline:
                raise self._no_workers()
            if not is_reported and self._most_workers == 0:
                self.notice(f"{self.name} has no workers yet; waiting for {self._timeout:g} s")
                is_reported = True
            await asyncio.sleep(min(WATCH_SECONDS, self._timeout / 4))

    async def _watch(self) -> None:
        """Say when workers are gone; end the run when all are gone for too long."""
        seen = time.monotonic()
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            try:
                self._see(await self._find_workers())
            except Exception:
                # A task notices that the connection is lost, and connects again.
                seen = time.monotonic()
                continue
            if self._workers:
                seen = time.monotonic()
            elif time.monotonic() - seen >= self._timeout:
                self._reports.put_nowait(self._no_workers())
                return

    def _see(self, workers: dict[str, int]) -> None:
        gone = [name for name in self._workers if name not in workers]
        if gone and len(workers) < self._most_workers:
            self.notice(f"{len(workers)} of {self._most_workers} workers are there; gone: {', '.join(gone[:3])}")
        self._workers = workers
        self._most_workers = max(self._most_workers, len(workers))

    def _no_workers(self) -> EngineError:
        return EngineError(f"{self.name} has had no workers for {self._timeout:g} s; start workers, and go on")


def _read_reply(task: Task, content: bytes) -> Report:
    if len(content) > MOST_REPORT_BYTES:
        raise EvalError(f"a worker returned {len(content):,} bytes, more than {MOST_REPORT_BYTES:,}")
    try:
        reply = msgspec.json.decode(content, type=WorkerReply)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise EvalError(f"a worker returned something else than a report: {error}") from None
    if reply.problem == STOPPED:
        raise TaskLost(f"it was stopped on the worker {reply.worker}")
    if reply.problem:
        return failure(task, reply.problem, f"{reply.detail} (on the worker {reply.worker})", worker=reply.worker)
    report = structs.replace(decode_report(bytes(reply.report), MOST_REPORT_BYTES), worker=reply.worker)
    if isinstance(report, AttemptReport) and report.key != getattr(task, "key", None):
        raise EvalError(f"the worker {reply.worker} returned the report of another trial: {report.key}")
    return report


def _line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).partition("\n")[0]
