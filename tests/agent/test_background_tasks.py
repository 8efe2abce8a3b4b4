"""Background tasks on the agent's side: announced, reported and stopped, for clients that ask for them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duologue import Agent, Turn, connect
from duologue.agent import background_task
from duologue.errors import MethodNotFound, ResourceNotFound
from duologue.events import BackgroundTask, Event
from duologue.store.memory import MemoryStore
from duologue.types import BackgroundTaskHandle, ClientSession

pytestmark = pytest.mark.timeout(60)

VERSIONS = pytest.mark.parametrize("version", [1, 2])


class Worker:
    """The work of a task, which a test ends, and its agent."""

    def __init__(self, *, unstable: bool = True, **options: Any) -> None:
        self.ends = asyncio.Event()
        self.error: Exception | None = None
        self.tasks: list[BackgroundTaskHandle] = []
        self.agent: Agent[Any] = Agent("worker", protocol_versions=(1, 2), unstable=unstable, **options)

        @self.agent.on_prompt
        async def start(turn: Turn[Any]) -> None:
            task = await turn.session.run_in_background(turn.text, self.work, kind="shell")
            self.tasks.append(task)
            await turn.say("started")

    async def work(self, task: BackgroundTaskHandle) -> str:
        await task.progress("half")
        await self.ends.wait()
        if self.error is not None:
            raise self.error
        return "done"


async def until_over(session: ClientSession) -> list[tuple[str, str | None]]:
    """Return the states and summaries of the tasks of a session, once all have ended."""
    over = asyncio.Event()

    def check(event: Event | None = None) -> None:
        if all(task.is_over for task in session.background_tasks):
            over.set()

    stop = session.watch(check)
    check()
    await over.wait()
    stop()
    return [(task.state, task.summary) for task in session.background_tasks]


@VERSIONS
async def test_a_task_is_announced_reported_and_completed(tmp_path: Path, version: int) -> None:
    worker = Worker()
    events: list[BackgroundTask] = []
    async with connect(worker.agent, protocol_versions=(version,), unstable=True) as remote:
        assert remote.capabilities.background_tasks
        async with remote.new_session(tmp_path) as session:
            session.watch(lambda event: events.append(event) if isinstance(event, BackgroundTask) else None)
            await session.prompt("npm test")
            worker.ends.set()
            assert await until_over(session) == [("completed", "done")]
            [task] = session.background_tasks
            assert (task.title, task.kind, task.description, task.can_stop) == ("npm test", "shell", "npm test", True)
    assert [(event.state, event.summary) for event in events] == [
        ("running", None),
        ("running", "half"),
        ("completed", "done"),
    ]
    assert not await worker.tasks[0].stop()


async def test_a_task_whose_work_raises_an_exception_has_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker()
    worker.error = ValueError("secret")
    async with connect(worker.agent, unstable=True) as remote, remote.new_session(tmp_path) as session:
        await session.prompt("npm test")
        worker.ends.set()
        assert await until_over(session) == [("failed", "ValueError")]
        assert "the background task 'npm test' failed" in caplog.text


@VERSIONS
async def test_a_client_stops_a_task_and_its_turn_goes_on(tmp_path: Path, version: int) -> None:
    worker = Worker()
    async with connect(worker.agent, protocol_versions=(version,), unstable=True) as remote:
        async with remote.new_session(tmp_path) as session:
            await session.prompt("npm test")
            [task] = session.background_tasks
            assert await session.stop_task(task.task_id)
            assert await until_over(session) == [("stopped", "half")]
            assert worker.tasks[0].state == "stopped"
            params: Any = {"sessionId": session.id, "asyncTaskId": task.task_id}
            assert await remote.call("_session/async_task/stop", params) == {"stopped": False}
            with pytest.raises(ResourceNotFound):
                await remote.call("_session/async_task/stop", {**params, "sessionId": "x"})


async def test_work_that_ignores_its_cancellation_is_not_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_task, "STOP_SECONDS", 0.05)
    worker = Worker()

    async def stubborn(task: BackgroundTaskHandle) -> str:
        while not worker.ends.is_set():
            try:
                await worker.ends.wait()
            except asyncio.CancelledError:
                continue
        return "done"

    worker.work = stubborn  # type: ignore[method-assign]  # the one worker that resists
    async with connect(worker.agent, unstable=True) as remote, remote.new_session(tmp_path) as session:
        await session.prompt("npm test")
        assert not await session.stop_task(session.background_tasks[0].task_id)
        worker.ends.set()
        assert await until_over(session) == [("completed", "done")]


@VERSIONS
@pytest.mark.parametrize(("of_agent", "of_client"), [(False, True), (True, False)])
async def test_a_client_that_does_not_ask_gets_nothing_and_the_work_is_done(
    tmp_path: Path, version: int, of_agent: bool, of_client: bool
) -> None:
    worker = Worker(unstable=of_agent)
    async with connect(worker.agent, protocol_versions=(version,), unstable=of_client) as remote:
        assert not remote.capabilities.background_tasks
        async with remote.new_session(tmp_path) as session:
            await session.prompt("npm test")
            [task] = worker.tasks
            worker.ends.set()
            assert task._task is not None
            await task._task
            assert (task.state, session.background_tasks) == ("completed", [])
            if not of_agent:
                with pytest.raises(MethodNotFound):
                    await remote.call("_session/async_task/stop", {"sessionId": session.id, "asyncTaskId": "x"})


async def test_a_closed_session_stops_its_tasks(tmp_path: Path) -> None:
    worker = Worker()
    async with connect(worker.agent, unstable=True) as remote:
        async with remote.new_session(tmp_path) as session:
            await session.prompt("npm test")
        assert [task.state for task in worker.tasks] == ["stopped"]


async def test_a_stored_session_has_its_messages_and_no_tasks(tmp_path: Path) -> None:
    worker = Worker(store=MemoryStore())
    async with connect(worker.agent, unstable=True) as remote:
        async with remote.new_session(tmp_path) as session:
            await session.prompt("npm test")
            worker.ends.set()
            await until_over(session)
        async with remote.load_session(session.id, tmp_path) as loaded:
            assert [message.text for message in loaded.transcript.messages] == ["npm test", "started"]
            assert loaded.background_tasks == []
