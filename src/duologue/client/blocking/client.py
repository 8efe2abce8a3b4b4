"""The client side without an event loop: agents and sessions whose methods block.

One thread runs an event loop; each call here waits for it. The classes offer what `RemoteAgent` and `ClientSession`
offer, with every coroutine as a plain function.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, NoReturn, ParamSpec, Self

from duologue.client.agent import RemoteAgent
from duologue.client.agent_sessions import AwaitableSession
from duologue.client.auth import AuthMethodChooser, AuthOptions
from duologue.client.blocking.forwarders import Blocking, Forwarded, blocking, with_signature_of
from duologue.client.blocking.loop_thread import LoopThread, wait_for
from duologue.client.blocking.turn import BlockingTurn
from duologue.client.connect import INITIALIZE_SECONDS
from duologue.client.connect import connect as connect_async
from duologue.client.permissions.policy import Permissions
from duologue.client.prompt import Attachment
from duologue.client.session import ClientSession
from duologue.client.target import Target
from duologue.client.turn import ClientTurn
from duologue.conversation.items import BackgroundTask
from duologue.conversation.session_setup import Implementation
from duologue.conversation.settings import ConfigOption, Modes
from duologue.conversation.transcript import Transcript
from duologue.conversation.updates import AvailableCommand, Location
from duologue.conversation.work_state import BackgroundWork
from duologue.errors import InitializeTimeout, TurnTimeout
from duologue.events import Event
from duologue.protocol.values import AgentCapabilities, AuthMethod
from duologue.usage.amounts import SessionUsage
from duologue.usage.counter import UsageState

P = ParamSpec("P")

ASK_CANCEL_SECONDS = 1.0
"""Less than in a session that goes on: the agent is no longer needed."""


def _opener(method: Callable[Concatenate[Any, P], AwaitableSession]) -> Callable[Concatenate[Any, P], BlockingSession]:
    @wraps(method)
    def open_session(self: Blocking[Any], /, *args: P.args, **options: P.kwargs) -> BlockingSession:
        return BlockingSession(self._thread, self._thread.run(method(self._wrapped, *args, **options)))

    return open_session


def _prompter(method: Callable[Concatenate[Any, P], ClientTurn]) -> Callable[Concatenate[Any, P], BlockingTurn]:
    @wraps(method)
    def prompt(self: Blocking[Any], /, *args: P.args, **options: P.kwargs) -> BlockingTurn:
        caller = sys._getframe(1)
        turn = self._call(method, self._wrapped, *args, **options)
        turn._caller = (caller.f_code.co_filename, caller.f_lineno)
        turn._fixes = "`session.prompt(…).wait()` or `for event in session.prompt(…):`"
        return BlockingTurn(self._thread, turn)

    return prompt


class BlockingSession(Blocking[ClientSession]):
    """A session whose methods block; use it in `with`, which closes it. See `ClientSession`."""

    id = Forwarded[str]()
    cwd = Forwarded[Path]()
    is_open = Forwarded[bool]()
    is_interrupted = Forwarded[bool]()
    is_busy = Forwarded[bool]()
    is_cancelling = Forwarded[bool]()
    lost_reason = Forwarded[str | None]()
    late_updates = Forwarded[int]()
    state = Forwarded[str]()
    background = Forwarded[list[BackgroundWork]]()
    background_tasks = Forwarded[list[BackgroundTask]]()
    commands = Forwarded[list[AvailableCommand]]()
    location = Forwarded[Location | None]()
    transcript = Forwarded[Transcript]()
    title = Forwarded[str | None]()
    usage = Forwarded[SessionUsage]()
    usage_state = Forwarded[UsageState]()
    settings = Forwarded[list[ConfigOption]]()
    modes = Forwarded[Modes | None]()
    models = Forwarded[ConfigOption | None]()

    prompt = _prompter(ClientSession.prompt)
    ask = blocking(ClientSession.ask)
    cancel = blocking(ClientSession.cancel)
    cancel_tool_call = blocking(ClientSession.cancel_tool_call)
    cancel_terminal = blocking(ClientSession.cancel_terminal)
    stop_task = blocking(ClientSession.stop_task)
    set_mode = blocking(ClientSession.set_mode)
    set_model = blocking(ClientSession.set_model)
    set_option = blocking(ClientSession.set_option)
    set_title = blocking(ClientSession.set_title)
    status = blocking(ClientSession.status)
    fork = _opener(ClientSession.fork)
    close = blocking(ClientSession.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _repr_markdown_(self) -> str:
        return self._call(self._wrapped._repr_markdown_)

    @property
    def children(self) -> dict[str, BlockingSession]:
        """Sessions that the agent itself opened for subagents of this one, by id (unstable)."""
        return {key: BlockingSession(self._thread, child) for key, child in self._wrapped.children.items()}

    def last_message_text(self) -> str:
        """Return the last message of the agent as plain text."""
        return self._call(self._wrapped.last_message_text)

    def restore_usage(self, state: UsageState) -> None:
        """Count on from the usage that an earlier program has saved, in a session that was just loaded or resumed."""
        self._call(self._wrapped.restore_usage, state)

    def watch(self, watcher: Callable[[Event], None]) -> Callable[[], None]:
        """Call a function with every event, in the thread of the event loop; call the returned function to stop."""
        return self._call(self._wrapped.watch, watcher)

    def events(self) -> Iterator[Event]:
        """Yield every event from the first step on, in and between turns, until the session is closed."""
        return self._iterate(self._wrapped.events())


class BlockingAgent(Blocking[RemoteAgent]):
    """A connected agent whose methods block. See `RemoteAgent`."""

    info = Forwarded[Implementation | None]()
    version = Forwarded[int]()
    capabilities = Forwarded[AgentCapabilities]()
    login_methods = Forwarded[list[AuthMethod]]()
    is_closed = Forwarded[bool]()

    new_session = _opener(RemoteAgent.new_session)
    load_session = _opener(RemoteAgent.load_session)
    resume_session = _opener(RemoteAgent.resume_session)
    fork_session = _opener(RemoteAgent.fork_session)
    list_sessions = blocking(RemoteAgent.list_sessions)
    delete_session = blocking(RemoteAgent.delete_session)
    archive_session = blocking(RemoteAgent.archive_session)
    unarchive_session = blocking(RemoteAgent.unarchive_session)
    login = blocking(RemoteAgent.login)
    logout = blocking(RemoteAgent.logout)
    login_status = blocking(RemoteAgent.login_status)
    providers = blocking(RemoteAgent.providers)
    set_provider = blocking(RemoteAgent.set_provider)
    disable_provider = blocking(RemoteAgent.disable_provider)
    call = blocking(RemoteAgent.call)
    notify = blocking(RemoteAgent.notify)

    def __init__(self, thread: LoopThread, agent: RemoteAgent) -> None:
        super().__init__(thread, agent)
        self._connection = ExitStack()

    def close(self) -> None:
        """Close a connection that `open` made. A second call does nothing."""
        self._connection.close()


@with_signature_of(connect_async)
def connect(*args: Any, **options: Any) -> AbstractContextManager[BlockingAgent]:
    """Connect to an agent without an event loop; takes the arguments of `duologue.connect`."""
    return _BlockingConnection(_connected(*args, **options))


class _BlockingConnection(AbstractContextManager[BlockingAgent]):
    """The result of `connect`, which `with` opens; every other use is an error that names the fix."""

    def __init__(self, connection: AbstractContextManager[BlockingAgent]) -> None:
        self._connection = connection

    def __enter__(self) -> BlockingAgent:
        return self._connection.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._connection.__exit__(kind, error, trace)

    if not TYPE_CHECKING:  # type checkers report this use themselves

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(
                f"`duologue.sync.connect(…)` is not connected yet and has no `{name}`; write "
                "`with duologue.sync.connect(…) as agent:`, or, in a notebook, `agent = duologue.sync.open(…)`"
            )


@contextmanager
def _connected(*args: Any, **options: Any) -> Generator[BlockingAgent]:
    thread = LoopThread()
    begun: Future[_Running] = Future()
    ready: Future[RemoteAgent] = Future()
    try:
        over = thread.start(_run(begun, ready, *args, **options))
        running = wait_for(begun)
        try:
            agent = wait_for(ready)
        except BaseException:  # a Ctrl-C does not wait until the agent has started, only until it has ended
            thread.call(running.task.cancel)
            wait_for(over)
            raise
        try:
            yield BlockingAgent(thread, agent)
        finally:
            thread.call(running.leave.set)
            wait_for(over)
    finally:
        thread.close()


@with_signature_of(connect_async)
def open(*args: Any, **options: Any) -> BlockingAgent:
    """Connect as `connect` does, for notebooks, where no block lasts over several cells; `agent.close()` ends it."""
    with ExitStack() as stack:
        agent = stack.enter_context(connect(*args, **options))
        agent._connection = stack.pop_all()
    return agent


def ask(
    target: Target,
    prompt: str,
    *,
    cwd: str | Path = ".",
    permissions: Permissions | None = None,
    files: Iterable[Attachment] = (),
    check: bool = True,
    timeout: float | None = None,
    cancel_timeout: float = ASK_CANCEL_SECONDS,
    token: str | None = None,
    lock: str | Path | None = None,
    login: AuthOptions | AuthMethodChooser | str | None = None,
) -> str:
    """Start an agent, send it one prompt, end it, and return its answer as plain text.

    Args:
        target: A command, a URL, an `Agent`, or an open transport, as for `connect`.
        prompt: Text of the prompt.
        cwd: Working directory of the session.
        permissions: Policy that decides the agent's permission requests. Default: it may only read.
        files: Files, directories or selections: embedded if the agent supports it, linked otherwise.
        check: Raise an error if the turn was refused, cut off, cancelled, or denied a permission.
        timeout: Seconds for everything, from the start of the agent to its answer, after which the turn is cancelled.
        cancel_timeout: Seconds after `timeout` that the agent gets to end the turn, before its process is ended.
        token: Bearer token sent to a remote agent.
        lock: Lock file of a project in which the name of an agent is looked up, instead of the user's own.
        login: How to authenticate when the agent requires it: a method id, a chooser, or `AuthOptions`.

    Raises:
        TurnIncomplete: The answer is not complete, see `check`; the error has the text so far.
        TurnTimeout: The agent did not answer in time; the error has the text so far.
    """
    end = None if timeout is None else time.monotonic() + timeout
    startup = INITIALIZE_SECONDS if timeout is None else min(timeout, INITIALIZE_SECONDS)

    def seconds_left() -> float | None:
        return None if end is None else max(0.0, end - time.monotonic())

    async def answer(agent: RemoteAgent) -> str:
        try:
            async with asyncio.timeout(seconds_left()):
                session = await agent.new_session(cwd)
        except TimeoutError:
            agent._target.mark_unresponsive()
            raise TurnTimeout(f"the agent did not open a session within {timeout:g} s") from None
        async with session:
            turn = session.prompt(prompt, files=files, timeout=seconds_left())
            turn._named_timeout = timeout
            await turn
        if check:
            turn.check()
        return turn.text

    try:
        with connect(
            target,
            permissions=permissions,
            token=token,
            lock=lock,
            login=login,
            startup_timeout=startup,
            cancel_timeout=cancel_timeout,
        ) as agent:
            return agent._thread.run(answer(agent._wrapped))
    except InitializeTimeout as error:
        if timeout is None or timeout > INITIALIZE_SECONDS:
            raise
        raise TurnTimeout(str(error)) from error


class _Running(NamedTuple):
    """Two ways to end a connection: before it is made, and after."""

    task: asyncio.Task[Any]
    leave: asyncio.Event


async def _run(begun: Future[_Running], ready: Future[RemoteAgent], *args: Any, **options: Any) -> None:
    """Keep the connection open in one task from beginning to end."""
    task, leave = asyncio.current_task(), asyncio.Event()
    assert task is not None
    begun.set_result(_Running(task, leave))
    try:
        async with connect_async(*args, **options) as agent:
            ready.set_result(agent)
            await leave.wait()
    except BaseException as error:
        if ready.done():
            raise
        ready.set_exception(error)  # for the thread that waits for the connection
