"""Whether one client of an agent is authenticated."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from duologue.conversation.content import JsonObject
from duologue.errors import AuthenticationRequired, InvalidParams, MethodNotFound
from duologue.protocol.shared.client_proxy import ClientProxy
from duologue.protocol.values import AuthStatus

if TYPE_CHECKING:
    from duologue.agent.agent import Agent

AUTHENTICATED = ("authenticated", "not_required")
"""States in which the user does not have to log in."""


class AuthState:
    """The authentication of one client: whether it has succeeded, and the status last sent."""

    def __init__(self, agent: Agent[Any]) -> None:
        self._agent = agent
        self._is_authenticated = False
        self._sent: AuthStatus | None = None
        self.client: ClientProxy | None = None

    async def authenticate(self, method_id: str, credentials: JsonObject) -> None:
        """Authenticate by a registered method.

        Args:
            method_id: The id of the method.
            credentials: The credentials of the request, for a method that takes them.

        Raises:
            InvalidParams: There is no such method, or it works in a terminal only.
        """
        _, handler = self._agent._auth_methods.get(method_id, (None, None))
        if handler is None:
            known = ", ".join(name for name, (_, handler) in self._agent._auth_methods.items() if handler) or "none"
            raise InvalidParams(f"$.methodId: no such login method: {method_id[:200]!r} (known: {known})")
        await (handler(credentials) if inspect.signature(handler).parameters else handler())
        self._is_authenticated = True
        await self._send_status()

    async def logout(self) -> None:
        """Log out; open sessions stay open, but their prompts are rejected until the next authentication."""
        if self._agent._logout_handler is not None:
            await self._agent._logout_handler()
        self._is_authenticated = False
        await self._send_status()

    async def status(self) -> AuthStatus:
        """Return the authentication status from the author's handler.

        Raises:
            MethodNotFound: The agent has no such handler.
        """
        if self._agent._status_handler is None:
            raise MethodNotFound("this agent does not report its login status")
        try:
            status = await self._agent._status_handler()
        except AuthenticationRequired:  # a request for the status must not fail because of the status
            status = "unauthenticated"
        return AuthStatus(state=status) if isinstance(status, str) else status

    async def check(self) -> None:
        """Check that the user has logged in, if the agent requires it.

        Raises:
            AuthenticationRequired: The user has not; the message names the methods.
        """
        if not self._agent._auth_required or self._is_authenticated:
            return
        if self._agent._status_handler is not None:
            self._is_authenticated = (await self.status()).state in AUTHENTICATED
        if not self._is_authenticated:
            names = ", ".join(method.name for method, _ in self._agent._auth_methods.values()) or "no method"
            raise AuthenticationRequired(f"log in first ({names})")

    async def _send_status(self) -> None:
        """Send the authentication status to the client if it has changed."""
        if self._agent._status_handler is None or self.client is None:
            return
        status = await self.status()
        if status != self._sent:
            self._sent = status
            await self.client.send_auth_status(status)
