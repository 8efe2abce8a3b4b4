"""Pass elicitations of MCP servers to the user.

An elicitation belongs to a call: a server may send it while one of its tools runs, and it ends with that call.
"""

from __future__ import annotations

import asyncio
import secrets

from mcp.client.session import ClientRequestContext
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
)

from duologue.errors import DuologueError, RequestError
from duologue.mcp.options import ElicitationTarget
from duologue.protocol.values import Elicitation, ElicitationAnswer
from duologue.runtime.tasks import TaskScope

WITHDRAW_SECONDS = 1.0
"""Seconds for an elicitation to be cancelled."""


class ElicitationBridge:
    """The elicitations of one server."""

    def __init__(self, server: str, user: ElicitationTarget) -> None:
        self._server = server
        self._user = user
        self._calls = 0
        self._open = TaskScope()
        # Ids are unique on their server only; this prefix makes them unique.
        self._mark = f"ask_{secrets.token_hex(8)}"
        self._visiting: set[str] = set()

    async def __aenter__(self) -> None:
        """Allow elicitations while a tool is being called."""
        self._calls += 1

    async def __aexit__(self, *_: object) -> None:
        self._calls -= 1
        if not self._calls:
            await self._open.cancel(WITHDRAW_SECONDS)

    async def put(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """Handle an elicitation of the server."""
        if not self._calls:
            return ErrorData(code=INVALID_REQUEST, message="an elicitation is only allowed during a call of a tool")
        elicitation = self._read(params)
        asking = self._open.start(self._user.ask(elicitation))
        try:
            await asyncio.wait({asking})
        finally:
            asking.cancel()
        answer = _answer(asking)
        if elicitation.elicitation_id is not None and isinstance(answer, ElicitResult) and answer.action == "accept":
            self._visiting.add(elicitation.elicitation_id)
        return answer

    async def completed(self, elicitation_id: str) -> None:
        """Report that an accepted URL elicitation is complete; others are ignored."""
        our_id = f"{self._mark}_{elicitation_id}"
        if our_id in self._visiting:
            self._visiting.remove(our_id)
            await self._user.completed(our_id)

    def _read(self, params: ElicitRequestParams) -> Elicitation:
        message = f"{self._server}: {params.message}"  # the user has to know which server asks
        if isinstance(params, ElicitRequestFormParams):
            return Elicitation(message=message, schema=params.requested_schema)
        own_id = params.elicitation_id or secrets.token_hex(8)
        return Elicitation(message=message, url=params.url, elicitation_id=f"{self._mark}_{own_id}")


def _answer(asking: asyncio.Task[ElicitationAnswer]) -> ElicitResult | ErrorData:
    if asking.cancelled():
        return ElicitResult(action="cancel")
    error = asking.exception()
    if isinstance(error, RequestError):
        return ErrorData(code=error.code, message=error.message)
    if error is not None:
        text = str(error) if isinstance(error, DuologueError) else type(error).__name__
        return ErrorData(code=INTERNAL_ERROR, message=text)
    answer = asking.result()
    match answer.action:
        case "accept":
            return ElicitResult(action="accept", content=answer.content or None)
        case "decline":
            return ElicitResult(action="decline")
        case _:
            return ElicitResult(action="cancel")
