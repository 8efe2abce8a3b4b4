"""Cases about JSON-RPC: what is not a message, unknown methods, ids, unknown fields."""

from __future__ import annotations

import msgspec

from duologue.conformance.agent_driver import DrivenAgent
from duologue.conformance.case import CaseSkipped, CheckCase, case
from duologue.conformance.checked_agent import AgentRun, describe
from duologue.conformance.raw_peer import BARRIER, Json, PeerFailed, ReceivedMessage

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, AUTH_REQUIRED = -32700, -32600, -32601, -32602, -32000
GARBAGE = (b"this is not JSON", b'{"jsonrpc": "2.0", "id": 1, "method":')
NO_MESSAGES = (b"5", b"{}", b'{"jsonrpc": "2.0", "id": 501, "method": 7}')
IDS: tuple[int | str, ...] = (0, 7, -3, "a", "7", "")
STRAY_RESPONSES: tuple[Json, ...] = (
    {"id": 987_654, "result": {}},
    {"id": "never-sent", "error": {"code": -32603, "message": "none"}},
)
UNKNOWN_NOTIFICATIONS = ("_duologue/unknown", "duologue/unknown")
MALFORMED_CANCELS: tuple[object, ...] = ([], {}, {"sessionId": 5})
"""Parameters of `session/cancel`; were they neither an object nor an array, -32600 would be the right answer."""
META: tuple[object, ...] = (5, "text", [], {"duologue.check/unknown": {"mode": "delete everything"}})


def _responses_after(agent: DrivenAgent, position: int) -> list[ReceivedMessage]:
    """Return the responses since then, without those to barriers."""
    return [
        each
        for each in agent.peer.received[position:]
        if (each.is_response or not each.message) and each.message.get("id") not in agent.peer.barriers
    ]


@case("response-ids", 7, 13)
async def response_ids(run: AgentRun) -> None:
    """Send requests of unknown methods whose ids are numbers and strings, among them 0 and the empty string."""
    async with run.connect() as agent:
        for method in ("_duologue/unknown", "duologue/unknown"):
            with run.judging(13):
                response = await agent.peer.request(method, {})
            run.expect_error(13, response, f"{method} does not exist", METHOD_NOT_FOUND)
        for id_ in IDS:
            agent.peer.send({"id": id_, "method": "_duologue/unknown", "params": {}})
            with run.judging(7):
                await agent.peer.response(id_, f"the request with the id {id_!r}")
        run.expect(7, True, "")


async def _expect_refusal(
    run: AgentRun, rule: int, agent: DrivenAgent, line: bytes, *codes: int, id_: int | None = None, what: str = ""
) -> bool:
    """Send a line and pass the rule if the agent refuses it, with the id null or this one, and still answers."""
    position = len(agent.peer.received)
    number = agent.peer.send_raw(line)
    text = what or line.decode()

    def is_refusal(each: ReceivedMessage) -> bool:
        return each.code in codes and each.message.get("id", 0) in (None, id_)

    try:
        await agent.peer.wait_for(is_refusal, text, position)
    except PeerFailed as error:
        answers = _responses_after(agent, position)
        got = ", ".join(map(describe, answers)) or str(error)
        wanted = f"the error {' or '.join(map(str, codes))} with the id null"
        return run.expect(rule, False, f"{text}: expected {wanted}, got {got}", number, *answers)
    return await run.expect_alive(rule, agent, f"after {text}")


@case("parse-error", 10, is_passive=False)
async def parse_error(run: AgentRun) -> None:
    """Send lines that are not JSON."""
    codes = (PARSE_ERROR, INVALID_REQUEST) if run.agent.transport == "http" else (PARSE_ERROR,)
    async with run.connect() as agent:
        for line in GARBAGE:
            if not await _expect_refusal(run, 10, agent, line, *codes):
                return


@case("invalid-request", 11, is_passive=False)
async def invalid_request(run: AgentRun) -> None:
    """Send JSON that is not a message: a number, an empty object, a method that is a number."""
    async with run.connect() as agent:
        for line in NO_MESSAGES:
            if not await _expect_refusal(run, 11, agent, line, INVALID_REQUEST, id_=501):
                return


@case("batch", 12, is_passive=False)
async def batch(run: AgentRun) -> None:
    """Send a batch, which has requests in it, and an empty one."""
    request: Json = {"jsonrpc": "2.0", "id": 901, "method": BARRIER, "params": {}}
    async with run.connect() as agent:
        for what, line in (
            ("a batch of two requests", msgspec.json.encode([request, request | {"id": 902}])),
            ("an empty batch", b"[]"),
        ):
            position = len(agent.peer.received)
            if not await _expect_refusal(run, 12, agent, line, INVALID_REQUEST, what=what):
                return
            answers = _responses_after(agent, position)
            got = ", ".join(map(describe, answers))
            run.expect(12, len(answers) == 1, f"{what}: expected one error and nothing else, got {got}", *answers)


@case("notifications", 9, 14, is_passive=False)
async def notifications(run: AgentRun) -> None:
    """Send notifications that are unknown, and one that is malformed; neither gets a response."""
    async with run.connect() as agent:
        for method in UNKNOWN_NOTIFICATIONS:
            position = len(agent.peer.received)
            agent.peer.send_invalid({"method": method, "params": {}})
            if not await run.expect_alive(14, agent, f"after the notification {method}"):
                return
            answers = _responses_after(agent, position)
            message = f"the notification {method} got a response: {', '.join(map(describe, answers))}"
            run.expect(14, not answers, message, *answers)
            run.expect(9, not answers, message, *answers)
        for params in MALFORMED_CANCELS:
            position = len(agent.peer.received)
            agent.peer.send_invalid({"method": "session/cancel", "params": params})
            if not await run.expect_alive(9, agent, "after a malformed session/cancel"):
                return
            answers = _responses_after(agent, position)
            message = f"a malformed notification got a response: {', '.join(map(describe, answers))}"
            run.expect(9, not answers, message, *answers)


@case("malformed-params", 15, is_passive=False)
async def malformed_params(run: AgentRun) -> None:
    """Send session/new without a directory, with one that is a number, and session/prompt without a session."""
    requests: list[tuple[str, object]] = [("session/new", {"mcpServers": []}), ("session/new", {"cwd": 5})]
    if run.agent.transport != "http":  # a server routes by the session, and refuses what names none
        requests.append(("session/prompt", {"prompt": [{"type": "text", "text": "hello"}]}))
    async with run.connect() as agent:
        await agent.new_session()
        for method, params in requests:
            id_ = agent.peer.next_id()
            agent.peer.send_invalid({"id": id_, "method": method, "params": params})
            with run.judging(15):
                response = await agent.peer.response(id_, f"{method} with malformed parameters")
            if response.code == AUTH_REQUIRED:
                raise CaseSkipped("the agent requires a login before it looks at parameters")
            run.expect_error(15, response, f"{method} with {params}", INVALID_PARAMS)


@case("stray-responses", 16, 85)
async def stray_responses(run: AgentRun) -> None:
    """Send responses to requests that the agent never sent, and cancel a request that does not exist."""
    async with run.connect() as agent:
        position = len(agent.peer.received)
        for message in STRAY_RESPONSES:
            agent.peer.send_raw(msgspec.json.encode({"jsonrpc": "2.0", **message}))
        if await run.expect_alive(16, agent, "after a response to no request"):
            answers = _responses_after(agent, position)
            run.expect(16, not answers, f"a stray response got {', '.join(map(describe, answers))}", *answers)
        position = len(agent.peer.received)
        for id_ in (987_654, "never-sent"):
            agent.peer.notify("$/cancel_request", {"requestId": id_})
        if await run.expect_alive(85, agent, "after $/cancel_request with an unknown id"):
            answers = _responses_after(agent, position)
            run.expect(85, not answers, f"$/cancel_request got {', '.join(map(describe, answers))}", *answers)


@case("null-id", 176, is_passive=False)
async def null_id(run: AgentRun) -> None:
    """Send a request whose id is null."""
    async with run.connect() as agent:
        position = len(agent.peer.received)
        agent.peer.send_invalid({"id": None, "method": BARRIER, "params": {}})
        with run.judging(176):
            await agent.peer.wait_for(
                lambda each: each.is_response and each.message["id"] is None, "a request with the id null", position
            )
        await run.expect_alive(176, agent, "after a request with the id null")


@case("unknown-fields", 20, 21, is_passive=False)
async def unknown_fields(run: AgentRun) -> None:
    """Send fields that the schema does not have, unknown keys of _meta, and a _meta that is no object."""
    async with run.connect() as agent:
        session = await agent.new_session()
        extra = {"zzz": {"deep": [1, None, "x"]}, "yyy": None}
        await _expect_opened(run, 20, agent, agent.session_params(**extra), "unknown fields in session/new")
        prompt = [{"type": "text", "text": run.prompt("answer"), **extra}]
        await _expect_inserted(run, 20, agent, {"sessionId": session, "prompt": prompt, **extra}, "unknown fields")
        for meta in META:
            params = agent.session_params(_meta=meta)
            if not await _expect_opened(run, 21, agent, params, f"session/new with _meta {meta}"):
                return
        block = {"type": "text", "text": run.prompt("answer"), "_meta": 5}
        await _expect_inserted(run, 21, agent, {"sessionId": session, "prompt": [block], "_meta": 7}, "_meta: 7")


async def _expect_opened(run: AgentRun, rule: int, agent: DrivenAgent, params: dict[str, object], what: str) -> bool:
    id_ = agent.peer.next_id()
    agent.peer.send_invalid({"id": id_, "method": "session/new", "params": params})
    with run.judging(rule):
        response = await agent.peer.response(id_, what)
    return run.expect_result(rule, response, what)


async def _expect_inserted(run: AgentRun, rule: int, agent: DrivenAgent, params: dict[str, object], what: str) -> None:
    """Send a prompt with something unknown in it; only a refusal of its parameters breaks the rule."""
    id_ = agent.peer.next_id()
    agent.peer.send_invalid({"id": id_, "method": "session/prompt", "params": params})
    with run.judging(rule):
        response = await agent.peer.response(id_, what)
    is_refused = response.code in (INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR)
    run.expect(rule, not is_refused, f"a prompt with {what}: got {describe(response)}", response)


CASES: tuple[CheckCase[AgentRun], ...] = (
    response_ids,
    parse_error,
    invalid_request,
    batch,
    notifications,
    malformed_params,
    stray_responses,
    null_id,
    unknown_fields,
)
