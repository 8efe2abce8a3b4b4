"""Login: methods, requests that are rejected before it, and reports of the status."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duologue.agent.agent import Agent
from duologue.errors import AuthenticationRequired, InvalidParams, RequestError
from duologue.protocol.values import Account, AuthStatus
from duologue.runtime.handlers import Context
from duologue.schema import v1
from duologue.store.memory import MemoryStore
from tests.agent.wire_client import EVERYTHING, RecordingClient, agent_with, client_for


def guarded_agent(**options: Any) -> Agent[Any]:
    """Return an agent that requires a login."""
    agent = agent_with(login_required=True, unstable=True, **options)
    agent.persist_sessions(MemoryStore())

    @agent.login("key", "With a key", description="From your account", meta={"icon": "key"})
    async def login() -> None:
        return None

    @agent.login("broken", "That never works")
    async def fail() -> None:
        raise RequestError("the key is wrong", code=1234, data={"why": "expired"})

    @agent.on_logout
    async def logout() -> None:
        return None

    agent.login_in_terminal("wizard", "In a terminal", args=("--login",), env={"A": "1"}, meta={"icon": "terminal"})
    return agent


async def login(client: RecordingClient, method: str = "key") -> None:
    await client.connection.request(v1.AUTHENTICATE, v1.AuthenticateRequest(method_id=method))


@pytest.mark.rule(40, 41)
@pytest.mark.fault("LIF-04")
async def test_sessions_wait_for_a_login_and_for_the_next_one_after_a_logout(tmp_path: Path) -> None:
    async with asyncio.timeout(60), client_for(guarded_agent(), tmp_path, validate=True) as client:
        with pytest.raises(AuthenticationRequired, match="With a key"):
            await client.new()
        await login(client)
        session = await client.new()
        assert (await client.prompt(session, "hi")).stop_reason == "end_turn"

        await client.connection.request(v1.LOGOUT, v1.LogoutRequest())
        for refused in (
            client.new(),
            client.prompt(session, "hi"),
            client.load(session),
            client.resume(session),
            client.fork(session),
            client.sessions_page(),
            client.delete(session),
            client.connection.request(v1.SESSION_ARCHIVE, v1.ArchiveSessionRequest(session_id=session)),
            client.connection.request(v1.SESSION_STATUS, v1.SessionStatusRequest(session_id=session)),
            client.connection.request(v1.SESSION_SET_TITLE, v1.SetSessionTitleRequest(session_id=session, title="t")),
        ):
            with pytest.raises(AuthenticationRequired):
                await refused

        await login(client)
        assert (await client.prompt(session, "hi")).stop_reason == "end_turn"  # the session itself lived on
        await client.close(session)


@pytest.mark.rule(36)
async def test_terminal_methods_are_shown_only_to_clients_that_can_run_them(tmp_path: Path) -> None:
    async with client_for(guarded_agent(), tmp_path, validate=True) as client:
        assert [method.id for method in client.hello.auth_methods] == ["key", "broken"]
    async with client_for(guarded_agent(), tmp_path, validate=True, auth=v1.AuthCapabilities(terminal=True)) as client:
        key, _, wizard = client.hello.auth_methods
        assert key == v1.AuthMethodAgent(
            id="key", name="With a key", description="From your account", meta={"icon": "key"}
        )
        assert wizard == v1.AuthMethodTerminal(
            id="wizard", name="In a terminal", args=["--login"], env={"A": "1"}, meta={"icon": "terminal"}
        )


@pytest.mark.rule(43)
@pytest.mark.parametrize("method", ["nope", "", "wizard"])
async def test_an_unknown_method_or_one_for_a_terminal_is_rejected(tmp_path: Path, method: str) -> None:
    async with asyncio.timeout(60), client_for(guarded_agent(), tmp_path, **EVERYTHING) as client:
        with pytest.raises(InvalidParams, match="known: key, broken"):
            await login(client, method)


async def test_a_failed_login_says_why_and_lets_no_client_in(tmp_path: Path) -> None:
    async with asyncio.timeout(60), client_for(guarded_agent(), tmp_path) as client:
        with pytest.raises(RequestError, match="the key is wrong") as caught:
            await login(client, "broken")
        assert (caught.value.code, caught.value.data) == (1234, {"why": "expired"})
        with pytest.raises(AuthenticationRequired):
            await client.new()
        await login(client)  # the connection stays, so another login can be tried
        await client.new()


async def test_auth_status_reports_the_login_and_each_change_once(tmp_path: Path) -> None:
    agent = guarded_agent()
    states: list[str] = ["unauthenticated"]

    @agent.on_login_status
    async def status() -> AuthStatus:
        accounts = [Account(label="me", active=True, email="me@example.com", meta={"a": 1})]
        return AuthStatus(state=states[-1], accounts=accounts if states[-1] == "authenticated" else [])

    received: list[v1.AuthStatusUpdateNotification] = []
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:

        @client.handlers.on(v1.AUTH_STATUS_UPDATE)
        async def receive(context: Context, params: v1.AuthStatusUpdateNotification) -> None:
            received.append(params)

        asked = await client.connection.request(v1.AUTH_STATUS, v1.AuthStatusRequest())
        assert asked == v1.AuthStatusResponse(state="unauthenticated")
        with pytest.raises(AuthenticationRequired):
            await client.new()

        states.append("authenticated")
        await client.new()  # the author's own word counts, however the login came about
        await login(client)
        await login(client)
        account = v1.AuthAccount(label="me", active=True, email="me@example.com", meta={"a": 1})
        assert received == [v1.AuthStatusUpdateNotification(state="authenticated", accounts=[account])]

        states.append("unauthenticated")
        await client.connection.request(v1.LOGOUT, v1.LogoutRequest())
        assert received[-1].state == "unauthenticated"


@pytest.mark.parametrize("reported", ["raise", "unknown", "not_required"])
async def test_auth_status_never_answers_with_log_in_first(tmp_path: Path, reported: str) -> None:
    agent = guarded_agent()

    @agent.on_login_status
    async def status() -> str:
        if reported == "raise":
            raise AuthenticationRequired("log in")
        return reported

    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        answer = await client.connection.request(v1.AUTH_STATUS, v1.AuthStatusRequest())
        assert answer.state == ("unauthenticated" if reported == "raise" else reported)
        if reported == "not_required":
            await client.new()
        else:
            with pytest.raises(AuthenticationRequired):
                await client.new()


async def test_one_client_that_logged_in_does_not_let_others_in(tmp_path: Path) -> None:
    agent = guarded_agent()
    async with asyncio.timeout(60), client_for(agent, tmp_path) as client, client_for(agent, tmp_path) as other:
        await login(client)
        await client.new()
        with pytest.raises(AuthenticationRequired):
            await other.new()
