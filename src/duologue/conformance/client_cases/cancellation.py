"""Cases about cancelling: turns by the client, requests by the agent."""

from __future__ import annotations

from duologue.conformance.case import CheckCase, case
from duologue.conformance.client_cases.messages import describe, go_on
from duologue.conformance.client_side.checked_client import ClientCaseRun
from duologue.conformance.client_side.played_turn import CheckedTurn
from duologue.conformance.raw_peer import ReceivedMessage
from duologue.conformance.verdicts import RuleVerdict

CANCELLED = -32800


@case("cancelled-turn", 79, 80)
async def cancelled_turn(run: ClientCaseRun) -> None:
    """Let the client cancel a turn in which a permission request is open, then send late updates."""
    async with run.turn(cancels=True) as turn:
        turn.say("working")
        before = turn.ask_permission()
        await go_on(turn)
        is_open = not _answered(turn, before)
        await run.cancelled(turn)
        if run.version == 1:
            await _judge_permission(run, turn, before if is_open else None)
        with run.judging(80):
            tool = turn.begin_tool()
            turn.update("tool_call_update", toolCallId=tool, status="completed")
            turn.say("late")
            await go_on(turn)
            run.expect(80, True, "")
        turn.end("cancelled")


async def _judge_permission(run: ClientCaseRun, turn: CheckedTurn, open_request: int | None) -> None:
    """Judge the answer to a request that was open when the client cancelled, or else to one that crosses it."""
    with run.judging(79):
        id_ = turn.ask_permission() if open_request is None else open_request
        answer = await turn.peer.response(id_, "a permission request of the cancelled turn")
    outcome = answer.result.get("outcome")
    is_cancelled = outcome == {"outcome": "cancelled"} or answer.code == CANCELLED
    if open_request is None and not is_cancelled:
        reason = "the client answers permission requests at once, so that none was open when it cancelled"
        run.judge(79, RuleVerdict.NOT_OBSERVED, f"{reason}; name one that asks its user with --cancel-command", answer)
    else:
        run.expect(79, is_cancelled, f"the permission request is answered with {describe(answer)}", answer)


def _answered(turn: CheckedTurn, id_: int) -> list[ReceivedMessage]:
    return [each for each in turn.peer.received if each.is_response and each.message["id"] == id_]


@case("cancelled-request", 84)
async def cancelled_request(run: ClientCaseRun) -> None:
    """Cancel requests of the agent; they are answered all the same."""
    async with run.turn() as turn:
        id_ = turn.ask_permission()
        turn.peer.notify("$/cancel_request", {"requestId": id_})
        with run.judging(84):
            run.expect(84, await turn.peer.response(id_, "a request that was cancelled"), "")


CASES: tuple[CheckCase[ClientCaseRun], ...] = (cancelled_turn, cancelled_request)
