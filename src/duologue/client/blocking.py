"""The client's side without an event loop: for scripts, and for notebooks that already run one.

    with blocking.connect("gemini --acp") as agent, agent.session("/repo") as session:
        for event in session.prompt("Fix the flaky test"):
            ...

Everything runs on one thread of its own; each call here waits for it. The objects are those of the asynchronous side
with every coroutine made a plain function.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

from duologue.client.connect import Target
from duologue.client.connect import connect as connect_async
from duologue.client.permissions import Permissions
from duologue.client.prompts import Attachment
from duologue.client.remote import RemoteAgent
from duologue.client.session import ClientSession
from duologue.client.turn import ClientTurn
from duologue.conversation.content import Content, JsonObject
from duologue.conversation.items import Usage
from duologue.conversation.settings import Modes, Setting
from duologue.conversation.setup import Party, SessionInfo
from duologue.conversation.transcript import Transcript
from duologue.conversation.updates import Command, Location
from duologue.conversation.work import BackgroundWork
from duologue.dialects.terms import AgentFeatures, LoginMethod, LoginStatus, Provider, TokenUsage
from duologue.events import Event, Plan, ToolCall

__all__ = ["BlockingAgent", "BlockingSession", "BlockingTurn", "ask", "connect"]

T = TypeVar("T")


class _LoopThread:
    """An event loop on a thread of its own, and a way to wait for what runs there."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="duologue", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; interrupting the wait cancels it."""
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        self.run(self._loop.shutdown_asyncgens())
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class BlockingTurn:
    """A turn: iterate it for its events, or call `wait()` for its end. See `ClientTurn`."""

    def __init__(self, thread: _LoopThread, turn: ClientTurn) -> None:
        self._thread = thread
        self._turn = turn

    def __iter__(self) -> Iterator[Event]:
        events = self._turn.__aiter__()
        try:
            while True:
                try:
                    yield self._thread.run(_next_of(events))
                except StopAsyncIteration:
                    return
        finally:
            if not self._turn.is_over:
                self._thread.run(self._turn.cancel())

    def wait(self) -> BlockingTurn:
        """Until the agent has answered."""
        self._thread.run(_finished(self._turn))
        return self

    def cancel(self) -> None:
        """Ask the agent to end this turn."""
        self._thread.run(self._turn.cancel())

    @property
    def is_over(self) -> bool:
        return self._turn.is_over

    @property
    def text(self) -> str:
        return self._turn.text

    @property
    def stop_reason(self) -> str | None:
        return self._turn.stop_reason

    @property
    def usage(self) -> TokenUsage | None:
        return self._turn.usage

    @property
    def tool_calls(self) -> list[ToolCall]:
        return self._turn.tool_calls

    @property
    def plan(self) -> Plan | None:
        return self._turn.plan


class BlockingSession:
    """A session. See `ClientSession`."""

    def __init__(self, thread: _LoopThread, session: ClientSession) -> None:
        self._thread = thread
        self._session = session

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def prompt(
        self,
        prompt: str | Content | Iterable[str | Content],
        *,
        files: Iterable[Attachment] = (),
        images: Iterable[str | Path] = (),
        audio: Iterable[str | Path] = (),
        meta: JsonObject | None = None,
    ) -> BlockingTurn:
        """A turn with this prompt."""

        async def make() -> ClientTurn:
            return self._session.prompt(prompt, files=files, images=images, audio=audio, meta=meta)

        return BlockingTurn(self._thread, self._thread.run(make()))

    def ask(self, prompt: str, *, files: Iterable[Attachment] = ()) -> str:
        """What the agent answers, as plain text."""
        return self._thread.run(self._session.ask(prompt, files=files))

    def cancel(self) -> None:
        """Ask the agent to stop the running turn."""
        self._thread.run(self._session.cancel())

    def cancel_tool_call(self, tool_call_id: str) -> None:
        self._thread.run(self._session.cancel_tool_call(tool_call_id))

    def cancel_terminal(self, terminal_id: str) -> None:
        self._thread.run(self._session.cancel_terminal(terminal_id))

    def set_mode(self, mode_id: str) -> None:
        self._thread.run(self._session.set_mode(mode_id))

    def set_model(self, model_id: str) -> None:
        self._thread.run(self._session.set_model(model_id))

    def set(self, setting_id: str, value: str | bool) -> None:
        self._thread.run(self._session.set(setting_id, value))

    def set_title(self, title: str) -> str:
        return self._thread.run(self._session.set_title(title))

    def status(self) -> str:
        return self._thread.run(self._session.status())

    def fork(self) -> BlockingSession:
        return BlockingSession(self._thread, self._thread.run(self._session.fork()))

    def watch(self, watcher: Callable[[Event], None]) -> Callable[[], None]:
        """Be told of every event, on the other thread."""
        return self._session.watch(watcher)

    def events(self) -> Iterator[Event]:
        """Every event from the first step on, in and between turns, until the session is over."""
        events = self._session.events()
        while True:
            try:
                yield self._thread.run(_next_of(events))
            except StopAsyncIteration:
                return

    def close(self) -> None:
        self._thread.run(self._session.aclose())

    @property
    def id(self) -> str:
        return self._session.id

    @property
    def is_busy(self) -> bool:
        return self._session.is_busy

    @property
    def state(self) -> str:
        return self._session.state

    @property
    def background(self) -> list[BackgroundWork]:
        return self._session.background

    @property
    def commands(self) -> list[Command]:
        return self._session.commands

    @property
    def following(self) -> Location | None:
        return self._session.following

    @property
    def transcript(self) -> Transcript:
        return self._session.transcript

    @property
    def title(self) -> str | None:
        return self._session.title

    @property
    def usage(self) -> Usage | None:
        return self._session.usage

    @property
    def settings(self) -> list[Setting]:
        return self._session.settings

    @property
    def modes(self) -> Modes | None:
        return self._session.modes

    @property
    def models(self) -> Setting | None:
        return self._session.models


class BlockingAgent:
    """An agent. See `RemoteAgent`."""

    def __init__(self, thread: _LoopThread, agent: RemoteAgent) -> None:
        self._thread = thread
        self._agent = agent

    def session(self, cwd: str | Path = ".", **options: Any) -> BlockingSession:
        """A new session with the options of `RemoteAgent.session`; use it in a `with`, or close it yourself."""
        return BlockingSession(self._thread, self._thread.run(self._agent.new(cwd, **options)))

    def load(self, session_id: str, cwd: str | Path = ".", **options: Any) -> BlockingSession:
        return BlockingSession(self._thread, self._thread.run(self._agent.load(session_id, cwd, **options)))

    def resume(self, session_id: str, cwd: str | Path = ".", **options: Any) -> BlockingSession:
        return BlockingSession(self._thread, self._thread.run(self._agent.resume(session_id, cwd, **options)))

    def sessions(self, *, cwd: str | Path | None = None, archived: str | None = None) -> list[SessionInfo]:
        return self._thread.run(self._agent.sessions(cwd=cwd, archived=archived))

    def delete(self, session_id: str) -> None:
        self._thread.run(self._agent.delete(session_id))

    def archive(self, session_id: str) -> None:
        self._thread.run(self._agent.archive(session_id))

    def unarchive(self, session_id: str) -> None:
        self._thread.run(self._agent.unarchive(session_id))

    def login(self, method_id: str) -> None:
        self._thread.run(self._agent.login(method_id))

    def logout(self) -> None:
        self._thread.run(self._agent.logout())

    def login_status(self) -> LoginStatus:
        return self._thread.run(self._agent.login_status())

    def providers(self) -> list[Provider]:
        return self._thread.run(self._agent.providers())

    def set_provider(
        self, provider_id: str, *, api_type: str, base_url: str, headers: dict[str, str] | None = None
    ) -> None:
        work = self._agent.set_provider(provider_id, api_type=api_type, base_url=base_url, headers=headers)
        self._thread.run(work)

    def disable_provider(self, provider_id: str) -> None:
        self._thread.run(self._agent.disable_provider(provider_id))

    def call(self, name: str, params: Any, result: Any = dict[str, Any]) -> Any:
        return self._thread.run(self._agent.call(name, params, result))

    def notify(self, name: str, params: Any) -> None:
        self._thread.run(self._agent.notify(name, params))

    @property
    def version(self) -> int:
        return self._agent.version

    @property
    def is_closed(self) -> bool:
        return self._agent.is_closed

    @property
    def info(self) -> Party | None:
        return self._agent.info

    @property
    def features(self) -> AgentFeatures:
        return self._agent.features

    @property
    def login_methods(self) -> list[LoginMethod]:
        return self._agent.login_methods


@contextmanager
def connect(target: Target, **options: Any) -> Generator[BlockingAgent]:
    """As `duologue.connect`, without an event loop."""
    thread = _LoopThread()
    try:
        leave = thread.run(_event())
        ready: Future[RemoteAgent] = Future()
        held = asyncio.run_coroutine_threadsafe(_hold(target, options, ready, leave), thread._loop)
        held.add_done_callback(lambda done: _pass_on(done, ready))
        try:
            yield BlockingAgent(thread, ready.result())
        finally:
            thread._loop.call_soon_threadsafe(leave.set)
            held.result()
    finally:
        thread.close()


def ask(target: Target, prompt: str, *, cwd: str | Path = ".", permissions: Permissions | None = None) -> str:
    """What an agent answers to one prompt, as plain text: start it, ask it, end it.

    It works in `cwd` and may do there what `permissions` allow: without them, what it has to ask for is refused.
    """
    with connect(target, permissions=permissions) as agent, agent.session(cwd) as session:
        return session.ask(prompt)


def _pass_on(held: Future[None], ready: Future[RemoteAgent]) -> None:
    """What kept the connection from being made is for whoever waits for it."""
    if not ready.done():
        ready.set_exception(held.exception() or RuntimeError("the connection was closed before it was made"))


async def _hold(target: Target, options: dict[str, Any], ready: Future[RemoteAgent], leave: asyncio.Event) -> None:
    """Keep the connection open in one task from beginning to end."""
    async with connect_async(target, **options) as agent:
        ready.set_result(agent)
        await leave.wait()


async def _event() -> asyncio.Event:
    return asyncio.Event()


async def _next_of(events: Any) -> Event:
    event: Event = await anext(events)
    return event


async def _finished(turn: ClientTurn) -> None:
    await turn
