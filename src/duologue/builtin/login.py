"""A login for clients to practise with: it always succeeds, and is forgotten with the process."""

from __future__ import annotations

from duologue import Agent
from duologue.builtin.settings import BuiltinSettings
from duologue.protocol.values import Account, AuthStatus

__all__ = ["require_login"]


def require_login(agent: Agent[BuiltinSettings]) -> None:
    """Refuse sessions until the client has logged in."""
    accounts: list[Account] = []

    @agent.login("example", "Log in", description="Succeeds without asking anything")
    async def log_in() -> None:
        accounts[:] = [Account(label="you@example.com", active=True, name="You")]

    @agent.on_logout
    async def log_out() -> None:
        accounts.clear()

    @agent.on_login_status
    async def status() -> AuthStatus:
        return AuthStatus(state="authenticated" if accounts else "unauthenticated", accounts=list(accounts))
