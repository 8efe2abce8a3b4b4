"""The answers of a recorded client to the requests of an agent."""

from __future__ import annotations

from collections import Counter
from typing import Any

from duologue.trace.frames import TracedFrame
from duologue.trace.identity import IdTranslator
from duologue.trace.replay.matcher import key_of_params
from duologue.trace.replay.script import ReplayScript, items, members, message_of

PERMISSION = "session/request_permission"


class RecordedAnswers:
    """Finds the recorded answer to a request of an agent.

    Args:
        script: The recording.
        ids: Translates recorded ids and paths into those of this run.
    """

    def __init__(self, script: ReplayScript, ids: IdTranslator) -> None:
        self._answers = script.answers
        self._ids = ids
        self._uses: Counter[int] = Counter()
        self._requests: dict[str, list[tuple[bytes, TracedFrame]]] = {}
        for frame in script.frames:
            if frame.kind == "request" and frame.number in script.answers:
                key = key_of_params(ids.translate(_params(frame)))
                self._requests.setdefault(frame.method, []).append((key, frame))

    def find(self, method: str, params: dict[str, Any]) -> tuple[dict[str, Any], float] | None:
        """Return the `result` or `error` to answer with, and how long the answer took; None if none was recorded.

        The answer to an equal request comes first, then one that was not given yet, then the earliest.
        """
        key = key_of_params(params)
        found = min(
            self._requests.get(method, ()),
            key=lambda each: (each[0] != key, self._uses[each[1].number], each[1].number),
            default=None,
        )
        if found is None:
            return ({"result": {"outcome": {"outcome": "cancelled"}}}, 0.0) if method == PERMISSION else None
        request = found[1]
        self._uses[request.number] += 1
        self._ids.pair(_params(request), params)
        frame = self._answers[request.number]
        message: dict[str, Any] = self._ids.translate(message_of(frame))
        if method == PERMISSION:
            _choose_option(message, _params(request), params)
        return {name: message[name] for name in ("result", "error") if name in message}, frame.latency or 0.0


def _params(frame: TracedFrame) -> dict[str, Any]:
    return members(message_of(frame).get("params"))


def _choose_option(answer: dict[str, Any], recorded: dict[str, Any], offered: dict[str, Any]) -> None:
    """Select an option that is offered: the recorded one, or one of the same kind; cancel if there is none."""
    outcome = members(members(answer.get("result")).get("outcome"))
    options = {each.get("optionId"): each.get("kind") for each in _options(offered)}
    if "optionId" not in outcome or outcome["optionId"] in options:
        return
    kinds = {each.get("optionId"): each.get("kind") for each in _options(recorded)}
    wanted = kinds.get(outcome["optionId"])
    chosen = next((option for option, kind in options.items() if kind == wanted), None)
    answer["result"] = {
        "outcome": {"outcome": "cancelled"} if chosen is None else {"outcome": "selected", "optionId": chosen}
    }


def _options(params: dict[str, Any]) -> list[dict[str, Any]]:
    return [members(each) for each in items(params.get("options"))]
