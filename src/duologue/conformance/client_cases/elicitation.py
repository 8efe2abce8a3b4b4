"""Cases about questions to the user: forms and URLs."""

from __future__ import annotations

from typing import Any

from duologue.conformance.case import CaseSkipped, CheckCase, case
from duologue.conformance.client_cases.messages import INVALID_PARAMS, METHOD_NOT_FOUND, describe, go_on
from duologue.conformance.client_cases.prompts import QUESTION_SECONDS
from duologue.conformance.client_side.checked_client import ClientCaseRun
from duologue.conformance.client_side.played_turn import CheckedTurn
from duologue.conformance.raw_peer import Json, PeerFailed
from duologue.conformance.verdicts import RuleVerdict

FORM: Json = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "minLength": 2, "maxLength": 20, "default": "Ada"},
        "count": {"type": "integer", "title": "Count", "minimum": 1, "maximum": 9, "default": 4},
        "colour": {"type": "string", "title": "Colour", "enum": ["red", "green"], "default": "green"},
        "is_sure": {"type": "boolean", "title": "Sure?", "default": True},
        "comment": {"type": "string", "title": "Comment"},
    },
    "required": ["name", "count", "colour", "is_sure"],
}
_TYPES: dict[str, type] = {"string": str, "integer": int, "boolean": bool}


def _question(turn: CheckedTurn, mode: str) -> Json:
    params: Json = {"sessionId": turn.session, "mode": mode, "message": "A question of the check"}
    if mode == "form":
        return {**params, "requestedSchema": FORM}
    if mode == "url":
        return {**params, "elicitationId": f"e-{turn.prompt.number}", "url": "https://example.invalid/check"}
    return params


@case("elicitation-modes", 128, 132)
async def elicitation_modes(run: ClientCaseRun) -> None:
    """Ask in a mode that the client did not advertise, and complete what was never asked."""
    async with run.turn() as turn:
        modes = [mode for mode in ("form", "url") if turn.agent.client_has("elicitation", mode)]
        other = next((mode for mode in ("form", "url") if mode not in modes), "_duologue")
        with run.judging(128):
            answer = await turn.peer.answer_to("elicitation/create", _question(turn, other))
        expected = (INVALID_PARAMS,) if modes else (INVALID_PARAMS, METHOD_NOT_FOUND)
        message = f"the mode {other}, which was not advertised, is answered with {describe(answer)}"
        run.expect(128, answer.code in expected, message, answer)
        begin = len(turn.peer.received)
        with run.judging(132):
            turn.peer.send_invalid({"method": "elicitation/complete", "params": {"elicitationId": "never-asked"}})
            await go_on(turn)
        unasked = turn.peer.unasked(begin)
        run.expect(132, not unasked, f"elicitation/complete is answered: {describe(*unasked)}", *unasked)


@case("elicitation-form", 134, 188)
async def elicitation_form(run: ClientCaseRun) -> None:
    """Let the client fill in a form with defaults."""
    async with run.turn() as turn:
        if not turn.agent.client_has("elicitation", "form"):
            raise CaseSkipped("the client does not advertise elicitation.form")
        run.say("fill in the form")
        id_ = turn.peer.start_request("elicitation/create", _question(turn, "form"))
        try:
            answer = await turn.peer.wait_for(
                lambda each: each.is_response and each.message["id"] == id_,
                "elicitation/create",
                seconds=None if run.is_interactive else run.limit.at_most(QUESTION_SECONDS),
            )
        except PeerFailed as error:
            run.conclude(RuleVerdict.NOT_OBSERVED, f"{error}; let the client accept the form")
            return
        run.expect(
            188, answer.code != METHOD_NOT_FOUND, f"elicitation/create is answered with {describe(answer)}", answer
        )
        if answer.result.get("action") != "accept":
            run.judge(
                134, RuleVerdict.NOT_OBSERVED, f"the client answers {describe(answer)}; let it accept the form", answer
            )
            return
        wrong = _problem(answer.result.get("content"))
        run.expect(134, not wrong, f"{wrong}, in {describe(answer)}", answer)


def _problem(content: Any) -> str:
    """Say what is wrong with the content of the form; empty if nothing is."""
    if not isinstance(content, dict):
        return "there is no content"
    for name in FORM["required"]:
        if name not in content:
            return f"the required field {name} is missing"
    for name, value in content.items():  # pyright: ignore[reportUnknownVariableType]
        schema: Json | None = FORM["properties"].get(name)
        if schema is None:
            return f"the form has no field {name}"
        if type(value) is not _TYPES[schema["type"]]:  # pyright: ignore[reportUnknownArgumentType]
            return f"{name} is {value!r}, not of the type {schema['type']}"
        if not _is_allowed(value, schema):
            return f"{name} is {value!r}, which its schema does not allow"
    return ""


def _is_allowed(value: Any, schema: Json) -> bool:
    size: float = len(value) if isinstance(value, str) else value
    low: float = schema.get("minLength", schema.get("minimum", size)) or 0
    high: float = schema.get("maxLength", schema.get("maximum", size)) or 0
    return bool(low <= size <= high and value in schema.get("enum", [value]))


CASES: tuple[CheckCase[ClientCaseRun], ...] = (elicitation_modes, elicitation_form)
