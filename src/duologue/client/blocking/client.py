"""The client's side without an event loop: for scripts, and for notebooks that already run one.

    with blocking.connect("gemini --acp") as agent, agent.new_session("/repo") as session:
        for event in session.prompt("Fix the flaky test"):
            ...

Everything runs on one thread of its own; each call here waits for it. The objects are those of the asynchronous side
with every coroutine made a plain function.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from duologue.client.agent import RemoteAgent
from duologue.client.blocking.loop_thread import LoopThread, wait_for
from duologue.client.blocking.turn import BlockingTurn, call, next_of
from duologue.client.connect import Target
from duologue.client.connect import connect as connect_async
from duologue.client.permissions.policy import Permissions
from duologue.client.prompt import Attachment
from duologue.client.session import ClientSession
from duologue.conversation.content import Content, JsonObject
from duologue.conversation.items import Usage
from duologue.conversation.session_setup import Implementation, SessionInfo
from duologue.conversation.settings import ConfigOption, Modes
from duologue.conversation.transcript import Transcript
from duologue.conversation.updates import AvailableCommand, Location
from duologue.conversation.work_state import BackgroundWork
from duologue.events import Event
from duologue.protocol.values import AgentCapabilities, AuthMethod, AuthStatus, Provider

T = TypeVar("T")

__all__ = ["BlockingAgent", "BlockingSession", "BlockingTurn", "ask", "connect", "open"]


class BlockingSession:
    """A session. See `ClientSession`."""

    def __init__(self, thread: LoopThread, session: ClientSession) -> None:
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

        make = partial(self._session.prompt, prompt, files=files, images=images, audio=audio, meta=meta)
        return BlockingTurn(self._thread, self._thread.run(call(make)))

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

    def set_option(self, setting_id: str, value: str | bool) -> None:
        self._thread.run(self._session.set_option(setting_id, value))

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
                yield self._thread.run(next_of(events))
            except StopAsyncIteration:
                return

    def close(self) -> None:
        self._thread.run(self._session.aclose())

    @property
    def id(self) -> str:
        return self._session.id

    @property
    def cwd(self) -> Path:
        return self._session.cwd

    @property
    def is_open(self) -> bool:
        return self._session.is_open

    @property
    def lost(self) -> str | None:
        return self._session.lost

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
    def commands(self) -> list[AvailableCommand]:
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
    def settings(self) -> list[ConfigOption]:
        return self._session.settings

    @property
    def modes(self) -> Modes | None:
        return self._session.modes

    @property
    def models(self) -> ConfigOption | None:
        return self._session.models


class BlockingAgent:
    """An agent. See `RemoteAgent`."""

    def __init__(self, thread: LoopThread, agent: RemoteAgent) -> None:
        self._thread = thread
        self._agent = agent
        self._connection = ExitStack()

    def close(self) -> None:
        """Close the connection that `open` made. A second call does nothing."""
        self._connection.close()

    def new_session(self, cwd: str | Path = ".", **options: Any) -> BlockingSession:
        """A new session with the options of `RemoteAgent.session`; use it in a `with`, or close it yourself."""
        return BlockingSession(self._thread, self._thread.run(self._agent.new_session(cwd, **options)))

    def load_session(self, session_id: str, cwd: str | Path = ".", **options: Any) -> BlockingSession:
        return BlockingSession(self._thread, self._thread.run(self._agent.load_session(session_id, cwd, **options)))

    def resume_session(self, session_id: str, cwd: str | Path = ".", **options: Any) -> BlockingSession:
        return BlockingSession(self._thread, self._thread.run(self._agent.resume_session(session_id, cwd, **options)))

    def list_sessions(self, *, cwd: str | Path | None = None, archived: str | None = None) -> list[SessionInfo]:
        return self._thread.run(self._agent.list_sessions(cwd=cwd, archived=archived))

    def delete_session(self, session_id: str) -> None:
        self._thread.run(self._agent.delete_session(session_id))

    def archive_session(self, session_id: str) -> None:
        self._thread.run(self._agent.archive_session(session_id))

    def unarchive_session(self, session_id: str) -> None:
        self._thread.run(self._agent.unarchive_session(session_id))

    def login(self, method_id: str) -> None:
        self._thread.run(self._agent.login(method_id))

    def logout(self) -> None:
        self._thread.run(self._agent.logout())

    def login_status(self) -> AuthStatus:
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
    def info(self) -> Implementation | None:
        return self._agent.info

    @property
    def capabilities(self) -> AgentCapabilities:
        return self._agent.capabilities

    @property
    def login_methods(self) -> list[AuthMethod]:
        return self._agent.login_methods


@contextmanager
def connect(target: Target, **options: Any) -> Generator[BlockingAgent]:
    """As `duologue.connect`, without an event loop."""
    thread = LoopThread()
    begun: Future[_Held] = Future()
    ready: Future[RemoteAgent] = Future()
    try:
        over = thread.start(_hold(target, options, begun, ready))
        held = wait_for(begun)
        try:
            agent = wait_for(ready)
        except BaseException:  # whoever is interrupted does not wait for an agent that starts, only for its end
            thread.call(held.task.cancel)
            wait_for(over)
            raise
        try:
            yield BlockingAgent(thread, agent)
        finally:
            thread.call(held.leave.set)
            wait_for(over)
    finally:
        thread.close()


def open(target: Target, **options: Any) -> BlockingAgent:
    """As `connect`, for notebooks, where no block lasts from one cell to the next: it ends with `agent.close()`."""
    with ExitStack() as stack:
        agent = stack.enter_context(connect(target, **options))
        agent._connection = stack.pop_all()
    return agent


def ask(target: Target, prompt: str, *, cwd: str | Path = ".", permissions: Permissions | None = None) -> str:
    """What an agent answers to one prompt, as plain text: start it, ask it, end it.

    It works in `cwd` and may do there what `permissions` allow: without them, what it has to ask for is refused.
    """
    with connect(target, permissions=permissions) as agent, agent.new_session(cwd) as session:
        return session.ask(prompt)


class _Held(NamedTuple):
    """Ways to end a connection: before it is made, and after."""

    task: asyncio.Task[Any]
    leave: asyncio.Event


async def _hold(target: Target, options: dict[str, Any], begun: Future[_Held], ready: Future[RemoteAgent]) -> None:
    """Keep the connection open in one task from beginning to end."""
    task, leave = asyncio.current_task(), asyncio.Event()
    assert task is not None
    begun.set_result(_Held(task, leave))
    try:
        async with connect_async(target, **options) as agent:
            ready.set_result(agent)
            await leave.wait()
    except BaseException as error:
        if ready.done():
            raise
        ready.set_exception(error)  # for whoever waits for the connection
