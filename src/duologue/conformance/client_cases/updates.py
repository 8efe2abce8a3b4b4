"""Cases about session updates: unknown kinds and states, and known ones that are malformed."""

from __future__ import annotations

from duologue.conformance.case import CheckCase, case
from duologue.conformance.client_cases.messages import INVALID_PARAMS, describe, go_on
from duologue.conformance.client_side.checked_client import ClientCaseRun
from duologue.conformance.raw_peer import Json


@case("unknown-states", 147, versions=(2,))
async def unknown_states(run: ClientCaseRun) -> None:
    """Report an unknown state, and the same state twice."""
    async with run.turn() as turn:
        with run.judging(147):
            for state in ("_duologue_resting", "resting", "running", "running"):
                turn.update_invalid("state_update", state=state)
                await go_on(turn)
        later = [each for each in turn.peer.received if each.method in ("session/close", "session/cancel")]
        run.expect(147, not later, "the client takes an unknown state for the end of the turn", *later)


@case("known-kinds", 148, versions=(2,), is_passive=False)
async def known_kinds(run: ClientCaseRun) -> None:
    """Send a known kind with a malformed payload, and an unknown kind."""
    async with run.turn() as turn:
        params = turn.permission()
        bad: list[Json] = [
            {"type": "tool_call"},
            {"type": "command", "command": ["not", "text"], "cwd": "/"},
        ]
        for subject in bad:
            with run.judging(148):
                answer = await turn.peer.answer_to("session/request_permission", {**params, "subject": subject})
            message = f"the malformed subject {subject} is answered with {describe(answer)}; expected {INVALID_PARAMS}"
            run.expect(148, answer.code == INVALID_PARAMS, message, answer)
        with run.judging(148):
            turn.update_invalid("agent_message_chunk", messageId=5)
            turn.update_invalid("_duologue_unknown", any={"thing": [1]})
            turn.update_invalid("unknown_kind", any=None)
            await go_on(turn)
            if run.facts.answers_permission:
                subject = {"type": "_duologue_unknown", "any": 1}
                answer = await turn.peer.request("session/request_permission", {**params, "subject": subject})
                run.expect(148, not answer.error, f"an unknown subject is answered with {describe(answer)}", answer)


CASES: tuple[CheckCase[ClientCaseRun], ...] = (unknown_states, known_kinds)
