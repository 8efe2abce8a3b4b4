"""Elicitation: forms and URLs of an agent for the user, until they are answered.

They are cancelled at the end of their turn. A reply that does not match the form is not sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec import structs

from duologue.errors import InvalidParams, MethodNotFound
from duologue.protocol.values import Elicitation, ElicitationAnswer

_log = logging.getLogger("duologue.client")

ElicitationHandler: TypeAlias = Callable[[Elicitation], Awaitable[ElicitationAnswer]]

CANCELLED = ElicitationAnswer(action="cancel")


class Elicitations:
    """Passes elicitations to the user's handler.

    Args:
        handler: Called with each elicitation; `None`: elicitation is not offered.
    """

    def __init__(self, handler: ElicitationHandler | None) -> None:
        self._handler = handler
        self._pending: dict[str | None, set[asyncio.Timeout]] = {}

    @property
    def can_ask(self) -> bool:
        """True if there is a handler."""
        return self._handler is not None

    async def ask(self, elicitation: Elicitation) -> ElicitationAnswer:
        """Return the user's reply, or `cancel` if the turn ends first.

        Raises:
            MethodNotFound: There is no handler.
            InvalidParams: The URL has no host that can be shown to the user.
        """
        if self._handler is None:
            raise MethodNotFound("this client does not support elicitation")
        if elicitation.url is not None:
            _check_url(elicitation.url)
        scope = asyncio.timeout(None)
        waiting = self._pending.setdefault(elicitation.session_id, set())
        try:
            async with scope:
                waiting.add(scope)
                return _validated(elicitation, await self._handler(elicitation))
        except TimeoutError:
            if not scope.expired():
                raise
            return CANCELLED
        finally:
            waiting.discard(scope)
            if not waiting:
                self._pending.pop(elicitation.session_id, None)

    def cancel(self, session_id: str) -> None:
        """Cancel the pending elicitations of a session."""
        for scope in self._pending.get(session_id, ()):
            scope.reschedule(asyncio.get_running_loop().time())


def _check_url(url: str) -> None:
    from duologue.conversation.urls import host_of

    try:
        host_of(url)
    except ValueError as error:
        raise InvalidParams(f"url: {error}") from error


def _validated(elicitation: Elicitation, reply: ElicitationAnswer) -> ElicitationAnswer:
    if reply.action != "accept" or elicitation.schema is None:
        return reply
    from duologue.client.services.form_validation import completed, validation_error

    content = completed(elicitation.schema, reply.content or {})
    error = validation_error(elicitation.schema, content)
    if error is not None:
        _log.warning("a reply that does not match its form was not sent: %s", error)
        return CANCELLED
    return structs.replace(reply, content=content)
