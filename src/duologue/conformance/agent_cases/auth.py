"""Cases about logging in, and about methods whose capability is advertised."""

from __future__ import annotations

from duologue.conformance.agent_driver import V1_CAPABILITIES, V2_CAPABILITIES, DrivenAgent
from duologue.conformance.case import CaseSkipped, CheckCase, NotProvoked, case
from duologue.conformance.checked_agent import AgentRun, describe
from duologue.conformance.raw_peer import Json

METHOD_NOT_FOUND, INVALID_PARAMS, AUTH_REQUIRED = -32601, -32602, -32000
UNKNOWN_METHOD = "duologue-check-unknown"
UNKNOWN_SESSION = "duologue-check-unknown"
PROBED_BY_SESSION = ("load", "resume", "close", "delete", "fork", "archive", "unarchive", "status", "set_title")
CAPABILITY_OF = {"unarchive": "archive", "set_title": "title"}
"""Methods of `session/` whose capability has another name."""


def _terminal_methods(agent: DrivenAgent) -> list[Json]:
    return [each for each in agent.auth_methods if each.get("type") == "terminal"]


@case("terminal-login", 36)
async def terminal_login(run: AgentRun) -> None:
    """Ask for login methods as a client with terminal logins and as one without."""
    everything = V1_CAPABILITIES if run.version == 1 else V2_CAPABILITIES
    async with run.connect({**everything, "auth": {"terminal": True if run.version == 1 else {}}}) as agent:
        offered = _terminal_methods(agent)
    async with run.connect() as agent:
        methods = _terminal_methods(agent)
        if not offered and not methods:
            raise CaseSkipped("the agent has no login in a terminal")
        message = f"the client did not advertise auth.terminal, and got {methods}"
        run.expect(36, not methods, message, *([agent.initialized] if agent.initialized else []))


@case("login", 40, 41, 43, 139)
async def login(run: AgentRun) -> None:
    """Open a session without a login, log in with a method that does not exist, and with one that does."""
    async with run.connect() as agent:
        if not agent.auth_methods:
            run.skip(139, "the agent has no login methods; see the case login-without-methods")
            raise CaseSkipped("the agent has no login methods")
        with run.judging(43):
            response = await agent.log_in(UNKNOWN_METHOD)
        run.expect_error(43, response, "a login with an unknown method", INVALID_PARAMS)
        is_there = response.code != METHOD_NOT_FOUND
        run.expect(139, is_there, f"there are login methods, but no auth/login: got {describe(response)}", response)
        response = await agent.peer.request("session/new", agent.session_params())
        if "result" in response.message:
            run.skip(40, "the agent needs no login")
        else:
            run.expect_error(40, response, "session/new without a login", AUTH_REQUIRED)
        await _log_in(run, agent)


async def _log_in(run: AgentRun, agent: DrivenAgent) -> None:
    if not agent.login_method:
        raise NotProvoked("no login is tried, as it may open a browser; name one that asks nothing in a profile: login")
    with run.judging(41):
        response = await agent.log_in(agent.login_method)
        if response.error:
            raise NotProvoked(f"the login failed: {describe(response)}")
        response = await agent.peer.request("session/new", agent.session_params())
    is_met = response.code != AUTH_REQUIRED
    run.expect(41, is_met, f"session/new after a successful login: got {describe(response)}", response)
    if run.version == 2:
        response = await agent.peer.request("auth/logout", {})
        is_there = response.code != METHOD_NOT_FOUND
        run.expect(139, is_there, f"there are login methods, but no auth/logout: got {describe(response)}", response)


@case("login-without-methods", 139, versions=(2,), is_passive=False)
async def login_without_methods(run: AgentRun) -> None:
    """Call auth/login although the agent has no login methods."""
    async with run.connect() as agent:
        if agent.auth_methods:
            raise CaseSkipped("the agent has login methods; see the case login")
        with run.judging(139):
            response = await agent.log_in(UNKNOWN_METHOD)
        run.expect_error(139, response, "auth/login without login methods", METHOD_NOT_FOUND)


@case("advertised-methods", 140, 188)
async def advertised_methods(run: AgentRun) -> None:
    """Call every method whose capability is advertised, for a session that does not exist."""
    async with run.connect() as agent:
        await agent.new_session()
        if run.version == 2:
            agent.require("session")
            for name in ("list", "resume", "close"):
                await _expect_method(run, 140, agent, f"session/{name}", _probe_params(agent, name))
        names = ["list", *PROBED_BY_SESSION]
        for name in (each for each in names if agent.has_session_method(CAPABILITY_OF.get(each, each))):
            if run.version == 1 or name not in ("list", "resume", "close"):
                await _expect_method(run, 188, agent, f"session/{name}", _probe_params(agent, name))
        if agent.has("providers"):
            await _expect_method(run, 188, agent, "providers/list", {})
        if agent.has("auth", "status"):
            await _expect_method(run, 188, agent, "auth/status", {})


def _probe_params(agent: DrivenAgent, name: str) -> Json:
    if name == "list":
        return {}
    params: Json = {"sessionId": UNKNOWN_SESSION}
    if name in ("load", "resume", "fork"):
        params |= agent.session_params()
    return params | {"title": "a title"} if name == "set_title" else params


async def _expect_method(run: AgentRun, rule: int, agent: DrivenAgent, method: str, params: Json) -> None:
    with run.judging(rule):
        response = await agent.peer.request(method, params)
    is_met = response.code != METHOD_NOT_FOUND
    run.expect(rule, is_met, f"{method} is advertised: got {describe(response)}", response)


CASES: tuple[CheckCase[AgentRun], ...] = (terminal_login, login, login_without_methods, advertised_methods)
