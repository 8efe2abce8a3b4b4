"""Whether one client of an agent is logged in, and how it comes to be."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from duologue.conversation.content import JsonObject
from duologue.errors import AuthenticationRequired, InvalidParams, MethodNotFound
from duologue.protocol.interfaces import ClientProxy
from duologue.protocol.values import AuthStatus

if TYPE_CHECKING:
    from duologue.agent.agent import Agent

__all__ = ["Login"]

ENOUGH = ("authenticated", "not_required")
"""States in which nobody has to log in first."""


class Login:
    """The login of one client."""

    def __init__(self, agent: Agent[Any]) -> None:
        self._agent = agent
        self._is_done = False
        self._told: AuthStatus | None = None
        self.editor: ClientProxy | None = None

    async def login(self, method_id: str, credentials: JsonObject) -> None:
        """Log in.

        Args:
            method_id: Of a registered method.
            credentials: What came with the request, for a method that takes them.

        Raises:
            InvalidParams: There is no such way, or only in a terminal.
        """
        _, handler = self._agent.login_methods.get(method_id, (None, None))
        if handler is None:
            known = ", ".join(name for name, (_, handler) in self._agent.login_methods.items() if handler) or "none"
            raise InvalidParams(f"$.methodId: no such login method: {method_id[:200]!r} (there are: {known})")
        await (handler(credentials) if inspect.signature(handler).parameters else handler())
        self._is_done = True
        await self._tell()

    async def logout(self) -> None:
        """Log out; what was open stays open, and is refused until the next login."""
        if self._agent.logout_handler is not None:
            await self._agent.logout_handler()
        self._is_done = False
        await self._tell()

    async def status(self) -> AuthStatus:
        """Who is logged in, as the author's code sees it.

        Raises:
            MethodNotFound: It does not tell.
        """
        if self._agent.status_handler is None:
            raise MethodNotFound("this agent does not tell who is logged in")
        try:
            status = await self._agent.status_handler()
        except AuthenticationRequired:  # whoever asks whether to log in must not be told to log in
            status = "unauthenticated"
        return AuthStatus(state=status) if isinstance(status, str) else status

    async def check(self) -> None:
        """Refuse to go on without a login where one is required.

        Raises:
            AuthenticationRequired: Naming the ways there are.
        """
        if not self._agent.login_required or self._is_done:
            return
        if self._agent.status_handler is not None:
            self._is_done = (await self.status()).state in ENOUGH
        if not self._is_done:
            names = ", ".join(method.name for method, _ in self._agent.login_methods.values()) or "none is offered"
            raise AuthenticationRequired(f"log in first ({names})")

    async def _tell(self) -> None:
        """Tell the client of its status, if that is news."""
        if self._agent.status_handler is None or self.editor is None:
            return
        status = await self.status()
        if status != self._told:
            self._told = status
            await self.editor.send_auth_status(status)
