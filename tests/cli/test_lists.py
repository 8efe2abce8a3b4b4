"""`duologue sessions`, `agents`, `doctor` and `completion`, and what `duologue` says by itself."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from duologue.cli.parser import SHELLS, each_command
from duologue.client.connect import INITIALIZE_SECONDS
from tests.cli.program import duologue, terminal


def configure(home: Path, text: str) -> Path:
    path = home / "config" / "duologue" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def test_without_a_command_it_says_what_can_be_done(tmp_path: Path) -> None:
    ended = duologue(tmp_path)

    assert ended.returncode == 0
    assert [name for name in each_command() if f"\n    {name}" not in ended.stdout] == []


def test_help_loads_nothing_of_the_library() -> None:
    program = "import sys; from duologue.cli.main import main\ntry: main(['run', '--help'])\nexcept SystemExit: pass\n"
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            program + "print([name for name in ('asyncio', 'msgspec', 'rich') if name in sys.modules])",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert ended.stdout.endswith("[]\n")


def test_a_run_loads_nothing_that_it_does_not_use() -> None:
    program = (
        "import sys; import duologue.cli.commands.run, duologue.cli.commands.chat\n"
        "print([name for name in ('mcp', 'rich', 'starlette', 'duologue.schema.v2') if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)

    assert ended.stdout == "[]\n"


# --- sessions


def test_sessions_of_single_runs_are_marked_and_listed_after_those_that_were_continued(tmp_path: Path) -> None:
    duologue(tmp_path, "run", "first run")
    duologue(tmp_path, "chat", stdin="a chat\n")
    duologue(tmp_path, "run", "-s", "mine", "a named run")
    duologue(tmp_path, "run", "last run")

    def titles() -> list[str]:
        lines = duologue(tmp_path, "sessions").stdout.splitlines()
        return [line.partition(f"{tmp_path}  ")[2] for line in lines]

    assert [title.partition("  (1")[0] for title in titles()] == [
        "a named run",
        "a chat",
        "last run  (run)",
        "first run  (run)",
    ]
    as_json = [json.loads(line)["title"] for line in duologue(tmp_path, "sessions", "--json").stdout.splitlines()]
    assert as_json == ["last run", "a named run", "a chat", "first run"]
    in_chat = duologue(tmp_path, "chat", "--continue", stdin=":sessions\n").stderr
    listed = [line for line in in_chat.splitlines() if line.startswith("  sess")]
    assert ["(run)" in line for line in listed] == [False, False, False, True]
    assert [title for title in titles() if title.endswith("(run)")] == ["first run  (run)"]


def test_sessions_are_listed_shown_searched_and_exported(tmp_path: Path) -> None:
    duologue(tmp_path, "run", "/title Sea")
    duologue(tmp_path, "run", "/think of the sea")
    listed = [json.loads(line) for line in duologue(tmp_path, "sessions", "--json").stdout.splitlines()]
    titled = next(each["session_id"] for each in listed if each.get("title") == "Sea")
    found = duologue(tmp_path, "sessions", "search", "THOUGHT ABOUT")
    shown = duologue(tmp_path, "sessions", "show", titled[:12])
    duologue(tmp_path, "sessions", "export", titled, "--json", "-o", "sea.jsonl")

    assert len(listed) == 2
    assert found.stdout.endswith(": I have thought about it.\n")
    assert titled not in found.stdout
    assert shown.stdout.startswith("# Sea\n")
    assert "## You\n\n/title Sea\n" in shown.stdout
    exported = [json.loads(line) for line in (tmp_path / "sea.jsonl").read_text().splitlines()]
    assert [item["role"] for item in exported] == ["user", "agent"]


def test_a_session_that_is_open_somewhere_else_is_left_out_of_a_search_and_nothing_else_is(tmp_path: Path) -> None:
    duologue(tmp_path, "run", "/echo a needle")
    with terminal(tmp_path, "chat") as console:
        console.until("Ctrl-D exits.")
        console.type("/think of a needle\r")
        console.until("(end_turn")
        found = duologue(tmp_path, "sessions", "search", "needle")

    assert found.returncode == 0
    assert "You said: a needle" in found.stdout
    assert re.search(r"skipped session \S+: the session is in use\n", found.stderr)


def test_stored_text_of_an_agent_cannot_control_a_terminal(tmp_path: Path) -> None:
    duologue(tmp_path, "run", "/odd-text")
    (listed,) = duologue(tmp_path, "sessions", "--json").stdout.splitlines()
    shown = duologue(tmp_path, "sessions", "show", json.loads(listed)["session_id"])
    with terminal(tmp_path, "sessions", "show", json.loads(listed)["session_id"]) as console:
        console.until("your client survived")

    assert "\x1b[31m" in shown.stdout
    assert console.raw.count(b"\x1b") == 0


def test_sessions_of_here_are_those_of_this_directory(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    duologue(tmp_path, "run", "hello")

    assert duologue(tmp_path, "sessions", "--this-directory", cwd=other).stdout == ""
    assert duologue(tmp_path, "sessions", cwd=other).stdout.count("\n") == 1


def test_an_unknown_session_is_a_usage_error(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "sessions", "show", "nothing")

    assert (ended.returncode, ended.stderr) == (2, "duologue: no session id begins with 'nothing'\n")


# --- agents


def test_agents_come_from_the_configuration_from_path_and_from_us(tmp_path: Path) -> None:
    configure(tmp_path, '[agents.mine]\ncommand = "cat"\nargs = ["-u"]\n')
    program = tmp_path / "bin" / "gemini"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    ended = duologue(tmp_path, "agents", "--json", PATH=f"{program.parent}:/bin:/usr/bin")
    agents = {agent["name"]: agent for agent in map(json.loads, ended.stdout.splitlines())}

    assert agents["mine"] == {"name": "mine", "source": "config", "command": ["cat", "-u"]}
    assert agents["gemini"] == {"name": "gemini", "source": "path", "command": ["gemini", "--acp"]}
    assert agents["builtin"]["source"] == "builtin"


def test_an_agent_of_the_configuration_is_called_by_its_name(tmp_path: Path) -> None:
    args = ["-m", "duologue.cli.main", "agent"]
    configure(tmp_path, f"[agents.mine]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(args)}\n")

    assert duologue(tmp_path, "run", "/think", "--agent", "mine").stdout == "I have thought about it.\n"


@pytest.mark.parametrize(
    "text",
    [
        "[agents",
        "agents = 1",
        "[agents.mine]\nargs = []",
        "[agents]\nmine = 1",
        '[agents.mine]\ncommand = "mine"\nargs = "--acp"',
    ],
)
def test_a_configuration_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    configure(tmp_path, text)
    ended = duologue(tmp_path, "agents")

    assert (ended.returncode, ended.stdout) == (2, "")
    assert "config.toml" in ended.stderr


# --- doctor


def test_the_doctor_says_who_answers_and_what_to_fix(tmp_path: Path) -> None:
    configure(tmp_path, '[agents.gone]\ncommand = "no-such-agent"\n')
    ended = duologue(tmp_path, "doctor", "--json", PATH="/bin:/usr/bin")
    findings = {finding["what"]: finding for finding in map(json.loads, ended.stdout.splitlines())}

    assert ended.returncode == 1
    assert findings["agent builtin"]["state"] == "ok"
    assert findings["agent gone"]["state"] == "broken"
    assert findings["agent gone"]["fix"]
    assert findings["config"]["state"] == "ok"


@pytest.mark.fault("PRM-23")
def test_the_doctor_names_every_line_of_the_rules_that_is_refused(tmp_path: Path) -> None:
    text = '[permissions.execute]\n"git log *" = "allow"\n"git *" = "allow"\n"npm test *" = "allow"\n'
    path = configure(tmp_path, text)
    path.chmod(0o600)
    ended = duologue(tmp_path, "doctor", "--agent", "builtin", "--json")
    findings = [finding for finding in map(json.loads, ended.stdout.splitlines()) if finding["what"] == "rules"]

    assert ended.returncode == 1
    assert [(each["state"], each["detail"].partition(": ")[0]) for each in findings] == [
        ("broken", f"{path}, line 3"),
        ("broken", f"{path}, line 4"),
    ]
    assert "'git log *'" in findings[0]["detail"]
    run = duologue(tmp_path, "run", "hello")
    assert (run.returncode, run.stdout) == (2, "")
    assert "line 3" in run.stderr
    path.write_text('[permissions.execute]\n"git log *" = "allow"\n')
    assert duologue(tmp_path, "doctor", "--agent", "builtin").returncode == 0


def findings_of(ended: subprocess.CompletedProcess[str]) -> dict[str, dict[str, str]]:
    return {finding["what"]: finding for finding in map(json.loads, ended.stdout.splitlines())}


def test_the_doctor_tells_an_agent_that_wants_a_login_from_one_that_works(tmp_path: Path) -> None:
    configure(
        tmp_path,
        '[agents.locked]\ncommand = "duologue"\nargs = ["agent", "--login"]\n'
        '[agents.open]\ncommand = "duologue"\nargs = ["agent"]\n',
    )
    ended = duologue(tmp_path, "doctor", "--json")
    findings = findings_of(ended)

    assert ended.returncode == 7
    assert findings["agent open"]["state"] == "ok"
    assert findings["agent locked"]["state"] == "login"
    assert findings["agent locked"]["detail"].endswith("and wants a login")
    assert findings["agent locked"]["fix"] == "duologue chat --agent locked --login example"
    assert duologue(tmp_path, "doctor", "--agent", "open").returncode == 0
    assert duologue(tmp_path, "sessions").stdout == "", "the doctor leaves no session behind"


def test_the_doctor_checks_one_agent_after_the_other(tmp_path: Path) -> None:
    program = tmp_path / "alone.py"
    program.write_text(
        "import fcntl, pathlib, sys\n"
        "lock = pathlib.Path(__file__).with_suffix('.lock').open('w')\n"
        "fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "from duologue.builtin.agent import builtin_agent\nbuiltin_agent().run()\n"
    )
    arguments = f"command = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(program))}]\n"
    configure(tmp_path, "".join(f"[agents.{name}]\n{arguments}" for name in ("one", "two", "three")))
    ended = duologue(tmp_path, "doctor", "--json")

    assert ended.returncode == 0, ended.stdout
    assert [name for name in findings_of(ended) if name.startswith("agent ")] == [
        "agent builtin",
        "agent code",
        "agent one",
        "agent two",
        "agent three",
    ]


def test_the_doctor_lists_every_extra(tmp_path: Path) -> None:
    extras = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    findings = findings_of(duologue(tmp_path, "doctor", "--agent", "builtin", "--json"))

    # `all` is no package of its own, and `make setup` leaves out the large one.
    assert set(extras) - {"all"} <= set(findings)
    assert {findings[name]["state"] for name in set(extras) - {"all", "ray"}} == {"ok"}


def test_the_doctor_waits_for_an_agent_as_long_as_connect_does() -> None:
    parser = each_command()["doctor"][1]

    assert parser.parse_args([]).timeout == INITIALIZE_SECONDS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[agent.mine]\ncommand = "cat"\n', "unknown table 'agent'; did you mean 'agents'?"),
        ("[colours]\n", "unknown table 'colours'; the tables are agents, mcp_servers, permissions"),
        ('[agents.mine]\ncomand = "cat"\n', "[agents.mine]: unknown key 'comand'; did you mean 'command'?"),
        ('[mcp_servers.git]\nulr = "x"\n', "[mcp_servers.git]: unknown key 'ulr'; did you mean 'url'?"),
        ('[permissions]\nreed = "allow"\n', "unknown kind or setting 'reed'; did you mean 'read'?"),
        ("[permissions]\ntimeuot = 3\n", "unknown kind or setting 'timeuot'; did you mean 'timeout'?"),
    ],
)
def test_a_typo_in_the_configuration_is_an_error_with_a_suggestion(tmp_path: Path, text: str, message: str) -> None:
    configure(tmp_path, text).chmod(0o600)
    checked = duologue(tmp_path, "doctor", "--agent", "builtin", "--json")
    run = duologue(tmp_path, "run", "hello", "--", "duologue", "agent")

    assert checked.returncode == 1
    assert any(message in finding["detail"] for finding in map(json.loads, checked.stdout.splitlines()))
    assert (run.returncode, run.stdout) == (2, "")
    assert message in run.stderr


def test_a_mistyped_agent_is_answered_with_the_likely_one(tmp_path: Path) -> None:
    assert (
        "unknown agent 'bulitin'; did you mean 'builtin'?"
        in duologue(tmp_path, "run", "hi", "--agent", "bulitin").stderr
    )


# --- config


def test_the_example_configuration_is_private_valid_and_never_overwritten(tmp_path: Path) -> None:
    first = duologue(tmp_path, "config", "init")
    path = Path(first.stdout.strip())
    text = path.read_text()
    again = duologue(tmp_path, "config", "init")

    assert (first.returncode, path) == (0, tmp_path / "config" / "duologue" / "config.toml")
    assert path.stat().st_mode & 0o777 == 0o600
    assert (again.returncode, again.stdout) == (2, "")
    assert "exists already" in again.stderr
    assert path.read_text() == text
    assert duologue(tmp_path, "doctor", "--agent", "builtin").returncode == 0


def test_the_examples_of_the_configuration_are_valid_without_their_comment_signs(tmp_path: Path) -> None:
    path = Path(duologue(tmp_path, "config", "init").stdout.strip())
    examples = re.sub(r"^# ((?:\[|\w+ = ).*)$", r"\1", path.read_text(), flags=re.MULTILINE)
    path.write_text(examples)
    names = duologue(tmp_path, "agents", "--names")

    assert names.returncode == 0, names.stderr
    assert names.stdout.split()[-2:] == ["reviewer", "team"]
    assert duologue(tmp_path, "run", "/echo hi", "--mcp", "git=cat").returncode == 0


def test_the_doctor_is_content_with_an_agent_that_answers(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "doctor", "--agent", "builtin")

    assert ended.returncode == 0
    assert "✓ agent builtin: duologue's built-in agent" in ended.stdout


# --- completion


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_is_in_the_completion_script(tmp_path: Path, shell: str) -> None:
    ended = duologue(tmp_path, "completion", shell)

    assert ended.returncode == 0
    assert [name for name in each_command() if name not in ended.stdout] == []
    assert "--timeout" in ended.stdout or "-l timeout" in ended.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["duologue", "do"], ["doctor"]),
        (["duologue", "run", "--tim"], ["--timeout"]),
        (["duologue", "sessions", "sea"], ["search"]),
    ],
)
def test_bash_completes_commands_options_and_actions(tmp_path: Path, words: list[str], offered: list[str]) -> None:
    script = duologue(tmp_path, "completion", "bash").stdout
    quoted = " ".join(words)
    program = (
        f'{script}\nCOMP_WORDS=({quoted}) COMP_CWORD={len(words) - 1}\n_duologue\nprintf "%s\\n" "${{COMPREPLY[@]}}"\n'
    )
    ended = subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path
    )

    assert ended.stdout.split() == offered


def test_the_doctor_warns_of_usage_that_contradicts_itself(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "duologue"
    folder.mkdir(parents=True, mode=0o700)
    usage = {"turns": 1, "warnings": ["the cost of the session fell"]}
    line = json.dumps({"agent": "builtin", "cwd": "/", "session_id": "s1", "usage": usage})
    (folder / "sessions.jsonl").write_text(f"{line}\n")
    ended = duologue(tmp_path, "doctor", "--agent", "builtin", "--json")
    (found,) = [each for each in map(json.loads, ended.stdout.splitlines()) if each["state"] == "warning"]

    assert ended.returncode == 0
    assert found["what"] == "usage of builtin"
    assert found["detail"] == "the cost of the session fell (session s1)"
