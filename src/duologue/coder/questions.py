"""Questions of the model, as forms that the editor shows."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from pydantic_ai_harness.ask_user import AskUserAnswer, AskUserRequest, AskUserResponse

from duologue.agent.turn import Turn
from duologue.errors import RequestError
from duologue.integrations.pydantic_ai.current_tool import current_tool

DECLINED = AskUserResponse(cancelled=True)


async def answer_questions(request: AskUserRequest) -> AskUserResponse:
    """Ask the user all questions of a call in one form; declined if the client shows none."""
    tool = current_tool()
    if tool is None:
        return DECLINED
    turn: Turn[Any] = tool.turn
    fields: list[tuple[str, Any, Any]] = []
    for number, question in enumerate(request.questions):
        labels = tuple(option.label for option in question.options)
        kind: Any = Literal[labels]
        kind = list[kind] if question.multi_select else kind
        about = [f"{option.label}: {option.description}" for option in question.options if option.description]
        text = "\n".join([question.question, *about])
        metadata = {"title": question.header, "description": text}
        fields.append((f"answer_{number}", kind, dataclasses.field(metadata=metadata)))
    form: type[Any] = dataclasses.make_dataclass("Answers", fields, namespace={"__doc__": "Questions of the agent"})
    try:
        filled = await turn.elicit(form, "\n".join(each.question for each in request.questions), tool=tool)
    except RequestError:
        return DECLINED
    if filled is None:
        return DECLINED
    answers: list[AskUserAnswer] = []
    for number, question in enumerate(request.questions):
        chosen = getattr(filled, f"answer_{number}")
        answers.append(
            AskUserAnswer(header=question.header, selected=tuple(chosen if question.multi_select else [chosen]))
        )
    return AskUserResponse(answers=tuple(answers))
