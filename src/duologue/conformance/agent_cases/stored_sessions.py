"""Cases about sessions that are opened again: load, resume, replay, status."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from duologue.conformance.agent_cases.prompts import OF_TURN
from duologue.conformance.agent_driver import DrivenAgent, TurnEnd, text_of
from duologue.conformance.case import CaseSkipped, CheckCase, NotProvoked, case
from duologue.conformance.checked_agent import AgentRun, describe
from duologue.conformance.profile import Act
from duologue.conformance.raw_peer import PeerFailed, ReceivedMessage

NO_SESSION, INVALID_PARAMS = -32002, -32602
UNKNOWN_SESSION = "duologue-check-unknown"
HISTORY = OF_TURN | {"user_message_chunk", "user_message"}
"""Kinds of updates that tell what happened, unlike those that tell the state of a session."""
FROM_START = {"replayFrom": {"type": "start"}}


class Reopened:
    """A session that was opened again.

    Args:
        agent: The agent.
        response: The response to the request that opened it.
        position: Number of messages that were received before that request was sent.
    """

    def __init__(self, agent: DrivenAgent, response: ReceivedMessage, position: int) -> None:
        self.response = response
        received = agent.peer.received
        until = received.index(response)
        self.before = [each for each in received[position:until] if each.method == "session/update"]
        self.after = [each for each in received[until:] if each.method == "session/update"]

    def history(self, messages: list[ReceivedMessage]) -> list[ReceivedMessage]:
        """Return the messages that tell what happened."""
        return [each for each in messages if each.update_kind in HISTORY]


async def _reopen(agent: DrivenAgent, method: str, session: str, **others: Any) -> Reopened:
    position = len(agent.peer.received)
    params = {"sessionId": session, **agent.session_params(**others)}
    response = await agent.peer.request(method, params)
    if response.code == NO_SESSION:
        raise NotProvoked(f"the agent did not keep the session: {describe(response)}")
    if response.error:
        raise PeerFailed(f"{method} of a session that was closed: {describe(response)}")
    await agent.peer.barrier()
    return Reopened(agent, response, position)


@contextlib.asynccontextmanager
async def _closed_session(run: AgentRun, method: str, act: Act) -> AsyncGenerator[tuple[DrivenAgent, str, TurnEnd]]:
    """Open a session, run a turn and close the session, or the connection if sessions cannot be closed."""
    async with run.connect() as agent:
        agent.require_session_method(method)
        session = await agent.new_session()
        end = await run.act(agent, session, act)
        if agent.has_session_method("close"):
            await agent.peer.request("session/close", {"sessionId": session})
            yield agent, session, end
            return
    async with run.connect() as agent:
        yield agent, session, end


@case("load-session", 56, 57, versions=(1,))
async def load_session(run: AgentRun) -> None:
    """Load a session that had a turn: its history comes before the response, under its id."""
    async with _closed_session(run, "load", "answer") as (agent, session, end):
        with run.judging(56):
            loaded = await _reopen(agent, "session/load", session)
        _expect_history(run, 56, loaded, end)
        run.expect(56, not loaded.history(loaded.after), "history came after the response", *loaded.after)
        foreign = [each for each in loaded.before if each.params.get("sessionId") != session]
        ids = ", ".join(repr(each.params.get("sessionId")) for each in foreign)
        run.expect(57, not foreign, f"updates of the replay have the session {ids}, not {session!r}", *foreign)


def _expect_history(run: AgentRun, rule: int, opened: Reopened, end: TurnEnd) -> None:
    replayed = text_of(opened.before)
    is_met = end.text in replayed and any(each.update_kind.startswith("user_message") for each in opened.before)
    message = f"the replay before the response lacks the prompt, or what the agent said ({end.text!r}): {replayed!r}"
    run.expect(rule, is_met, message, opened.response)


@case("unknown-session", 58, 63, 152)
async def unknown_session(run: AgentRun) -> None:
    """Load, resume, prompt and close a session that does not exist."""
    async with run.connect() as agent:
        await agent.new_session()
        methods = [each for each in ("load", "resume") if agent.has_session_method(each)]
        for method in methods:
            with run.judging(58):
                response = await agent.peer.request(
                    f"session/{method}", {"sessionId": UNKNOWN_SESSION, **agent.session_params()}
                )
            run.expect_error(58, response, f"session/{method} of a session that does not exist")
        if not methods:
            run.skip(58, "the agent can neither load nor resume sessions")
        with run.judging(63):
            response = await agent.start_prompt(UNKNOWN_SESSION, run.prompt("answer")).response()
        run.expect_error(63, response, "a prompt in a session that does not exist", NO_SESSION)
        if run.agent.transport == "http":
            run.skip(152, "a server answers 404 for a session that it does not know")
        elif run.version == 2:
            with run.judging(152):
                response = await agent.peer.request("session/close", {"sessionId": UNKNOWN_SESSION})
            run.expect_result(152, response, "closing a session that does not exist")


@case("closed-session", 63)
async def closed_session(run: AgentRun) -> None:
    """Prompt in a session that was closed."""
    async with run.session() as (agent, session):
        agent.require_session_method("close")
        response = await agent.peer.request("session/close", {"sessionId": session})
        if response.error:
            raise CaseSkipped(f"the session cannot be closed: {describe(response)}")
        with run.judging(63):
            response = await agent.start_prompt(session, run.prompt("answer")).response()
        run.expect_error(63, response, "a prompt in a session that was closed", NO_SESSION)


@case("resume-session", 60, 145, 146)
async def resume_session(run: AgentRun) -> None:
    """Resume a session that had a turn, without asking for its history."""
    async with _closed_session(run, "resume", "answer") as (agent, session, _):
        with run.judging(60, 145, 146):
            resumed = await _reopen(agent, "session/resume", session)
        history = resumed.history([*resumed.before, *resumed.after])
        kinds = ", ".join(each.update_kind for each in history)
        run.expect(60, not history, f"the history was replayed: {kinds}", *history)
        run.expect(146, not history, f"the history was replayed without replayFrom: {kinds}", *history)
        has_state = any(each.update_kind == "state_update" for each in resumed.before)
        run.expect(145, has_state, "there is no state_update before the response to session/resume", resumed.response)


@case("replay-session", 145, 146, versions=(2,))
async def replay_session(run: AgentRun) -> None:
    """Resume a session with its history from the start."""
    async with _closed_session(run, "resume", "answer") as (agent, session, end):
        with run.judging(146):
            resumed = await _reopen(agent, "session/resume", session, **FROM_START)
        _expect_history(run, 146, resumed, end)
        kinds = [each.update_kind for each in resumed.before]
        last = max((index for index, kind in enumerate(kinds) if kind in HISTORY), default=-1)
        has_state = "state_update" in kinds[last + 1 :]
        run.expect(145, has_state, "there is no state_update between the replay and the response", resumed.response)


@case("unknown-replay-position", 146, versions=(2,), is_passive=False)
async def unknown_replay_position(run: AgentRun) -> None:
    """Resume a session with its history from a position of an unknown kind."""
    async with _closed_session(run, "resume", "answer") as (agent, session, _):
        id_ = agent.peer.next_id()
        params = {"sessionId": session, **agent.session_params(), "replayFrom": {"type": "_duologue_unknown"}}
        agent.peer.send_invalid({"id": id_, "method": "session/resume", "params": params})
        with run.judging(146):
            response = await agent.peer.response(id_, "session/resume with an unknown position")
        run.expect_error(146, response, "replayFrom of an unknown type", INVALID_PARAMS)


@case("notice-not-replayed", 126)
async def notice_not_replayed(run: AgentRun) -> None:
    """Load a session in which the agent sent a notice."""
    method = "load" if run.version == 1 else "resume"
    run.prompt("notice")
    async with _closed_session(run, method, "notice") as (agent, session, end):
        if not end.of_kind("notice"):
            raise NotProvoked("the agent sent no notice")
        others = FROM_START if run.version == 2 else {}
        with run.judging(126):
            loaded = await _reopen(agent, f"session/{method}", session, **others)
        notices = [each for each in loaded.before if each.update_kind == "notice"]
        run.expect(126, not notices, "a notice of the past was replayed", *notices)


@case("session-status", 154)
async def session_status(run: AgentRun) -> None:
    """Ask twice for the status of a closed session; it stays closed."""
    async with run.session() as (agent, session):
        agent.require_session_method("status")
        agent.require_session_method("close")
        await run.act(agent, session, "answer")
        await agent.peer.request("session/close", {"sessionId": session})
        with run.judging(154):
            first = await agent.peer.request("session/status", {"sessionId": session})
            second = await agent.peer.request("session/status", {"sessionId": session})
            response = await agent.start_prompt(session, run.prompt("answer")).response()
        is_same_status = first.result == second.result and first.code == second.code
        message = f"two requests for the status gave {describe(first)} and {describe(second)}"
        run.expect(154, is_same_status, message, first, second)
        run.expect(154, response.error, "a prompt succeeded in a session of which only the status was asked", response)


CASES: tuple[CheckCase[AgentRun], ...] = (
    load_session,
    unknown_session,
    closed_session,
    resume_session,
    replay_session,
    unknown_replay_position,
    notice_not_replayed,
    session_status,
)
