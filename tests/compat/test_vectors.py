"""Golden vectors of every rewrite: the official schema validates what is read, our own reader what is written."""

from __future__ import annotations

from typing import Any

import pytest

from duologue.compat.normaliser import Normaliser
from duologue.compat.rule_table import MODEL_RULES, RULES
from tests.compat.vectors import Vector, frame_of, load_vectors, play
from tests.schema.official import UNSTABLE

OFFICIAL = UNSTABLE["v1"]
VECTORS = [pytest.param(vector, id=f"{vector.rule}: {vector.name}") for vector in load_vectors()]
READ = [pytest.param(v, id=f"{v.rule}: {v.name}") for v in load_vectors() if v.direction == "incoming"]
WRITTEN = [
    pytest.param(v, id=f"{v.rule}: {v.name}") for v in load_vectors() if v.direction == "outgoing" and not v.loses
]
OTHER_SIDE = {"agent": "client", "client": "agent"}
OPPOSITE = {"incoming": "outgoing", "outgoing": "incoming"}


@pytest.mark.parametrize("vector", VECTORS)
def test_a_frame_is_rewritten_exactly_so_and_its_rule_is_counted(vector: Vector) -> None:
    normaliser = vector.normaliser()
    counted = normaliser.hits[vector.rule]

    assert play(normaliser, vector.direction, vector.before) == vector.after
    assert normaliser.hits[vector.rule] == counted + 1


@pytest.mark.parametrize("vector", READ)
def test_a_frame_that_was_read_is_in_todays_form_and_passes_unchanged(vector: Vector) -> None:
    normaliser = vector.normaliser()
    for frame in map(frame_of, vector.after):
        assert normaliser.incoming(frame)[0] is frame


def _definition(method: str, part: str) -> str:
    suffixes = ("Response",) if part == "result" else ("Request", "Notification")
    definitions: dict[str, Any] = OFFICIAL.document["$defs"]
    return next(name for name in definitions if definitions[name].get("x-method") == method and name.endswith(suffixes))


@pytest.mark.parametrize("vector", READ)
def test_the_official_schema_accepts_frames_that_were_read(vector: Vector) -> None:
    asked = {
        given.frame["id"]: given.frame["method"] for given in vector.given if given.frame.keys() >= {"id", "method"}
    }
    for message in vector.after:
        if "error" not in message:
            part = "params" if "method" in message else "result"
            method = message["method"] if part == "params" else asked[message["id"]]
            assert OFFICIAL.validation_error(_definition(method, part), message[part]) is None


@pytest.mark.parametrize("vector", WRITTEN)
def test_a_frame_that_was_written_reads_as_the_original(vector: Vector) -> None:
    reader = Normaliser(None, OTHER_SIDE[vector.side], models=vector.options.get("models", False))  # type: ignore[arg-type]  # a literal
    for given in vector.given:
        play(reader, OPPOSITE[given.direction], given.frame)  # type: ignore[arg-type]  # a literal

    assert [play(reader, "incoming", message) for message in vector.after] == [[vector.before]]


@pytest.mark.parametrize("rule", [*RULES, *MODEL_RULES], ids=lambda rule: rule.name)
def test_every_rule_has_a_vector_for_each_direction(rule: Any) -> None:
    vectors = [vector for vector in load_vectors() if vector.rule == rule.name]
    written = {vector.dialect or "models" for vector in vectors if vector.direction == "outgoing"}
    dialects = {source for source in rule.sources if source in ("seed-003", "seed-004", "models")}

    assert any(vector.direction == "incoming" for vector in vectors) == (rule.read is not None)
    assert written == (dialects if rule.write is not None else set())


def test_every_vector_belongs_to_a_rule_and_has_a_name_of_its_own() -> None:
    vectors = load_vectors()
    names = [(vector.rule, vector.direction, vector.name) for vector in vectors]

    assert {vector.rule for vector in vectors} == {rule.name for rule in (*RULES, *MODEL_RULES)}
    assert len(set(names)) == len(names)
