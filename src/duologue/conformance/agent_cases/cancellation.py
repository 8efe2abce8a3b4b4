"""Cases about cancelling: turns, requests, sessions that are closed or archived while they work."""

from __future__ import annotations

import contextlib

from duologue.conformance.agent_cases.prompts import late_updates
from duologue.conformance.agent_driver import DrivenAgent, DrivenTurn, TurnEnd
from duologue.conformance.case import CheckCase, NotProvoked, case
from duologue.conformance.checked_agent import AgentRun, describe
from duologue.conformance.raw_peer import PeerFailed, ReceivedMessage, is_same

CANCELLED = "cancelled"
REQUEST_CANCELLED = -32800
PERMISSION = "session/request_permission"


@case("cancel-turn", 22, 77, 78, 143)
async def cancel_turn(run: AgentRun) -> None:
    """Cancel a turn that would run for long; meanwhile the agent answers other requests."""
    text = run.prompt("long")
    async with run.session() as (agent, session):
        started = agent.start_prompt(session, text)
        await started.started()
        with run.judging(22):
            await agent.peer.barrier()
        is_running = not started.has_ended
        run.expect(22, is_running, "a request was answered only after the turn had ended")
        if not is_running:
            raise NotProvoked("the turn ended before it could be cancelled")
        await _cancel(run, agent, started)


async def _cancel(run: AgentRun, agent: DrivenAgent, started: DrivenTurn) -> None:
    agent.cancel(started.session)
    with run.judging(77, 143):
        end = await started.end()
        await agent.peer.barrier()
    _expect_cancelled(run, end)
    late = late_updates(agent, started.session, end.last)
    message = f"{', '.join(each.update_kind for each in late)} came after the end of the cancelled turn"
    run.expect(78, not late, message, end.last, *late)
    run.expect(143, not late, message, end.last, *late)


def _expect_cancelled(run: AgentRun, end: TurnEnd) -> None:
    message = f"the turn was cancelled: expected the stop reason cancelled, got {describe(end.last)}"
    run.expect(77, end.stop_reason == CANCELLED, message, end.last)
    run.expect(143, end.stop_reason == CANCELLED, message, end.last)


@case("cancel-while-asking", 77, 143, 179)
async def cancel_while_asking(run: AgentRun) -> None:
    """Cancel a turn while the agent waits for a permission, which the client then answers with cancelled."""
    text = run.prompt("permission")
    async with run.session() as (agent, session):
        agent.services.permission = "hold"
        started = agent.start_prompt(session, text)
        request = await started.request(PERMISSION)
        agent.cancel(session)
        if run.version == 1:
            with contextlib.suppress(PeerFailed):  # rule 22 is judged elsewhere
                await agent.peer.barrier()  # else the answer may overtake the cancellation inside of the agent
            agent.services.release.set()
        else:
            await _withdrawn(run, agent, started, request)
        with run.judging(77, 143):
            end = await started.end()
        _expect_cancelled(run, end)


async def _withdrawn(run: AgentRun, agent: DrivenAgent, started: DrivenTurn, request: ReceivedMessage) -> None:
    """Wait until the agent withdraws its request or ends the turn, then answer the request."""
    id_ = request.message["id"]

    def is_withdrawal(each: ReceivedMessage) -> bool:
        return each.method == "$/cancel_request" and is_same(each.params.get("requestId"), id_)

    def is_over(each: ReceivedMessage) -> bool:
        return is_withdrawal(each) or started.is_idle(each)

    try:
        await agent.peer.wait_for(is_over, "session/cancel", started.position)
        await agent.peer.barrier()
        is_met = any(map(is_withdrawal, agent.peer.received))
    except PeerFailed:
        is_met = False
    run.expect(179, is_met, "the open permission request was not withdrawn after session/cancel", request)
    agent.services.release.set()


@case("cancel-idle", 82)
async def cancel_idle(run: AgentRun) -> None:
    """Cancel a session in which nothing runs; its next turn is not cancelled."""
    async with run.session() as (agent, session):
        agent.cancel(session)
        if not await run.expect_alive(82, agent, "after session/cancel without a turn"):
            return
        with run.judging(82):
            end = await run.act(agent, session, "answer")
        is_met = end.stop_reason != CANCELLED
        run.expect(82, is_met, "session/cancel without a turn cancelled the next turn", end.last)


@case("cancel-one-session", 83)
async def cancel_one_session(run: AgentRun) -> None:
    """Cancel one of two sessions that work; the other goes on."""
    text = run.prompt("long")
    async with run.session() as (agent, session):
        other = await agent.new_session()
        turns = [agent.start_prompt(each, text) for each in (session, other)]
        for each in turns:
            await each.started()
        agent.cancel(session)
        with run.judging(83):
            await turns[0].end()
            await agent.peer.barrier()
        is_met = not turns[1].has_ended
        run.expect(83, is_met, "session/cancel of one session ended the turn of another")
        agent.cancel(other)
        with run.judging(83):
            await turns[1].end()


@case("cancel-request", 84)
async def cancel_request(run: AgentRun) -> None:
    """Cancel requests by their ids: one that is answered at once, and a prompt that runs for long."""
    async with run.session() as (agent, session):
        id_ = agent.peer.start_request("session/new", agent.session_params())
        agent.peer.notify("$/cancel_request", {"requestId": id_})
        with run.judging(84):
            response = await agent.peer.response(id_, "session/new, which was cancelled")
        _expect_data_or_cancelled(run, response)
        if run.version == 2 or not run.knows("long"):
            return
        started = agent.start_prompt(session, run.prompt("long"))
        await started.started()
        agent.peer.notify("$/cancel_request", {"requestId": started.id})
        with run.judging(84):
            await agent.peer.barrier()
            agent.cancel(session)  # an agent need not honour $/cancel_request
            response = await started.response()
        _expect_data_or_cancelled(run, response)


def _expect_data_or_cancelled(run: AgentRun, response: ReceivedMessage) -> None:
    is_met = "result" in response.message or response.code == REQUEST_CANCELLED
    run.expect(84, is_met, f"a cancelled request: expected a result or -32800, got {describe(response)}", response)


@case("cancel-own-requests", 87, is_passive=False)
async def cancel_own_requests(run: AgentRun) -> None:
    """Send $/cancel_request with the id of the agent's own open request, which it does not concern."""
    text = run.prompt("permission")
    async with run.session() as (agent, session):
        agent.services.permission = "hold"
        started = agent.start_prompt(session, text)
        request = await started.request(PERMISSION)
        agent.peer.notify("$/cancel_request", {"requestId": request.message["id"]})
        if not await run.expect_alive(87, agent, "after $/cancel_request"):
            return
        withdrawn = started.has_ended
        agent.services.release.set()
        with run.judging(87):
            end = await started.end()
        is_met = not withdrawn and not end.response.error
        run.expect(87, is_met, "$/cancel_request with the id of the agent's request ended the turn", end.last)


async def _close_working(run: AgentRun, rules: tuple[int, ...], method: str) -> tuple[TurnEnd, bool]:
    """End a session while it works; return how its turn ended, and whether that was before the response."""
    text = run.prompt("long")
    async with run.session() as (agent, session):
        agent.require_session_method(method)
        started = agent.start_prompt(session, text)
        await started.started()
        with run.judging(*rules):
            response = await agent.peer.request(f"session/{method}", {"sessionId": session})
            if response.error:
                raise PeerFailed(f"session/{method} of a session that works: {describe(response)}")
            end = await started.end()
        return end, agent.peer.received.index(end.last) < agent.peer.received.index(response)


@case("close-working", 62, 144)
async def close_working(run: AgentRun) -> None:
    """Close a session while a turn runs: the turn ends as cancelled."""
    end, is_before = await _close_working(run, (62, 144), "close")
    is_cancelled = end.stop_reason == CANCELLED
    message = f"the session was closed while it worked: expected cancelled, got {describe(end.last)}"
    run.expect(62, is_cancelled, message, end.last)
    run.expect(144, is_cancelled and is_before, f"{message}, before the response to session/close", end.last)


@case("archive-working", 153)
async def archive_working(run: AgentRun) -> None:
    """Archive a session while a turn runs: the turn ends as cancelled."""
    end, _ = await _close_working(run, (153,), "archive")
    message = f"the session was archived while it worked: expected cancelled, got {describe(end.last)}"
    run.expect(153, end.stop_reason == CANCELLED, message, end.last)


CASES: tuple[CheckCase[AgentRun], ...] = (
    cancel_turn,
    cancel_while_asking,
    cancel_idle,
    cancel_one_session,
    cancel_request,
    cancel_own_requests,
    close_working,
    archive_working,
)
