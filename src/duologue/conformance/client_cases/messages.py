"""Cases about single messages: unknown, malformed and unexpected ones, and ids of all kinds."""

from __future__ import annotations

from typing import Any

from duologue.conformance.case import CheckCase, case
from duologue.conformance.client_side.checked_client import ClientCaseRun
from duologue.conformance.client_side.played_agent import PlayedAgent
from duologue.conformance.client_side.played_turn import CheckedTurn
from duologue.conformance.raw_peer import BARRIER, Json, PeerFailed, RawPeer, ReceivedMessage

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
IDS: tuple[object, ...] = ("a", 0, 7, "7", "", 2**53 - 1, -5)
GRACE_SECONDS = 10.0
"""How long a response may follow the response to a later request."""
ROUNDS = 3
"""Requests that are answered after a message before it counts as read without harm."""


async def go_on(turn: CheckedTurn) -> None:
    """Prove that the client goes on: it answers several requests, one after the other.

    Raises:
        PeerFailed: It does not.
    """
    for _ in range(ROUNDS):
        await turn.peer.barrier()


@case("unknown-messages", 13, 14, 16, 9, 85, 87)
async def unknown_messages(run: ClientCaseRun) -> None:
    """Send requests, notifications, responses and cancellations that the client does not know."""
    async with run.turn() as turn:
        peer = turn.peer
        for method in ("_duologue/unknown", "unknown/method"):
            with run.judging(13):
                answer = await peer.answer_to(method, {"any": [1, None]})
            run.expect(13, answer.code == METHOD_NOT_FOUND, f"{method} is answered with {describe(answer)}", answer)
        begin = len(peer.received)
        with run.judging(14):
            peer.send_invalid({"method": "_duologue/unknown", "params": {"any": 1}})
            peer.send_invalid({"method": "unknown/method"})
            await go_on(turn)
            run.expect(14, True, "")
        with run.judging(9):
            peer.send_invalid({"method": "session/update", "params": {"sessionId": 5}})
            peer.send_invalid({"method": "session/update", "params": [1, 2]})
            await go_on(turn)
        unasked = peer.unasked(begin)
        run.expect(9, not unasked, f"a notification is answered: {describe(*unasked)}", *unasked)
        with run.judging(16):
            peer.send_invalid({"id": "never-asked", "result": {}})
            peer.send_invalid({"id": 987_654_321, "error": {"code": -32603, "message": "no request"}})
            await go_on(turn)
            run.expect(16, True, "")
        await _cancel_unknown(run, turn)


async def _cancel_unknown(run: ClientCaseRun, turn: CheckedTurn) -> None:
    peer, begin = turn.peer, len(turn.peer.received)
    with run.judging(85):
        for unknown in ("never-asked", 987_654_321):
            peer.notify("$/cancel_request", {"requestId": unknown})
        await go_on(turn)
    unasked = peer.unasked(begin)
    run.expect(85, not unasked, f"$/cancel_request with an unknown id is answered: {describe(*unasked)}", *unasked)
    with run.judging(87):
        peer.notify("$/cancel_request", {"requestId": turn.prompt.message["id"]})  # the client's own request
        await go_on(turn)
    cancelled = [each for each in peer.received[begin:] if each.method in ("session/cancel", "$/cancel_request")]
    run.expect(87, not cancelled, f"the client cancels its own prompt: {describe(*cancelled)}", *cancelled)


@case("request-ids", 7, 3)
async def request_ids(run: ClientCaseRun) -> None:
    """Send requests with ids of all kinds, one of them with a line break."""
    async with run.turn() as turn:
        peer = turn.peer
        for id_ in IDS:
            with run.judging(7):
                peer.send({"id": id_, "method": BARRIER, "params": {}})
                await peer.response(id_, f"a request with the id {id_!r}")
        run.expect(7, True, "")
        begin = len(peer.received)
        with run.judging(3):
            peer.send({"id": "line\nbreak", "method": BARRIER, "params": {}})
            await go_on(turn)
        broken = [each for each in peer.received[begin:] if each.text]
        run.expect(3, not broken, f"a line is not a message: {describe(*broken)}", *broken)


@case("invalid-messages", 10, 11, 12, is_passive=False)
async def invalid_messages(run: ClientCaseRun) -> None:
    """Send what is not a message: noise, incomplete JSON, other JSON, a batch."""
    async with run.turn() as turn:
        with run.judging(10):
            turn.peer.send_raw(b"npm warn deprecated something")  # many agents print; it only must do no harm
            turn.peer.send_raw(b'{"jsonrpc": "2.0", "id": 1, "method"')
            await _expect_error(run, turn, 10, PARSE_ERROR, "incomplete JSON")
        with run.judging(11):
            turn.peer.send_raw(b"5")
            turn.peer.send_raw(b"{}")
            await _expect_error(run, turn, 11, INVALID_REQUEST, "the object {}")
        with run.judging(12):
            begin = len(turn.peer.received)
            inner = b'{"jsonrpc":"2.0","id":"in-batch","method":"' + BARRIER.encode() + b'"}'
            turn.peer.send_raw(b"[" + inner + b"," + inner + b"]")
            await _expect_error(run, turn, 12, INVALID_REQUEST, "a batch")
        await go_on(turn)
        ran = [each for each in turn.peer.received[begin:] if each.message.get("id") == "in-batch" or each.text]
        if ran:
            run.expect(12, False, f"a request in a batch is answered: {describe(*ran)}", *ran)


async def _expect_error(run: ClientCaseRun, turn: CheckedTurn, rule: int, code: int, what: str) -> None:
    """Expect one more error without an id, which may follow the response to a later request."""
    peer: RawPeer = turn.peer
    known = [each for each in peer.received if each.is_response and each.message["id"] is None]
    await go_on(turn)
    try:
        answer = await peer.wait_for(
            lambda each: each.is_response and each.message["id"] is None and each not in known,
            what,
            seconds=peer.limit.at_most(GRACE_SECONDS),
        )
    except PeerFailed:
        if peer.ended.is_set():
            raise
        run.expect(rule, False, f"{what} is not answered; expected {code} with the id null")
        return
    run.expect(rule, answer.code == code, f"{what} is answered with {describe(answer)}; expected {code}", answer)


@case("malformed-params", 15)
async def malformed_params(run: ClientCaseRun) -> None:
    """Send requests whose params do not match the schema."""
    async with run.turn() as turn:
        good = turn.permission()
        bad: list[Json] = [{}, {**good, "options": "all"}, {name: good[name] for name in good if name != "sessionId"}]
        requests = [("session/request_permission", params) for params in bad]
        if turn.agent.client_has("fs", "readTextFile"):
            requests.append(("fs/read_text_file", {"sessionId": turn.session, "path": 5}))
        if turn.agent.version == 1 and turn.agent.client_has("terminal"):
            requests.append(("terminal/output", {"sessionId": turn.session}))
        for method, params in requests:
            with run.judging(15):
                answer = await turn.peer.answer_to(method, params)
            run.expect(15, answer.code == INVALID_PARAMS, f"{method} is answered with {describe(answer)}", answer)


def _with_unknown_fields(value: Any) -> Any:
    """Add an unknown field to every object."""
    if isinstance(value, dict):
        return {**{name: _with_unknown_fields(each) for name, each in value.items()}, "zzz": {"unknown": [True]}}  # pyright: ignore[reportUnknownVariableType]
    return [_with_unknown_fields(each) for each in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]


@case("unknown-fields", 20, is_passive=False)
async def unknown_fields(run: ClientCaseRun) -> None:
    """Add unknown fields to results, updates and requests."""

    def prepare(agent: PlayedAgent) -> None:
        agent.result = agent.setup = {"zzz": {"unknown": [True]}}

    with run.judging(20):
        async with run.turn(prepare=prepare) as turn:
            text = {"type": "text", "text": "hello"}
            turn.update_invalid("agent_message_chunk", **_with_unknown_fields({"content": text, "messageId": "m-1"}))
            if run.facts.answers_permission:
                params = _with_unknown_fields(turn.permission())
                answer = await turn.peer.answer_to("session/request_permission", params)
                run.expect(20, not answer.error, f"unknown fields are answered with {describe(answer)}", answer)
            await go_on(turn)
            run.expect(20, True, "")


@case("malformed-meta", 21, is_passive=False)
async def malformed_meta(run: ClientCaseRun) -> None:
    """Send `_meta` with unknown keys, and `_meta` that is not an object."""

    def prepare(agent: PlayedAgent) -> None:
        agent.result = agent.setup = {"_meta": {"duologue.example/unknown": [1, None]}}

    with run.judging(21):
        async with run.turn(prepare=prepare) as turn:
            for meta in ({"duologue.example/unknown": 1}, 5, "text", None):
                text = {"type": "text", "text": "hello", "_meta": meta}
                turn.update_invalid("agent_message_chunk", content=text, messageId="m-1", _meta=meta)
                if run.facts.answers_permission:
                    params = {**turn.permission(), "_meta": meta}
                    answer = await turn.peer.answer_to("session/request_permission", params)
                    run.expect(21, not answer.error, f"`_meta: {meta!r}` is answered with {describe(answer)}", answer)
            await go_on(turn)
            run.expect(21, True, "")


def describe(*messages: ReceivedMessage) -> str:
    """Describe messages in one line."""
    return ", ".join(
        f"the error {each.error.get('code')}" if each.error else str(each.text or each.message)[:200]
        for each in messages
    )


CASES: tuple[CheckCase[ClientCaseRun], ...] = (
    unknown_messages,
    request_ids,
    invalid_messages,
    malformed_params,
    unknown_fields,
    malformed_meta,
)
