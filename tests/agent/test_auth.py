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
from tests.agent.wire_client import EVERYTHING, Editor, agent_with, editor_for


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


async def login(editor: Editor, method: str = "key") -> None:
    await editor.connection.request(v1.AUTHENTICATE, v1.AuthenticateRequest(method_id=method))


@pytest.mark.rule(40, 41)
@pytest.mark.fault("LIF-04")
async def test_sessions_wait_for_a_login_and_for_the_next_one_after_a_logout(tmp_path: Path) -> None:
    async with asyncio.timeout(5), editor_for(guarded_agent(), tmp_path, judged=True) as editor:
        with pytest.raises(AuthenticationRequired, match="With a key"):
            await editor.new()
        await login(editor)
        session = await editor.new()
        assert (await editor.prompt(session, "hi")).stop_reason == "end_turn"

        await editor.connection.request(v1.LOGOUT, v1.LogoutRequest())
        for refused in (
            editor.new(),
            editor.prompt(session, "hi"),
            editor.load(session),
            editor.resume(session),
            editor.fork(session),
            editor.sessions_page(),
            editor.delete(session),
            editor.connection.request(v1.SESSION_ARCHIVE, v1.ArchiveSessionRequest(session_id=session)),
            editor.connection.request(v1.SESSION_STATUS, v1.SessionStatusRequest(session_id=session)),
            editor.connection.request(v1.SESSION_SET_TITLE, v1.SetSessionTitleRequest(session_id=session, title="t")),
        ):
            with pytest.raises(AuthenticationRequired):
                await refused

        await login(editor)
        assert (await editor.prompt(session, "hi")).stop_reason == "end_turn"  # the session itself lived on
        await editor.close(session)


@pytest.mark.rule(36)
async def test_terminal_methods_are_shown_only_to_clients_that_can_run_them(tmp_path: Path) -> None:
    async with editor_for(guarded_agent(), tmp_path, judged=True) as editor:
        assert [method.id for method in editor.hello.auth_methods] == ["key", "broken"]
    async with editor_for(guarded_agent(), tmp_path, judged=True, auth=v1.AuthCapabilities(terminal=True)) as editor:
        key, _, wizard = editor.hello.auth_methods
        assert key == v1.AuthMethodAgent(
            id="key", name="With a key", description="From your account", meta={"icon": "key"}
        )
        assert wizard == v1.AuthMethodTerminal(
            id="wizard", name="In a terminal", args=["--login"], env={"A": "1"}, meta={"icon": "terminal"}
        )


@pytest.mark.rule(43)
@pytest.mark.parametrize("method", ["nope", "", "wizard"])
async def test_an_unknown_method_or_one_for_a_terminal_is_rejected(tmp_path: Path, method: str) -> None:
    async with asyncio.timeout(5), editor_for(guarded_agent(), tmp_path, **EVERYTHING) as editor:
        with pytest.raises(InvalidParams, match="known: key, broken"):
            await login(editor, method)


async def test_a_failed_login_says_why_and_lets_no_client_in(tmp_path: Path) -> None:
    async with asyncio.timeout(5), editor_for(guarded_agent(), tmp_path) as editor:
        with pytest.raises(RequestError, match="the key is wrong") as caught:
            await login(editor, "broken")
        assert (caught.value.code, caught.value.data) == (1234, {"why": "expired"})
        with pytest.raises(AuthenticationRequired):
            await editor.new()
        await login(editor)  # the connection stays, so another login can be tried
        await editor.new()


async def test_auth_status_reports_the_login_and_each_change_once(tmp_path: Path) -> None:
    agent = guarded_agent()
    states: list[str] = ["unauthenticated"]

    @agent.on_login_status
    async def status() -> AuthStatus:
        accounts = [Account(label="me", active=True, email="me@example.com", meta={"a": 1})]
        return AuthStatus(state=states[-1], accounts=accounts if states[-1] == "authenticated" else [])

    heard: list[v1.AuthStatusUpdateNotification] = []
    async with asyncio.timeout(5), editor_for(agent, tmp_path, judged=True) as editor:

        @editor.handlers.on(v1.AUTH_STATUS_UPDATE)
        async def hear(context: Context, params: v1.AuthStatusUpdateNotification) -> None:
            heard.append(params)

        asked = await editor.connection.request(v1.AUTH_STATUS, v1.AuthStatusRequest())
        assert asked == v1.AuthStatusResponse(state="unauthenticated")
        with pytest.raises(AuthenticationRequired):
            await editor.new()

        states.append("authenticated")
        await editor.new()  # the author's own word counts, however the login came about
        await login(editor)
        await login(editor)
        account = v1.AuthAccount(label="me", active=True, email="me@example.com", meta={"a": 1})
        assert heard == [v1.AuthStatusUpdateNotification(state="authenticated", accounts=[account])]

        states.append("unauthenticated")
        await editor.connection.request(v1.LOGOUT, v1.LogoutRequest())
        assert heard[-1].state == "unauthenticated"


@pytest.mark.parametrize("told", ["raise", "unknown", "not_required"])
async def test_auth_status_never_answers_with_log_in_first(tmp_path: Path, told: str) -> None:
    agent = guarded_agent()

    @agent.on_login_status
    async def status() -> str:
        if told == "raise":
            raise AuthenticationRequired("log in")
        return told

    async with asyncio.timeout(5), editor_for(agent, tmp_path, judged=True) as editor:
        answer = await editor.connection.request(v1.AUTH_STATUS, v1.AuthStatusRequest())
        assert answer.state == ("unauthenticated" if told == "raise" else told)
        if told == "not_required":
            await editor.new()
        else:
            with pytest.raises(AuthenticationRequired):
                await editor.new()


async def test_one_client_that_logged_in_does_not_let_others_in(tmp_path: Path) -> None:
    agent = guarded_agent()
    async with asyncio.timeout(5), editor_for(agent, tmp_path) as mine, editor_for(agent, tmp_path) as other:
        await login(mine)
        await mine.new()
        with pytest.raises(AuthenticationRequired):
            await other.new()
