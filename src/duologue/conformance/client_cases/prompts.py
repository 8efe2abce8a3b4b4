"""Cases about prompts: what a client does while their turn runs, and when they fail."""

from __future__ import annotations

from duologue.conformance.case import CaseEnded, CaseSkipped, CheckCase, NotProvoked, case
from duologue.conformance.client_side.checked_client import ClientCaseRun, Prepare
from duologue.conformance.client_side.played_agent import PlayedAgent
from duologue.conformance.client_side.played_turn import OPTIONS, CheckedTurn
from duologue.conformance.raw_peer import Json, PeerFailed, RawPeer
from duologue.conformance.verdicts import RuleVerdict

AUTH_REQUIRED = -32000
UNKNOWN_CODE = 12345
QUESTION_SECONDS = 10.0
"""How long a client without a user may take to answer a question."""


@case("one-turn", 22, 98)
async def one_turn(run: ClientCaseRun) -> None:
    """Answer one prompt, with a request of the agent in between."""
    facts = run.facts
    try:
        async with run.turn() as turn:
            assert turn.agent.initialize is not None
            facts.info = turn.agent.initialize.params.get("clientInfo" if run.version == 1 else "info") or {}
            facts.opened_by = turn.agent.opened[turn.session].method if turn.session in turn.agent.opened else ""
            turn.say("hello")
            with run.judging(22):
                run.expect(22, await turn.peer.barrier(), "")
            await _ask(run, turn)
        facts.exit_code = None if run.client is None else run.client.exit_code
    except CaseSkipped as error:
        facts.is_supported, facts.problem = False, str(error)
        raise
    except CaseEnded:
        facts.problem = "the client answers no request while a prompt runs"
        raise
    except NotProvoked as error:
        facts.problem = str(error)
        raise
    except PeerFailed as error:
        facts.problem = f"the client sent no prompt to check it by: {error}"
        raise


async def _ask(run: ClientCaseRun, turn: CheckedTurn) -> None:
    """Ask for permission; a client may leave the answer to its user, who is not there."""
    id_ = turn.ask_permission()
    try:
        answer = await turn.peer.wait_for(
            lambda each: each.is_response and each.message["id"] == id_,
            "session/request_permission",
            seconds=None if run.is_interactive else run.limit.at_most(QUESTION_SECONDS),
        )
    except PeerFailed as error:
        run.facts.answers_permission = False
        run.judge(98, RuleVerdict.NOT_OBSERVED, f"{error}; let the client answer without its user")
        turn.peer.notify("$/cancel_request", {"requestId": id_})
        return
    outcome = answer.result.get("outcome")
    chosen = outcome.get("optionId") if isinstance(outcome, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if chosen is None:
        reason = f"the client chose no option: {answer.message}; let it choose one"
        run.judge(98, RuleVerdict.NOT_OBSERVED, reason[:300], answer)
    else:
        offered = [each["optionId"] for each in OPTIONS]
        run.expect(98, chosen in offered, f"the client chose {chosen!r}; offered were {offered}", answer)


@case("unknown-error", 17)
async def unknown_error(run: ClientCaseRun) -> None:
    """Answer a prompt with an error whose code no specification has."""
    await _fail_prompt(run, 17, {"code": UNKNOWN_CODE, "message": "unknown", "data": [1]})


@case("login-lost", 42)
async def login_lost(run: ClientCaseRun) -> None:
    """Answer a prompt with the error that a login is required."""
    await _fail_prompt(run, 42, {"code": AUTH_REQUIRED, "message": "Authentication required"})


async def _fail_prompt(run: ClientCaseRun, rule: int, error: Json) -> None:
    """Answer a prompt with an error; the client may go on or end, but neither hang nor crash."""
    async with run.connect(prepare=_failing(error)) as agent:
        await run.prompted(agent)
        if not await is_alive_or_ended(run, agent.peer):
            run.expect(rule, False, f"the client hangs after the error {error['code']}")
            raise CaseEnded
    code = None if run.client is None else run.client.exit_code
    run.expect(rule, code is None or code >= 0, f"the client is ended by signal {-(code or 0)} after {error['code']}")


def _failing(error: Json) -> Prepare:
    def prepare(agent: PlayedAgent) -> None:
        agent.prompt_error = error

    return prepare


async def is_alive_or_ended(run: ClientCaseRun, peer: RawPeer) -> bool:
    """Return True if the client answers a request, or ends; it may do either after a failure, but not hang."""
    try:
        await peer.barrier(may_end=True)
    except PeerFailed:
        return peer.ended.is_set() or await run.ended(peer)
    return True


CASES: tuple[CheckCase[ClientCaseRun], ...] = (one_turn, unknown_error, login_lost)
