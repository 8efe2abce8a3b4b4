"""Steering of a running turn: text that the user sends into it, and that its handler takes or does not.

Every text has exactly one outcome: `injected` once the handler has taken it, or `prompt_required` if the turn ends
first. The client gets the answer at that point, and not before.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from duologue.agent.diagnostics.checks import exit_error
from duologue.conversation.content import Content, JsonObject, text_of
from duologue.conversation.updates import MessageChunk
from duologue.errors import ConnectionLost
from duologue.protocol.steering import NO_RUNNING_TURN, STEERED_META, SteerAnswer

if TYPE_CHECKING:
    from duologue.agent.turn import Turn

MAX_WAITING = 32
"""Texts that wait to be taken; further ones are the client's again at once."""


class SteeringMessage(Struct, frozen=True, kw_only=True):
    """Text that the user sent while the turn was running.

    Attributes:
        content: Its content blocks.
        message_id: The id of the user's message.
        meta: The `_meta` that the client attached to it.
    """

    content: list[Content]
    message_id: str
    meta: JsonObject | None = None

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return text_of(self.content)


SteerHandler: TypeAlias = Callable[["Turn[Any]", SteeringMessage], Awaitable[Any]]

_Waiting: TypeAlias = tuple[SteeringMessage, "asyncio.Future[SteerAnswer]"]

_INJECTED = SteerAnswer("injected")
_ENDED = SteerAnswer("prompt_required", NO_RUNNING_TURN)
_FULL = SteerAnswer("prompt_required", "queueFull")


class SteeringQueue:
    """The texts that wait in one turn, in order, until its handler takes them or the turn ends."""

    def __init__(self, turn: Turn[Any]) -> None:
        self._turn = turn
        self._waiting: deque[_Waiting] = deque()
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._readers: list[asyncio.Future[None]] = []

    async def put(self, message: SteeringMessage) -> SteerAnswer:
        """Queue a text and return what became of it."""
        if self._ended.done():
            return _ENDED
        if len(self._waiting) >= MAX_WAITING:
            return _FULL
        answer: asyncio.Future[SteerAnswer] = asyncio.get_running_loop().create_future()
        self._waiting.append((message, answer))
        self._wake()
        try:
            return await answer
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if answer.cancelled() or task is None:
                raise
            task.uncancel()  # too late: the text has an outcome, and the client gets it
            return answer.result()

    async def take(self) -> list[SteeringMessage]:
        """Return the texts that wait, now part of the turn."""
        taken: list[SteeringMessage] = []
        while len(taken) < MAX_WAITING and (message := await self._take_first()) is not None:
            taken.append(message)
        return taken

    async def messages(self) -> AsyncIterator[SteeringMessage]:
        """Yield each text when it arrives, now part of the turn, until the turn is over."""
        while not self._ended.done():
            if (message := await self._take_first()) is not None:
                yield message
            elif not self._ended.done():
                self._readers.append(reader := asyncio.get_running_loop().create_future())
                await reader

    async def _take_first(self) -> SteeringMessage | None:
        """Take the first text that waits; a cancellation cannot come between its outcome and its return."""
        while self._waiting:
            message, answer = self._waiting[0]
            if not answer.done():  # it is if the client has cancelled the request
                self._inject(message)
                self._waiting.popleft()
                answer.set_result(_INJECTED)
                await _let_answer_leave()
                return message
            self._waiting.popleft()
        return None

    def _inject(self, message: SteeringMessage) -> None:
        """Make a text part of the turn: a message of the user at this point, in the store too."""
        session = self._turn.session
        for block in message.content:
            chunk = MessageChunk(role="user", content=block, message_id=message.message_id, meta=STEERED_META)
            session._persistence.append(chunk)
        self._turn._message = None  # what the agent says from here on is another message
        session._cleanup_tasks.start(self._echo(message))

    async def _echo(self, message: SteeringMessage) -> None:
        session = self._turn.session
        with suppress(ConnectionLost):
            await session._client.echo_user_message(session.id, message.message_id, message.content)

    async def call(self, handler: SteerHandler, message: SteeringMessage, grace: float) -> SteerAnswer:
        """Pass a text to the agent's handler, which ends with the turn, and return what became of it.

        Args:
            handler: The handler; it returns `False` for a text that it does not take.
            message: The text.
            grace: Seconds that a handler gets to end after the turn.
        """
        if self._ended.done():
            return _ENDED
        task = self._turn.session.tasks.start(_run(handler, self._turn, message))
        try:
            await asyncio.wait({task, self._ended}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=grace)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not task.done() or task.cancelled() or task.result() is False:
            return _ENDED
        self._inject(message)
        return _INJECTED

    def close(self) -> None:
        """End the turn: what was not taken is the client's again."""
        self._ended.set_result(None)
        for _, answer in self._waiting:
            if not answer.done():
                answer.set_result(_ENDED)
        self._waiting.clear()
        self._wake()

    def _wake(self) -> None:
        for reader in self._readers:
            if not reader.done():
                reader.set_result(None)
        self._readers.clear()


async def _let_answer_leave() -> None:
    """Let the task that answers the client run before the updates that follow; a cancellation waits until then."""
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
            task.cancel()  # raised by the next wait: the caller gets the text first


async def _run(handler: SteerHandler, turn: Turn[Any], message: SteeringMessage) -> Any:
    try:
        return await handler(turn, message)
    except SystemExit as error:
        raise exit_error("steering handler", error) from error
