"""Messages in today's form are unchanged: every golden message of v1, and generated ones of every method."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from duologue.compat.dialects import Dialect
from duologue.compat.normaliser import Normaliser
from duologue.compat.rule_table import MODEL_RULES, RULES
from duologue.compat.rules import Side
from tests.compat.vectors import WIRE, frame_of, play
from tests.schema.instances import AtRandom, Maker, varieties
from tests.schema.official import UNSTABLE

OFFICIAL = UNSTABLE["v1"]
METHOD_OF: dict[str, str] = {
    name: definition["x-method"]
    for name, definition in OFFICIAL.document["$defs"].items()
    if "x-method" in definition and name.endswith(("Request", "Response", "Notification"))
}
DIALECTS: list[Dialect | None] = ["seed-003", "seed-004", None]
SIDES: list[Side] = ["agent", "client"]


def golden(definition: str) -> Iterator[Any]:
    """Yield the golden messages of a definition that are valid by the official schema, in canonical form."""
    for path in sorted((WIRE / "v1").glob("*.json")):
        for vector in json.loads(path.read_text("utf-8")):
            if vector["definition"] == definition and "beyond_schema" not in vector:
                yield vector.get("canonical", vector["wire"])


def generated(definition: str) -> Iterator[Any]:
    """Yield valid messages with every member of every union, and some random ones."""
    yield from varieties(OFFICIAL.schema, definition)
    maker = Maker(OFFICIAL.schema, AtRandom(Random(definition)))
    yield from (maker.definition(definition) for _ in range(20))


def frame_for(definition: str, body: Any) -> bytes:
    if definition.endswith("Response"):
        return frame_of({"jsonrpc": "2.0", "id": 1, "result": body})
    return frame_of({"jsonrpc": "2.0", "id": 1, "method": METHOD_OF[definition], "params": body})


def request_of(method: str) -> dict[str, Any]:
    params = {"sessionId": "s", "options": [{"optionId": "a", "name": "A", "kind": "allow_once"}]}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def test_every_method_of_a_rule_has_golden_messages_of_today() -> None:
    methods = {method for rule in RULES for _, method in rule.targets if method}
    of_yesterday = {"session/set_model"}

    assert methods <= {METHOD_OF[name] for name in METHOD_OF if list(golden(name))}
    assert {method for rule in MODEL_RULES for _, method in rule.targets} - set(METHOD_OF.values()) == of_yesterday


@pytest.mark.parametrize("definition", METHOD_OF)
def test_a_message_of_today_is_read_as_the_very_same_frame(definition: str) -> None:
    for body in (*golden(definition), *generated(definition)):
        frame = frame_for(definition, body)
        for dialect in DIALECTS:
            if (definition, dialect) == ("WaitForTerminalExitRequest", "seed-004"):
                continue  # the one request whose answer has to say more; see the rule `wait-for-output`
            for side in SIDES:
                normaliser = Normaliser(dialect, side)
                play(normaliser, "outgoing", request_of(METHOD_OF[definition]))
                normaliser.hits.clear()
                assert normaliser.incoming(frame)[0] is frame
                assert not normaliser.hits


@pytest.mark.parametrize("definition", METHOD_OF)
def test_without_a_named_dialect_a_message_of_today_is_written_as_the_very_same_frame(definition: str) -> None:
    for body in (*golden(definition), *generated(definition)):
        frame = frame_for(definition, body)
        for side in SIDES:
            normaliser = Normaliser(None, side)
            play(normaliser, "incoming", request_of(METHOD_OF[definition]))
            normaliser.hits.clear()
            assert normaliser.outgoing(frame)[0] is frame
            assert not normaliser.hits
