"""Cases about sessions: their settings, and their end."""

from __future__ import annotations

from duologue.conformance.case import CheckCase, NotProvoked, case
from duologue.conformance.client_cases.messages import go_on
from duologue.conformance.client_side.checked_client import ClientCaseRun
from duologue.conformance.client_side.played_agent import PlayedAgent
from duologue.conformance.raw_peer import Json, ReceivedMessage, Responder

NOT_FOUND = -32002


@case("unknown-settings", 123, is_passive=False)
async def unknown_settings(run: ClientCaseRun) -> None:
    """Offer settings of unknown types and categories."""
    key = "id" if run.version == 1 else "configId"
    speeds = [{"value": "fast", "name": "Fast"}, {"value": "slow", "name": "Slow"}]
    options: list[Json] = [
        {key: "dial", "name": "Dial", "type": "_dial", "currentValue": 7, "range": [0, 9]},
        {
            key: "speed",
            "name": "Speed",
            "type": "select",
            "category": "zzz",
            "currentValue": "fast",
            "options": speeds,
        },
        {key: "later", "name": "Later", "type": "zzz", "currentValue": {"any": []}},
    ]

    def prepare(agent: PlayedAgent) -> None:
        agent.setup = {"configOptions": options}

    with run.judging(123):
        async with run.turn(prepare=prepare) as turn:
            turn.update_invalid("config_option_update", configOptions=options)
            await go_on(turn)
            run.expect(123, True, "")


@case("unknown-session-closed", 64)
async def unknown_session_closed(run: ClientCaseRun) -> None:
    """Answer `session/close` and `session/delete` with the error that the session is not known."""
    closed: list[ReceivedMessage] = []

    async def accept(request: ReceivedMessage) -> Json:
        closed.append(request)
        return {"result": {}}

    async def refuse(request: ReceivedMessage) -> Json:
        data = {"sessionId": request.params.get("sessionId")}
        return {"error": {"code": NOT_FOUND, "message": "Resource not found", "data": data}}

    expected = await _close(run, accept)
    if not closed:
        raise NotProvoked("the client closed or deleted no session; let it do so before it ends")
    with run.judging(64):
        code = await _close(run, refuse)
    message = f"after -32002 to {closed[0].method} the client exits with {code}, otherwise with {expected}"
    run.expect(64, code == expected, message)


async def _close(run: ClientCaseRun, responder: Responder) -> int | None:
    """Play a turn, answer the closing of its session, and return the client's exit code."""

    def prepare(agent: PlayedAgent) -> None:
        agent.peer.responders["session/close"] = agent.peer.responders["session/delete"] = responder

    async with run.turn(prepare=prepare) as turn:
        turn.say("hello")
        turn.end()
        run.say("close the conversation")
        if not await run.ended(turn.peer):
            await go_on(turn)
    return None if run.client is None else run.client.exit_code


CASES: tuple[CheckCase[ClientCaseRun], ...] = (unknown_settings, unknown_session_closed)
