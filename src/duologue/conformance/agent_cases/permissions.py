"""Cases about permission, and about the client's other answers to an agent."""

from __future__ import annotations

from duologue.conformance.agent_driver import DrivenAgent, TurnEnd
from duologue.conformance.case import CheckCase, NotProvoked, case
from duologue.conformance.checked_agent import FILE_TEXT, AgentRun
from duologue.conformance.client_services import PermissionAnswer
from duologue.conformance.profile import Act
from duologue.conformance.raw_peer import Json, ReceivedMessage, objects

FINAL = ("completed", "failed", "cancelled")
PERMISSION = "session/request_permission"
UNKNOWN_ERROR: Json = {"error": {"code": 12345, "message": "an error of an unknown kind"}}
UNKNOWN_OUTCOMES: tuple[Json, ...] = (
    {"result": {"outcome": {"outcome": "_duologue_maybe"}}},
    {"result": {"outcome": {"outcome": "selected", "optionId": "duologue-check-not-offered"}}},
)

FORM_ANSWERS: tuple[tuple[Json, bool], ...] = (
    ({"result": {"action": "decline"}}, False),
    ({"result": {"action": "cancel"}}, False),
    ({"error": {"code": -32603, "message": "the form cannot be shown"}}, True),
    ({"result": {"action": "_duologue_later"}}, True),
)
"""Answers to a form, and whether the turn may fail because of them; it must end in any case."""

OFFERED_MODES: tuple[Json, ...] = ({}, {"form": {}}, {"url": {}})


def _tool_of(request: ReceivedMessage) -> str:
    """Return the id of the tool call for which permission is asked."""
    found = objects([request.params.get("toolCall"), request.params.get("subject")])
    for each in [*found, *objects([each.get("toolCall") for each in found])]:
        if isinstance(each.get("toolCallId"), str):
            return str(each["toolCallId"])
    return ""


def _statuses(end: TurnEnd, tool: str) -> list[str]:
    """Return the statuses that a tool call had in a turn."""
    calls = [each.update for each in end.of_kind("tool_call", "tool_call_update")]
    return [str(each["status"]) for each in calls if each.get("toolCallId") == tool and each.get("status")]


@case("approved-tool", 93)
async def approved_tool(run: AgentRun) -> None:
    """Allow a tool call: it reaches a final status before the turn ends."""
    text = run.prompt("permission")
    async with run.session() as (agent, session):
        started = agent.start_prompt(session, text)
        request = await started.request(PERMISSION)
        with run.judging(93):
            end = await started.end()
        statuses = _statuses(end, _tool_of(request))
        is_met = any(each in FINAL for each in statuses)
        message = f"the tool call {_tool_of(request)!r} was allowed, and had the statuses {statuses}"
        run.expect(93, is_met, message, request, end.last)


def _act_with_effect(run: AgentRun) -> Act:
    return "write_file" if run.knows("write_file") else "permission"


async def _expect_not_run(run: AgentRun, rule: int, agent: DrivenAgent, answer: PermissionAnswer, what: str) -> None:
    """Answer a permission request and pass the rule if the tool call does not run."""
    session = await agent.new_session()
    agent.services.permission = answer
    started = agent.start_prompt(session, run.prompt(_act_with_effect(run)))
    request = await started.request(PERMISSION)
    with run.judging(rule):
        end = await started.end()
        await agent.peer.barrier()
    position = agent.peer.received.index(request)
    done = [each for each in agent.peer.received[position:] if each.method in ("fs/write_text_file", "terminal/create")]
    is_unchanged = run.file.read_text("utf-8") == FILE_TEXT
    is_completed = "completed" in _statuses(end, _tool_of(request))
    message = f"the permission was answered with {what}, and the tool call ran all the same"
    run.expect(rule, is_unchanged and not done and not is_completed, message, request, *done)


@case("rejected-tool", 99)
async def rejected_tool(run: AgentRun) -> None:
    """Reject a tool call, and answer another permission request with cancelled: neither runs."""
    run.prompt(_act_with_effect(run))
    async with run.connect() as agent:
        for answer in ("reject", "cancelled"):
            await _expect_not_run(run, 99, agent, answer, answer)


@case("unknown-outcome", 149, versions=(2,), is_passive=False)
async def unknown_outcome(run: AgentRun) -> None:
    """Answer permission requests with an unknown outcome, and with an option that was not offered."""
    run.prompt(_act_with_effect(run))
    async with run.connect() as agent:
        for answer in UNKNOWN_OUTCOMES:
            await _expect_not_run(run, 149, agent, answer, str(answer["result"]))


@case("unknown-error-code", 17)
async def unknown_error_code(run: AgentRun) -> None:
    """Answer a permission request with an error of an unknown code: the turn ends, and the agent lives on."""
    text = run.prompt("permission")
    async with run.session() as (agent, session):
        agent.services.permission = UNKNOWN_ERROR
        started = agent.start_prompt(session, text)
        await started.request(PERMISSION)
        with run.judging(17):
            await started.end()
        await run.expect_alive(17, agent, "after an error with the code 12345")


@case("elicitation-answers", 133)
async def elicitation_answers(run: AgentRun) -> None:
    """Answer a form with decline, cancel, an error and an unknown action: each turn ends, two of them without error."""
    text = run.prompt("form" if run.knows("form") or not run.knows("url") else "url")
    async with run.connect() as agent:
        for answer, may_fail in FORM_ANSWERS:
            session = await agent.new_session()
            agent.services.elicitation = answer
            started = agent.start_prompt(session, text)
            request = await started.request("elicitation/create")
            with run.judging(133):
                end = await started.end()
            is_met = may_fail or (not end.response.error and end.stop_reason != "error")
            run.expect(133, is_met, f"the answer {answer} to a form broke the turn", request, end.last)
        await run.expect_alive(133, agent, "after the answers to forms")


@case("elicitation-modes", 127)
async def elicitation_modes(run: AgentRun) -> None:
    """Offer no mode of elicitation, then one of the two; the agent uses no other."""
    acts: list[Act] = [each for each in ("form", "url") if run.knows(each)]
    if not acts:
        run.prompt("form")
    asked = 0
    for modes in OFFERED_MODES:
        async with run.session({"elicitation": modes}) as (agent, session):
            for act in acts:
                with run.judging(127):
                    await agent.prompt(session, run.prompt(act))
            asked += len(_questions(agent))
            wrong = [each for each in _questions(agent) if each.params.get("mode") not in modes]
            if wrong:
                used = ", ".join(repr(each.params.get("mode")) for each in wrong)
                run.expect(127, False, f"the client offers {list(modes)}, and was asked in the mode {used}", *wrong)
    if not asked:
        raise NotProvoked("the agent sent no elicitation/create")
    run.expect(127, True, "")


def _questions(agent: DrivenAgent) -> list[ReceivedMessage]:
    return [each for each in agent.peer.received if each.method == "elicitation/create"]


CASES: tuple[CheckCase[AgentRun], ...] = (
    approved_tool,
    rejected_tool,
    unknown_outcome,
    unknown_error_code,
    elicitation_answers,
    elicitation_modes,
)
