"""Sessions of the command line: names for scripts, titles from the first prompt, deleting and pruning."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.cli.program import ODD_AGENT, duologue, terminal

UNTITLED = """
import sys
from duologue import Agent, Turn

agent = Agent("untitled")
agent.persist_sessions(sys.argv[1])


@agent.on_prompt
async def answer(turn: Turn) -> None:
    turn.session.state["count"] = turn.session.state.get("count", 0) + 1
    await turn.say(f"prompt {turn.session.state['count']}\\n")


agent.run()
"""


def untitled_agent(home: Path) -> list[str]:
    """Return the command of an agent that counts prompts in its stored sessions and gives them no titles."""
    path = home / "untitled.py"
    path.write_text(UNTITLED)
    return ["--", sys.executable, str(path), str(home / "stored")]


def listed(home: Path, *options: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in duologue(home, "sessions", "--json", *options).stdout.splitlines()]


def test_a_named_session_is_opened_and_then_continued(tmp_path: Path) -> None:
    agent = untitled_agent(tmp_path)
    answers = [duologue(tmp_path, "run", "-s", name, "hi", *agent).stdout for name in ("a", "a", "b", "a")]

    assert answers == ["prompt 1\n", "prompt 2\n", "prompt 1\n", "prompt 3\n"]


def test_a_name_belongs_to_one_agent_and_one_directory(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for cwd in (tmp_path, other):
        assert duologue(tmp_path, "run", "-s", "a", "/echo hi", cwd=cwd).returncode == 0
    assert duologue(tmp_path, "run", "-s", "a", "hi", *untitled_agent(tmp_path)).stdout == "prompt 1\n"
    assert sorted(each["cwd"] for each in listed(tmp_path)) == sorted(map(str, (tmp_path, other)))


def test_a_named_session_that_was_deleted_is_opened_again(tmp_path: Path) -> None:
    duologue(tmp_path, "run", "-s", "a", "/echo hi")
    (session,) = listed(tmp_path)
    duologue(tmp_path, "sessions", "delete", session["session_id"])
    again = duologue(tmp_path, "run", "-s", "a", "/echo again")

    assert again.returncode == 0
    assert "the session 'a' no longer exists: opening a new one" in again.stderr
    assert len(listed(tmp_path)) == 1


def test_a_chat_continues_the_named_session_of_a_run(tmp_path: Path) -> None:
    duologue(tmp_path, "run", "-s", "a", "/echo from the run")
    with terminal(tmp_path, "chat", "-s", "a") as console:
        console.until("You said: from the run")
        console.until("Ctrl-D exits.")
        console.until("›")  # before that, the key is lost
        console.type("\x04")

        assert console.wait() == 0


def test_a_name_needs_an_agent_that_can_continue_sessions(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "-s", "a", "hi", "--", *ODD_AGENT, "empty")

    assert ended.returncode == 2
    assert "-s: this agent cannot continue sessions" in ended.stderr


def test_a_name_and_an_id_exclude_each_other(tmp_path: Path) -> None:
    assert "not allowed with" in duologue(tmp_path, "run", "-s", "a", "--session", "b", "hi").stderr


def test_the_title_of_a_session_is_its_first_prompt(tmp_path: Path) -> None:
    agent = untitled_agent(tmp_path)
    duologue(tmp_path, "run", "-s", "a", "\n  Fix the tests\nof the parser", *agent)
    duologue(tmp_path, "run", "-s", "a", "And now the docs", *agent)

    assert [each.get("title") for each in listed(tmp_path, *agent)] == ["Fix the tests"]
    assert "  Fix the tests\n" in duologue(tmp_path, "sessions", *agent).stdout
    assert "  Fix the tests\n" in duologue(tmp_path, "chat", *agent, stdin=":sessions\n").stderr
    with terminal(tmp_path, "chat", *agent) as console:
        console.until("Ctrl-D exits.")
        console.type(":resume\r")
        console.until(". Fix the tests  ")
        console.until("Your choice (")
        console.type("q")


def test_a_search_without_a_hit_exits_with_one(tmp_path: Path) -> None:
    duologue(tmp_path, "run", "/echo a needle")

    assert duologue(tmp_path, "sessions", "search", "needle").returncode == 0
    missed = duologue(tmp_path, "sessions", "search", "haystack")
    assert (missed.returncode, missed.stdout) == (1, "")


def test_one_session_is_deleted_and_no_other(tmp_path: Path) -> None:
    duologue(tmp_path, "run", "/echo one")
    duologue(tmp_path, "run", "/echo two")
    one, two = listed(tmp_path)
    ended = duologue(tmp_path, "sessions", "delete", one["session_id"][:12])

    assert (ended.returncode, ended.stdout) == (0, f"{one['session_id']}\n")
    assert listed(tmp_path) == [two]
    assert duologue(tmp_path, "sessions", "delete", "nothing").returncode == 2


def test_prune_deletes_what_is_older_and_dry_run_only_lists_it(tmp_path: Path) -> None:
    duologue(tmp_path, "run", "/echo one")
    duologue(tmp_path, "run", "/echo two")
    known = listed(tmp_path)

    assert len(known) == 2
    assert duologue(tmp_path, "sessions", "prune", "--older-than", "30").stdout == ""
    would = duologue(tmp_path, "sessions", "prune", "--older-than", "0.0000001", "--dry-run")
    assert all(each["session_id"] in would.stdout for each in known)
    assert listed(tmp_path) == known
    everything = duologue(tmp_path, "sessions", "prune", "--older-than", "0.0000001")
    assert (everything.returncode, len(everything.stdout.splitlines())) == (0, 2)
    assert listed(tmp_path) == []


def test_prune_needs_an_age(tmp_path: Path) -> None:
    assert "needs `--older-than DAYS`" in duologue(tmp_path, "sessions", "prune").stderr
    assert "positive number of days" in duologue(tmp_path, "sessions", "prune", "--older-than", "-3").stderr
