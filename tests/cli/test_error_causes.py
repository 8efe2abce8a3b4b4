"""Why an agent failed, where it says so in the data of its error."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from duologue.cli.error_report import answered, explain
from duologue.errors import InternalError, RequestError, error_for_code
from tests.cli.program import ODD_AGENT, duologue, terminal

CAUSES: list[tuple[Any, str]] = [
    ("no credit", "no credit"),
    ({"details": "no credit"}, "no credit"),
    ({"message": "no credit", "code": 7}, "no credit"),
    ({"error": {"type": "quota", "message": "no credit"}}, "no credit"),
    ({"reason": "", "cause": "no credit"}, "no credit"),
    ({"status": 429}, '{"status": 429}'),
    (["no", "credit"], '["no", "credit"]'),
]


@pytest.mark.fault("CLI-06")
@pytest.mark.parametrize(("data", "cause"), CAUSES)
def test_the_cause_is_shown_with_the_code_and_is_in_the_json(tmp_path: Path, data: Any, cause: str) -> None:
    error = {"code": -32603, "message": "Internal error", "data": data}
    ended = duologue(tmp_path, "run", "hi", "--json", "--", *ODD_AGENT, "error", json.dumps(error))
    event = json.loads(ended.stdout.splitlines()[-1])

    assert ended.returncode == 1
    assert f"duologue: the agent answered with an error: Internal error (-32603): {cause}\n" in ended.stderr
    assert (event["event"], event["code"], event["error"]) == ("Error", 1, error)
    assert event["message"].endswith(cause)


@pytest.mark.fault("CLI-06")
@pytest.mark.parametrize("command", ["run", "chat"])
def test_a_person_sees_the_cause_and_it_does_nothing(tmp_path: Path, command: str) -> None:
    error = {"code": -32603, "message": "Internal error", "data": {"details": "no \x1b[2J\u202ecredit\x07"}}
    prompt = ["hi"] if command == "run" else []
    with terminal(tmp_path, command, *prompt, "--", *ODD_AGENT, "error", json.dumps(error), TERM="dumb") as console:
        if command == "chat":
            console.until("> ")
            console.type("hi\r")
        console.until("Internal error (-32603): no credit")
        if command == "chat":
            console.until("> ")
            console.type("\x04")
        assert console.wait() == (1 if command == "run" else 0)


@pytest.mark.parametrize(
    ("message", "data"),
    [
        ("no", None),
        ("no credit", "no credit"),
        ("no credit", {"details": "no credit"}),
        ("no", {}),
        ("no", "  "),
        ("no", 7),
    ],
)
def test_data_that_adds_nothing_to_the_message_is_left_out(message: str, data: Any) -> None:
    error = error_for_code(-32603, message, data)

    assert str(error) == message
    assert explain(error) == f"the agent answered with an error: {message} (-32603)"


def test_the_cause_is_part_of_the_text_of_an_error_and_is_cut() -> None:
    assert str(error_for_code(7, "no", {"details": "credit"})) == "no: credit"
    assert str(RequestError("no", data="x" * 10_000)).endswith("x… (10,000 characters)")
    assert RequestError("no", data={"error": {"error": {"error": {"error": "deep"}}}}).detail is None


def test_the_answer_behind_an_error_of_ours_is_found() -> None:
    ours = ValueError()
    ours.__cause__ = InternalError("why", data=[1])

    assert answered(ours) == {"code": -32603, "message": "why", "data": [1]}
    assert answered(ValueError()) is None
    assert answered(None) is None


@pytest.mark.parametrize(
    ("arguments", "step"),
    [
        (["hello", "--timeout", "0.5", "--", "sleep", "60"], "`--timeout` allows more time; `--record FILE`"),
        (["/crash 3"], "`--record FILE` keeps every message, `--stderr` shows the agent's log"),
        (["hello", "--", "cat"], "is it an ACP agent? Many need a flag for that, such as --acp"),
        (["hello", "--session", "nope"], "`duologue sessions` lists the sessions that can be continued"),
    ],
)
def test_an_error_says_what_to_do_next(tmp_path: Path, arguments: list[str], step: str) -> None:
    ended = duologue(tmp_path, "run", *arguments)

    assert ended.returncode != 0
    assert step in ended.stderr


def test_a_log_that_explains_the_error_is_shown_instead_of_advice(tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(
        "from duologue import run\n\n\nasync def answer(turn):\n    raise KeyError('key')\n\n\nrun(answer)\n", "utf-8"
    )
    ended = duologue(tmp_path, "run", "hello", "--", sys.executable, str(agent))

    assert "KeyError: 'key'" in ended.stderr
    assert "--record" not in ended.stderr
