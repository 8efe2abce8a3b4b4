"""Questions of an agent to the user that are more than a yes or no, from when they are put to when they are answered.

They die with their turn, as questions of permission do; and what does not fit the form is not sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec import structs

from duologue.client.services.form_validation import completed, validation_error
from duologue.conversation.urls import host_of
from duologue.errors import InvalidParams, MethodNotFound
from duologue.protocol.values import Elicitation, ElicitationAnswer

__all__ = ["ElicitationHandler", "Elicitations"]

_log = logging.getLogger("duologue.client")

ElicitationHandler: TypeAlias = Callable[[Elicitation], Awaitable[ElicitationAnswer]]

CANCELLED = ElicitationAnswer(action="cancel")


class Elicitations:
    """Puts questions to whoever answers them.

    Args:
        ask: Answers them; without it none can be put.
    """

    def __init__(self, ask: ElicitationHandler | None) -> None:
        self._ask = ask
        self._open: dict[str | None, set[asyncio.Timeout]] = {}

    @property
    def can_ask(self) -> bool:
        """There is somebody to ask."""
        return self._ask is not None

    async def ask(self, question: Elicitation) -> ElicitationAnswer:
        """The user's answer, or that there was none before the end of the turn.

        Raises:
            MethodNotFound: There is nobody to ask.
            InvalidParams: The URL is none that a user can be shown with its host.
        """
        if self._ask is None:
            raise MethodNotFound("this client asks its user nothing")
        if question.url is not None:
            _check_url(question.url)
        scope = asyncio.timeout(None)
        waiting = self._open.setdefault(question.session_id, set())
        try:
            async with scope:
                waiting.add(scope)
                return _checked(question, await self._ask(question))
        except TimeoutError:
            if not scope.expired():
                raise
            return CANCELLED
        finally:
            waiting.discard(scope)
            if not waiting:
                self._open.pop(question.session_id, None)

    def cancel(self, session_id: str) -> None:
        """Nobody waits for the answers of this session any more."""
        for scope in self._open.get(session_id, ()):
            scope.reschedule(asyncio.get_running_loop().time())


def _check_url(url: str) -> None:
    try:
        host_of(url)
    except ValueError as error:
        raise InvalidParams(f"url: {error}") from error


def _checked(question: Elicitation, answer: ElicitationAnswer) -> ElicitationAnswer:
    if answer.action != "accept" or question.schema is None:
        return answer
    content = completed(question.schema, answer.content or {})
    wrong = validation_error(question.schema, content)
    if wrong is not None:
        _log.warning("an answer that does not fit its form was not sent: %s", wrong)
        return CANCELLED
    return structs.replace(answer, content=content)
