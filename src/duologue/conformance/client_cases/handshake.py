"""Cases about `initialize`: versions, capabilities and logins that the played agent answers with."""

from __future__ import annotations

from collections.abc import Callable

from duologue.conformance.case import CaseEnded, CaseSkipped, CheckCase, NotProvoked, case
from duologue.conformance.client_cases.messages import go_on
from duologue.conformance.client_cases.prompts import AUTH_REQUIRED, is_alive_or_ended
from duologue.conformance.client_side.checked_client import ClientCaseRun
from duologue.conformance.client_side.endpoints import LOGIN_ARGUMENT, StdioEndpoint
from duologue.conformance.client_side.first_event import first_event
from duologue.conformance.client_side.played_agent import PlayedAgent
from duologue.conformance.raw_peer import Json, PeerFailed, ReceivedMessage
from duologue.conformance.verdicts import RuleVerdict

UNKNOWN_VERSION = 99
LOGIN_VALUE = "value of the login"


@case("unknown-version", 28, is_passive=False)
async def unknown_version(run: ClientCaseRun) -> None:
    """Answer `initialize` with an unknown version."""

    def prepare(agent: PlayedAgent) -> None:
        agent.result = {"protocolVersion": UNKNOWN_VERSION}

    async with run.connect(prepare=prepare, negotiates=False) as agent:
        with run.judging(28):
            await agent.peer.wait_for(lambda each: each.method == "initialize", "the start of the agent")
        if not await run.ended(agent.peer):
            message = f"the client goes on with version {UNKNOWN_VERSION}, or waits"
        else:
            message = f"the client goes on with version {UNKNOWN_VERSION}"
        later = [each for each in agent.peer.received if each.method and each.method != "initialize"]
        is_ended = agent.peer.ended.is_set() or run.client is None or run.client.exit_code is not None
        run.expect(28, is_ended and not later, message, *later[:1])


@case("no-capabilities", 156)
async def no_capabilities(run: ClientCaseRun) -> None:
    """Advertise nothing that an agent may leave out."""
    await _prompted_with(run, {} if run.version == 1 else {"session": {}})


@case("odd-capabilities", 156, is_passive=False)
async def odd_capabilities(run: ClientCaseRun) -> None:
    """Advertise unknown capabilities, nulls and values of the wrong type."""
    if run.version == 1:
        odd: Json = {
            "loadSession": None,
            "promptCapabilities": "all",
            "mcpCapabilities": {"http": True, "acp": "x"},
            "sessionCapabilities": {"list": None, "close": {}, "zzz": {}},
            "_zzz": True,
        }
    else:
        odd = {"session": {"delete": None, "prompt": {"image": None, "zzz": {}}, "mcp": {"stdio": {}}}, "_zzz": {}}
    await _prompted_with(run, odd)


async def _prompted_with(run: ClientCaseRun, capabilities: Json) -> None:
    if run.facts.opened_by not in ("session/new", ""):
        raise CaseSkipped(f"the client opens its session with {run.facts.opened_by}, which the agent then must offer")
    with run.judging(156):
        async with run.turn(capabilities) as turn:
            await go_on(turn)
            run.expect(156, True, "")


def _locked(methods: list[Json]) -> Callable[[PlayedAgent], None]:
    """Return what makes an agent demand a login by one of these methods."""

    async def refuse(_: ReceivedMessage) -> Json:
        return {"error": {"code": AUTH_REQUIRED, "message": "Authentication required"}}

    def prepare(agent: PlayedAgent) -> None:
        agent.result = {"authMethods": methods}
        for method in ("session/new", "session/load", "session/resume"):
            agent.peer.responders[method] = refuse

    return prepare


async def _refused(agent: PlayedAgent) -> None:
    """Wait until the client has tried to open a session."""
    await agent.peer.wait_for(lambda each: each.method.startswith("session/"), "a session")


@case("login-without-methods", 139, versions=(2,))
async def login_without_methods(run: ClientCaseRun) -> None:
    """Demand a login, but advertise no method for it."""
    async with run.connect(prepare=_locked([])) as agent:
        await _refused(agent)
        with run.judging(139):
            if not await is_alive_or_ended(run, agent.peer):
                raise PeerFailed("the client hangs after the error -32000")
        called = [each for each in agent.peer.received if each.method.startswith("auth/")]
        run.expect(139, not called, "the client calls a method of a login that was not advertised", *called)


@case("terminal-login", 37, 38, transports=("stdio",))
async def terminal_login(run: ClientCaseRun) -> None:
    """Demand a login that runs the agent's program in a terminal."""
    env = {"DUOLOGUE_CHECK_LOGIN": LOGIN_VALUE}
    method: Json = {"type": "terminal", "name": "Log in", "args": [LOGIN_ARGUMENT]}
    if run.version == 1:
        method |= {"id": "terminal-login", "env": env}
    else:
        method |= {"methodId": "terminal-login", "env": [{"name": name, "value": env[name]} for name in env]}
    async with run.connect(prepare=_locked([method])) as agent:
        if not agent.client_has("auth", "terminal"):
            raise CaseSkipped("the client does not advertise auth.terminal")
        await _refused(agent)
        run.say("log in with the method that is offered")
        started = await _login(run, agent)
        called = [each for each in agent.peer.received if each.params.get("methodId") == "terminal-login"]
        run.expect(37, not called, "the client sends the method of a terminal login to the agent", *called)
        if started is None:
            reason = "the client did not run the login; choose the method in its terminal or its settings"
            run.judge(38, RuleVerdict.NOT_OBSERVED, reason)
            raise CaseEnded
        got = (started.get("arguments"), started.get("env"))
        run.expect(38, got == ([LOGIN_ARGUMENT], env), f"the program got the arguments and variables {got}")
        await _expect_reconnection(run)


async def _expect_reconnection(run: ClientCaseRun) -> None:
    """Expect a new connection after the login, and let the client work there."""
    try:
        async with run.reconnected() as agent:
            turn = await run.prompted(agent)
            turn.end()
    except (NotProvoked, PeerFailed) as error:
        run.expect(38, False, f"no new connection with a prompt follows the login: {error}")


async def _login(run: ClientCaseRun, agent: PlayedAgent) -> Json | None:
    """Wait until the client runs the login or ends; return how it started the program."""
    endpoint = run.endpoint
    if not isinstance(endpoint, StdioEndpoint):
        raise NotProvoked("only a client that starts the agent can run its login")
    return await first_event(endpoint.logins.get(), run.ended(agent.peer), run.limit, run.login_timeout)


CASES: tuple[CheckCase[ClientCaseRun], ...] = (
    unknown_version,
    no_capabilities,
    odd_capabilities,
    login_without_methods,
    terminal_login,
)
