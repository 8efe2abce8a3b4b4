"""Cases about `initialize`: versions, capabilities, and what may come before and after it."""

from __future__ import annotations

from duologue.conformance.agent_driver import DrivenAgent
from duologue.conformance.case import CaseSkipped, CheckCase, NotProvoked, case
from duologue.conformance.checked_agent import AgentRun, describe
from duologue.conformance.raw_peer import Json, PeerFailed, ReceivedMessage

INVALID_REQUEST, METHOD_NOT_FOUND, NO_SESSION, UNSUPPORTED_VERSION = -32600, -32601, -32002, -32022
HIGHEST = 65535
V1_MALFORMED: Json = {"fs": "x", "terminal": 5, "session": [], "elicitation": {"form": 7}, "auth": "no"}
V2_MALFORMED: Json = {"elicitation": 5, "auth": "no"}
V1_COMBINATIONS: tuple[Json | None, ...] = (
    None,
    {},
    {"fs": {"readTextFile": True}, "elicitation": {}},
)
V2_COMBINATIONS: tuple[Json | None, ...] = (None, {}, {"elicitation": {"url": {}}})


async def _ask(run: AgentRun, rule: int, version: int) -> ReceivedMessage:
    """Connect anew and return the response to `initialize` with a version."""
    async with run.connect(initialize=False) as agent:
        with run.judging(rule):
            return await agent.peer.request("initialize", agent.initialize_params(version=version))


async def _skip_older(run: AgentRun, rule: int) -> None:
    """Skip the case if the agent has only version 1: it answers so to version 2 and to one that does not exist.

    Raises:
        CaseSkipped: It has only version 1.
    """
    for requested in (2, 9):
        response = await _ask(run, rule, requested)
        if response.result.get("protocolVersion") != 1:
            return
    raise CaseSkipped("the agent has only version 1")


@case("version-supported", 26)
async def supported_version(run: AgentRun) -> None:
    """Request a version that the agent supports."""
    if run.version == 2:
        await _skip_older(run, 26)
    response = await _ask(run, 26, run.version)
    version = response.result.get("protocolVersion")
    message = f"version {run.version} was requested, and the answer has {version!r}"
    run.expect(26, version == run.version, message, response)


@case("version-unsupported", 27, 174, versions=(1,))
async def unsupported_version(run: AgentRun) -> None:
    """Request versions that do not exist: 99, 65535 and 0."""
    latest = await _ask(run, 27, 99)
    chosen = latest.result.get("protocolVersion")
    run.expect(27, chosen in (1, 2), f"version 99: expected the agent's latest version, got {describe(latest)}", latest)
    highest = await _ask(run, 174, HIGHEST)
    is_same_answer = highest.result.get("protocolVersion") in (1, 2)
    run.expect(
        174, is_same_answer, f"version {HIGHEST}: expected a version that exists, got {describe(highest)}", highest
    )
    zero = await _ask(run, 27, 0)
    is_refused = zero.code == UNSUPPORTED_VERSION and chosen == 2
    is_met = is_refused or zero.result.get("protocolVersion") in (1, 2)
    run.expect(27, is_met, f"version 0: expected the agent's latest version, got {describe(zero)}", zero)


@case("version-chosen", 137, 174, versions=(2,))
async def chosen_version(run: AgentRun) -> None:
    """Request versions 9 and 65535, for which the agent chooses a lower one, and 0, which is below all."""
    await _skip_older(run, 137)
    for rule, requested in ((137, 9), (174, HIGHEST)):
        response = await _ask(run, rule, requested)
        version = response.result.get("protocolVersion")
        is_met = isinstance(version, int) and 2 <= version < requested
        run.expect(rule, is_met, f"version {requested}: expected 2, got {describe(response)}", response)
    response = await _ask(run, 137, 0)
    run.expect_error(137, response, "version 0", UNSUPPORTED_VERSION)


@case("request-before-initialize", 31, is_passive=False)
async def request_before_initialize(run: AgentRun) -> None:
    """Send session/new before initialize."""
    async with run.connect(initialize=False) as agent:
        try:
            response = await agent.peer.request("session/new", agent.session_params())
        except PeerFailed as error:
            is_closed = run.agent.transport == "websocket" and agent.peer.ended.is_set()
            run.expect(31, is_closed, str(error))  # a server may close a connection that begins in another way
            return
        run.expect_error(31, response, "session/new before initialize", INVALID_REQUEST)


@case("malformed-capabilities", 32, is_passive=False)
async def malformed_capabilities(run: AgentRun) -> None:
    """Send initialize with malformed capabilities, which count as none."""
    async with run.connect(initialize=False) as agent:
        params = agent.initialize_params(V1_MALFORMED if run.version == 1 else V2_MALFORMED)
        id_ = agent.peer.next_id()
        agent.peer.send_invalid({"id": id_, "method": "initialize", "params": params})
        with run.judging(32):
            response = await agent.peer.response(id_, "initialize with malformed capabilities")
        if not run.expect_result(32, response, "initialize with malformed capabilities"):
            return
        if run.version == 1 and run.knows("read_file"):
            session = await agent.new_session()
            with run.judging(32):
                await agent.prompt(session, run.prompt("read_file"))
            used = _services_used(agent)
            if used and not await _uses_what_is_not_there(run):
                run.expect(32, False, "a malformed capability was taken as support", *used)


def _services_used(agent: DrivenAgent) -> list[ReceivedMessage]:
    return [each for each in agent.peer.received if each.method.startswith(("fs/", "terminal/"))]


async def _uses_what_is_not_there(run: AgentRun) -> bool:
    """Return True if the agent reads files of a client without capabilities, too: that breaks another rule."""
    async with run.session({}) as (agent, session):
        await agent.prompt(session, run.prompt("read_file"))
        return bool(_services_used(agent))


@case("second-initialize", 168, is_passive=False)
async def second_initialize(run: AgentRun) -> None:
    """Send initialize a second time; the session that was opened before lives on."""
    async with run.connect() as agent:
        session = await agent.new_session()
        with run.judging(168):
            await agent.peer.request("initialize", agent.initialize_params())
            turn = agent.start_prompt(session, run.prompt("answer"))
            response = await turn.response()
        is_lost = response.code in (NO_SESSION, INVALID_REQUEST)
        run.expect(168, not is_lost, f"a prompt after a second initialize: got {describe(response)}", response)


@case("any-capabilities", 156)
async def any_capabilities(run: AgentRun) -> None:
    """Work with clients of different capabilities, some without any."""
    async with run.session() as (agent, session):
        await run.act(agent, session, "answer")
    for offered in V1_COMBINATIONS if run.version == 1 else V2_COMBINATIONS:
        async with run.connect(initialize=False) as agent:
            params = agent.initialize_params({} if offered is None else offered)
            if offered is None:
                params.pop("clientCapabilities" if run.version == 1 else "capabilities")
            with run.judging(156):
                agent.initialized = await agent.peer.request("initialize", params)
                if not run.expect_result(156, agent.initialized, f"initialize of a client with {offered}"):
                    return
                response = await agent.open_session()
                if not run.expect_result(156, response, f"session/new of a client with {offered}"):
                    return
                end = await agent.prompt(str(response.result.get("sessionId")), run.prompt("answer"))
            run.expect_result(156, end.response, f"a prompt of a client with {offered}")


@case("baseline", 33, 34)
async def baseline(run: AgentRun) -> None:
    """Open a session, send text and a link to a file, and cancel when nothing runs."""
    async with run.connect() as agent:
        with run.judging(33):
            session = await agent.new_session()
            link = {"type": "resource_link", "name": "notes.txt", "uri": run.file.as_uri()}
            end = await agent.prompt(session, run.prompt("answer"), link)
            agent.cancel(session)
            await agent.peer.barrier()
        if not end.response.error:
            run.expect(34, True, "")
            run.expect(33, True, "")
        elif end.response.code == METHOD_NOT_FOUND:
            run.expect(33, False, "session/prompt does not exist", end.response)
        else:
            await _compare_without_link(run, agent, end.response)


async def _compare_without_link(run: AgentRun, agent: DrivenAgent, refused: ReceivedMessage) -> None:
    """Blame the link for the error only if the same prompt without it succeeds."""
    end = await agent.prompt(await agent.new_session(), run.prompt("answer"))
    if end.response.error:
        raise NotProvoked(f"the agent answers prompts with an error: {end.response.error}")
    run.expect(33, True, "")
    run.expect(34, False, f"a prompt with text and a resource link: got {describe(refused)}", refused)


CASES: tuple[CheckCase[AgentRun], ...] = (
    supported_version,
    unsupported_version,
    chosen_version,
    request_before_initialize,
    malformed_capabilities,
    second_initialize,
    any_capabilities,
    baseline,
)
