"""The model server: in a thread of its own, so that blocking clients and other processes can use it, too."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from duologue.client.blocking.loop_thread import LoopThread, wait_for
from duologue.errors import DuologueError
from duologue.testing.models.app import MAX_BODY_BYTES, ModelApp
from duologue.testing.models.control import AnswerControl
from duologue.testing.models.request import ModelRequest, Outcome
from duologue.testing.models.request_log import RequestLog
from duologue.testing.models.script import ModelScript, read_model_script
from duologue.testing.models.turn_queue import ScriptItem, TurnQueue
from duologue.transports.server.auth import AccessControl
from duologue.transports.server.limits import Limits
from duologue.transports.server.run import ServerAddress, new_token, serve
from duologue.transports.server.tokens import single_token

T = TypeVar("T")

HOLD_SECONDS = 120.0
"""Longest time of an answer that hangs or is held: longer than a test waits."""

WAIT_SECONDS = 60.0
"""Default of the waits of tests."""


class ModelScriptFailed(DuologueError):
    """The client sent a request that the script has no turn for, or that differs from what a turn expects."""


class ModelServer:
    """A server on loopback that speaks OpenAI's and Anthropic's protocols and answers with the turns of a script.

    Use it with `async with`, or with `with` where there is no event loop. At the end it raises `ModelScriptFailed` if a
    request did not fit the script. It runs in a thread of its own.

    Args:
        script: The turns, a whole script, or the path of a TOML file.
        api_key: The key that clients must send. Default: a new one.
        port: The port on 127.0.0.1. Default: a free one.
        hold_seconds: Longest time of an answer that hangs or is held; then its connection is dropped.
        raise_failures: Raise `ModelScriptFailed` at the end; otherwise look at `failures`.
    """

    def __init__(
        self,
        script: ModelScript | str | Path | Iterable[ScriptItem] = (),
        *,
        api_key: str | None = None,
        port: int = 0,
        hold_seconds: float = HOLD_SECONDS,
        raise_failures: bool = True,
    ) -> None:
        if isinstance(script, str | Path):
            script = read_model_script(script)
        self._turns = TurnQueue()
        self._turns.add(script.turn if isinstance(script, ModelScript) else script)
        self._script = script if isinstance(script, ModelScript) else ModelScript()
        self.api_key = api_key or f"sk-test-{new_token()}"
        self._log = RequestLog(self.api_key)
        self._requested_port = port
        self._raise_failures = raise_failures
        self._thread: LoopThread | None = None
        self._control = AnswerControl(hold_seconds)
        self._stopping = asyncio.Event()
        self._served: Future[None] | None = None
        self._port = 0

    # --- lifetime

    def start(self) -> None:
        """Start the server; `with` and `async with` do this.

        Raises:
            StartError: The port is in use.
        """
        self._thread = LoopThread()
        ready: Future[int] = Future()
        self._served = self._thread.start(self._serve(ready))
        try:
            self._port = wait_for(ready)
        except BaseException:
            self._stop()
            raise

    async def _serve(self, ready: Future[int]) -> None:
        try:
            limits = Limits(message_bytes=MAX_BODY_BYTES)
            access = AccessControl(single_token(self.api_key, "test"), limits)
            app = ModelApp(self._script, self._turns, self._log, self._control, access, limits)
            async with serve(app, ServerAddress(port=self._requested_port)) as port:
                ready.set_result(port)
                await self._stopping.wait()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
                return
            raise

    def close(self) -> None:
        """Stop the server and drop its connections; a second call does nothing.

        Raises:
            ModelScriptFailed: A request did not fit the script.
        """
        self._stop()
        if self._raise_failures:
            self._check_failures()

    def _stop(self) -> None:
        if self._thread is None or self._served is None:
            return
        thread, self._thread = self._thread, None
        try:
            thread.call(self._stopping.set)
            wait_for(self._served)
        finally:
            thread.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()
        if error is None:
            self.close()
        else:
            for failure in self.failures:
                error.add_note(f"model server: {failure}")

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._stop)
        self.__exit__(kind, error, traceback)

    # --- for clients

    @property
    def openai_url(self) -> str:
        """The base URL for clients of OpenAI's APIs."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def anthropic_url(self) -> str:
        """The base URL for clients of Anthropic's API."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables with which the usual clients find the server."""
        return {
            "OPENAI_BASE_URL": self.openai_url,
            "OPENAI_API_KEY": self.api_key,
            "ANTHROPIC_BASE_URL": self.anthropic_url,
            "ANTHROPIC_API_KEY": self.api_key,
            "NO_PROXY": "127.0.0.1,localhost",
        }

    # --- for tests

    def add(self, *turns: ScriptItem) -> None:
        """Append turns to the script."""
        self._turns.add(turns)

    @property
    def requests(self) -> list[ModelRequest]:
        """The requests for an answer, oldest first; of very many, the newest."""
        return list(self._log.requests)

    @property
    def failures(self) -> list[str]:
        """The requests that did not fit the script, each as a text."""
        return list(self._log.failures)

    def check(self) -> None:
        """Check that every request fitted the script and that every turn was used.

        Raises:
            ModelScriptFailed: One did not, or one was not.
        """
        self._check_failures()
        if self._turns.unused:
            numbers = ", ".join(map(str, self._turns.unused))
            raise ModelScriptFailed(f"the client sent {len(self.requests)} requests; turns not used: {numbers}")

    def _check_failures(self) -> None:
        if self.failures:
            raise ModelScriptFailed("; ".join(self.failures))

    async def held(self, count: int = 1, *, timeout: float = WAIT_SECONDS) -> ModelRequest:
        """Wait until an answer is held (`hold_after`), or `count` of them; return the request of the last one.

        Raises:
            TimeoutError: Fewer were held in time.
        """
        return await self._run(self._running_control.wait_held(max(1, count), timeout))

    async def release(self) -> None:
        """Let the answers that are held go on.

        Raises:
            ValueError: None is held.
        """
        await self._run(self._running_control.release())

    async def finished(self, request: ModelRequest, *, timeout: float = WAIT_SECONDS) -> Outcome:
        """Wait until the answer to a request has ended; return `answered`, `rejected`, or `abandoned` by the client.

        Raises:
            TimeoutError: It did not end in time.
        """
        return await self._run(self._running_control.wait_finished(request, timeout))

    async def received(self, count: int, *, timeout: float = WAIT_SECONDS) -> list[ModelRequest]:
        """Wait until so many requests have arrived; return all of them.

        Raises:
            TimeoutError: They did not arrive in time.
        """
        await self._run(self._running_control.wait_requests(self._log.requests, count, timeout))
        return self.requests

    @property
    def _running_control(self) -> AnswerControl:
        if self._thread is None:
            raise RuntimeError("the server does not run; use it inside of `async with ModelServer(…) as server:`")
        return self._control

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._thread is not None
        return await asyncio.wrap_future(self._thread.start(work))
