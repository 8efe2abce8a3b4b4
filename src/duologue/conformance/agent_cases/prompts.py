"""Cases about turns: stop reasons, order, states, a second prompt, content of prompts."""

from __future__ import annotations

from typing import get_args

from duologue.conformance.agent_driver import DrivenAgent
from duologue.conformance.case import CheckCase, case
from duologue.conformance.checked_agent import AgentRun, describe
from duologue.conformance.profile import Act
from duologue.conformance.raw_peer import Json, PeerFailed, ReceivedMessage

INVALID_PARAMS = -32602
STOP_REASONS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
OF_TURN = frozenset(
    (
        *("agent_message_chunk", "agent_message", "agent_thought_chunk", "agent_thought", "plan", "plan_update"),
        *("tool_call", "tool_call_update", "tool_call_content_chunk"),
    )
)
"""Kinds of updates that belong to a turn."""
WITHOUT_END: tuple[Act, ...] = ("long", "process", "big", "stream")
"""Acts that go on until they are cancelled, or send so much that they have cases of their own."""
MALFORMED_BLOCKS: tuple[Json, ...] = ({"type": "text"}, {"type": "resource_link", "name": "a link"})


def late_updates(agent: DrivenAgent, session: str, last: ReceivedMessage) -> list[ReceivedMessage]:
    """Return the updates of a turn that came after the message that ended it."""
    position = agent.peer.received.index(last)
    return [
        each
        for each in agent.peer.received[position:]
        if each.params.get("sessionId") == session and each.update_kind in OF_TURN
    ]


@case("turn", 75, 76, versions=(1,))
async def turn(run: AgentRun) -> None:
    """Run two turns: each ends with a stop reason, after its last update."""
    async with run.session() as (agent, session):
        for _ in range(2):
            end = await run.act(agent, session, "answer")
            message = f"expected one of {', '.join(STOP_REASONS)}, got {describe(end.response)}"
            run.expect(75, end.stop_reason in STOP_REASONS, message, end.response)
            with run.judging(76):
                await agent.peer.barrier()
            late = late_updates(agent, session, end.last)
            kinds = ", ".join(each.update_kind for each in late)
            run.expect(76, not late, f"{kinds} came after the response to the prompt", end.response, *late)


@case("turn-state", 141, 142, versions=(2,))
async def turn_state(run: AgentRun) -> None:
    """Run a turn: the prompt gets a message id, and the session is running, then idle."""
    async with run.session() as (agent, session):
        started = agent.start_prompt(session, run.prompt("answer"))
        response = await started.response()
        message_id = response.result.get("messageId")
        if not run.expect(141, isinstance(message_id, str), f"no messageId: got {describe(response)}", response):
            return
        with run.judging(142):
            end = await started.end()
            await agent.peer.barrier()
        updates = [each for each in agent.peer.received[started.position :] if each.method == "session/update"]
        echoes = [each for each in updates if each.update_kind in ("user_message", "user_message_chunk")]
        ids = [each.update.get("messageId") for each in echoes]
        run.expect(141, message_id in ids, f"the response has the id {message_id!r}, and the message {ids}", *echoes)
        _expect_running_first(run, updates)
        late = late_updates(agent, session, end.last)
        run.expect(142, not late, "updates of the turn came after the state idle", end.last, *late)


def _expect_running_first(run: AgentRun, updates: list[ReceivedMessage]) -> None:
    for each in updates:
        if each.update.get("state") == "running":
            run.expect(142, True, "")
            return
        if each.update_kind in OF_TURN:
            run.expect(142, False, f"{each.update_kind} came before the state running", each)
            return
    run.expect(142, False, "the turn ended without the state running", *updates)


@case("second-prompt", 172)
async def second_prompt(run: AgentRun) -> None:
    """Send a second prompt while one runs, then cancel: both get a response."""
    text = run.prompt("long")
    async with run.session() as (agent, session):
        first = agent.start_prompt(session, text)
        await first.started()
        second = agent.start_prompt(session, run.prompt("answer"))
        await agent.peer.barrier()
        agent.cancel(session)
        with run.judging(172):
            await first.response()
            await second.response()
        run.expect(172, True, "")


@case("every-act", 166)
async def every_act(run: AgentRun) -> None:
    """Bring the agent to do everything that the profile knows, one turn each: every prompt is answered."""
    acts = [each for each in get_args(Act) if run.knows(each) and each not in WITHOUT_END]
    prompts = [(f"for the act {act!r}", run.prompt(act)) for act in acts]
    prompts += [(f"for the prompt {text!r}", text) for text in run.further_prompts()]
    async with run.connect() as agent:
        for purpose, text in prompts:
            started = agent.start_prompt(await agent.new_session(), text)
            try:
                await started.end()
            except PeerFailed as error:
                run.expect(166, False, f"the turn {purpose}: {error}")
                return
        run.expect(166, True, "")


@case("malformed-content", 148, versions=(2,), is_passive=False)
async def malformed_content(run: AgentRun) -> None:
    """Send prompts with blocks of known types that lack a field."""
    async with run.session() as (agent, session):
        for block in MALFORMED_BLOCKS:
            id_ = agent.peer.next_id()
            params = {"sessionId": session, "prompt": [block]}
            agent.peer.send_invalid({"id": id_, "method": "session/prompt", "params": params})
            with run.judging(148):
                response = await agent.peer.response(id_, f"a prompt with {block}")
            run.expect_error(148, response, f"a prompt with {block}", INVALID_PARAMS)


CASES: tuple[CheckCase[AgentRun], ...] = (turn, turn_state, second_prompt, every_act, malformed_content)
