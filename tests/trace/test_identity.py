"""Ids that each run makes up anew are numbered, and translated into those of another run."""

from __future__ import annotations

from typing import Any

import pytest

from duologue.trace.identity import MAX_DEPTH, IdNumbers, IdTranslator, kind_of


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("sessionId", "session"),
        ("parentSessionId", "session"),
        ("session_id", "session"),
        ("toolCallId", "toolcall"),
        ("tool_call_id", "toolcall"),
        ("sessionIds", "session"),
        ("modeId", ""),
        ("optionId", ""),
        ("text", ""),
    ],
)
def test_a_member_is_an_id_by_its_name(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_equal_runs_with_other_ids_get_equal_numbers() -> None:
    def run(session: str, call: str) -> list[Any]:
        numbers = IdNumbers()
        return [
            numbers.number({"sessionId": session}),
            numbers.number({"sessionId": session, "update": {"toolCallId": call, "_meta": {"about": call}}}),
            numbers.number({"sessionIds": [session, "another one"]}),
        ]

    assert run("s-12345678", "c-12345678") == run("t-87654321", "d-87654321")
    assert run("s-12345678", "c-12345678")[1] == {
        "sessionId": "session 1",
        "update": {"toolCallId": "toolcall 1", "_meta": {"about": "toolcall 1"}},
    }


def test_a_short_id_is_only_replaced_in_members_that_are_named_after_it() -> None:
    assert IdNumbers().number({"sessionId": "1", "text": "1"}) == {"sessionId": "session 1", "text": "1"}


def test_paired_ids_are_translated_wherever_they_occur() -> None:
    ids = IdTranslator()
    ids.pair(
        {"sessionId": "recorded-1", "list": [{"terminalId": "t1"}]}, {"sessionId": "s", "list": [{"terminalId": "9"}]}
    )

    assert not ids.is_empty
    assert ids.translate({"a": [{"sessionId": "recorded-1"}], "b": "recorded-1", "terminalId": "t1", "c": "t1"}) == {
        "a": [{"sessionId": "s"}],
        "b": "s",
        "terminalId": "9",
        "c": "t1",
    }


def test_equal_ids_and_values_of_other_types_need_no_translation() -> None:
    ids = IdTranslator()
    ids.pair({"sessionId": "same", "n": 1, "x": [1]}, {"sessionId": "same", "n": "1", "x": {}})

    assert ids.is_empty


def test_a_pair_can_change_back() -> None:
    ids = IdTranslator()
    ids.pair_ids("session", "one", "two")
    ids.pair_ids("session", "one", "one")

    assert ids.translate({"sessionId": "one"}) == {"sessionId": "one"}


def test_a_translator_begins_with_the_pairs_of_another() -> None:
    known = IdTranslator()
    known.pair_ids("terminal", "t1", "t2")
    ids = IdTranslator(known)
    ids.pair_ids("session", "a", "b")

    assert ids.translate({"terminalId": "t1", "sessionId": "a"}) == {"terminalId": "t2", "sessionId": "b"}
    assert known.translate({"sessionId": "a"}) == {"sessionId": "a"}


def test_directories_are_translated_in_paths_and_uris_but_not_in_texts() -> None:
    ids = IdTranslator()
    ids.pair_paths("/home/a/", "/srv/b")
    ids.pair_paths("/", "/never")

    assert ids.translate(["/home/a", "/home/a/x.py", "file:///home/a/x.py", "/home/ab", "in /home/a/x.py", 3]) == [
        "/srv/b",
        "/srv/b/x.py",
        "file:///srv/b/x.py",
        "/home/ab",
        "in /home/a/x.py",
        3,
    ]


def test_deeply_nested_values_end_the_search() -> None:
    deep: Any = "id-12345678"
    for _ in range(MAX_DEPTH * 5):
        deep = {"sessionId": deep} if isinstance(deep, str) else [deep]
    ids = IdTranslator()
    ids.pair(deep, deep)
    ids.pair_ids("session", "id-12345678", "other")

    assert ids.translate(deep) == deep
    assert IdNumbers().number(deep) == deep
