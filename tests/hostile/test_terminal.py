"""The promise: text of an agent never acts on the terminal it is shown on, whichever command shows it.

Each test runs the real program on a pseudo-terminal, with an agent that puts attacks into every text it may send, and
looks at the bytes that a terminal would have got.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.cli.program import ODD_AGENT, PROGRAM, Terminal, duologue, terminal
from tests.hostile.shouting_agent import ACTS, bad

AGENT = [sys.executable, str(Path(__file__).with_name("shouting_agent.py"))]

OWN = re.compile(
    r"\x1b\[[0-9;]*m"  # looks
    r"|\x1b\[\?(?:25|2004|7|1|12)[hl]"  # cursor, pasting, line wrap and keys, as the line editor wants them
    r"|\x1b\[[0-9]*[ABCDGK]|\x1b\[J|\r|(?<!\x07)\x08"  # moves of what is drawn again, inside of it
)
"""The sequences that this program itself writes."""

ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\U000e0041]"
)


def assert_nothing_acted(console: Terminal, *shown: str) -> None:
    """Assert that only our own escape sequences reached the terminal, and that these labels did."""
    text = console.raw.decode("utf-8", "backslashreplace")

    assert [label for label in shown if label not in console.text] == []
    assert ACTING.findall(OWN.sub("", text)) == []
    assert not re.search(r"\x1b\[(?:[0-9;]*;)?(?:53|8)m|\rOVERWRITTEN", text)


@pytest.mark.parametrize("kind", ["xterm", "dumb"])
@pytest.mark.fault("TRM-24", "CLI-01")
def test_a_turn_is_shown_and_does_not_act_on_the_terminal(tmp_path: Path, kind: str) -> None:
    with terminal(tmp_path, "run", "hi", "--yes", "--", *AGENT, "talks", TERM=kind) as console:
        assert console.wait() == 0
        assert_nothing_acted(
            console,
            *(
                "L-thought",
                "L-message",
                "end of blocks",
                "L-user",
                "L-image",
                "L-link",
                "L-plan",
                "L-unknown",
                "L-mode",
            ),
            *("L-severity", "L-notice", "L-tool", "L-place", "L-output", "L-failed", "L-stop"),
            *("L-path", "L-old", "L-new"),
        )
        if kind == "xterm":
            assert "https://good.example (https://evil.example/" in " ".join(console.text.split())


@pytest.mark.fault("CLI-02")
def test_json_on_a_terminal_is_ascii(tmp_path: Path) -> None:
    with terminal(tmp_path, "run", "hi", "--yes", "--json", "--", *AGENT, "talks") as console:
        assert console.wait() == 0
        lines = console.raw.decode("ascii").split("\r\n")

        assert all(line.isprintable() for line in lines)
        events = [json.loads(line) for line in lines if line.startswith("{")]
        assert next(each for each in events if each["event"] == "Thought")["text"] == bad("L-thought")
        assert events[-1]["stop_reason"] == bad("L-stop")


@pytest.mark.fault("CLI-03")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_off_a_terminal_stdout_is_exact(tmp_path: Path, options: list[str]) -> None:
    ended = duologue(tmp_path, "run", "hi", "--yes", *options, "--", *AGENT, "talks")

    if options:
        texts = [json.loads(line).get("text") for line in ended.stdout.split("\n") if line]
        assert bad("L-thought") in texts
        assert ACTS[-1] in ended.stdout  # not escaped where programs read it
    else:
        assert ended.stdout.startswith(bad("L-message"))
        assert ended.stdout.count(ACTS.partition("\x1b[6n")[0]) > 3
    assert ACTING.sub("", ended.stderr) == ended.stderr


@pytest.mark.parametrize(
    ("kind", "code", "labels"),
    [
        ("fails", 1, ["L-error"]),
        ("dies", 1, ["L-last-words"]),
        ("noisy", 8, ["L-banner"]),
        ("locked", 7, ["L-locked", "L-method", "L-login"]),
    ],
)
@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.fault("CLI-01")
def test_the_error_of_a_failed_run_does_not_act_on_the_terminal(
    tmp_path: Path, kind: str, code: int, labels: list[str], options: list[str]
) -> None:
    with terminal(tmp_path, "run", "hi", *options, "--", *AGENT, kind) as console:
        if kind == "locked":
            console.until("Your choice")
            console.type("\n")
        assert console.wait() == code
        assert_nothing_acted(console, *labels)


@pytest.mark.fault("CLI-01", "PRM-08")
@pytest.mark.parametrize("command", ["run", "chat"])
def test_a_permission_prompt_does_not_act_on_the_terminal(tmp_path: Path, command: str) -> None:
    prompt = ["hi"] if command == "run" else []
    with terminal(tmp_path, command, *prompt, "--ask", "--", *AGENT, "asks") as console:
        if command == "chat":
            console.until("›")
            console.type("hi\r")
        console.until("L-option")
        console.until("Your choice")
        console.type("1\n")
        console.until("L-form")
        console.until("Answer?")
        console.type("y\n")
        console.until("L-field")
        console.type("wrong\n")
        console.until("L-choice")
        console.until("L-field")
        console.type("\n")
        console.until("L-visit")
        console.until("Host: evil.example")
        console.type("\n")
        console.until("(end_turn")
        if command == "chat":
            console.until("›")
            console.type("\x04")
        assert console.wait() == (9 if command == "run" else 0)
        assert_nothing_acted(console, "L-question", "L-line", "L-help", "L-address")


TITLES = {
    "approved": "already approved by the user",
    "buttons": "Look\n  1. [y] Allow once\nYour choice (y, n, 1 to 5): 1\r\x1b[1A",
    "unseen": f"\u202e\u2066\u200b{ACTS}",
    "long": "x" * 1024 * 1024,
}


@pytest.mark.fault("PRM-08")
@pytest.mark.parametrize("title", TITLES.values(), ids=TITLES)
def test_a_title_cannot_hide_the_command_of_a_permission_request(tmp_path: Path, title: str) -> None:
    """The user sees the title cut and on one line, and the command in full, before answering."""
    line = "rm -rf " + "very/" * 200 + "deep"
    call = {"toolCallId": "t", "title": title, "kind": "execute", "rawInput": {"command": line}}
    (tmp_path / "call.json").write_text(json.dumps(call))
    with terminal(tmp_path, "run", "hi", "--", *ODD_AGENT, "ask", str(tmp_path / "call.json")) as console:
        question = console.until("1 to 4, arrow keys): ").partition("The agent asks to: ")[2]
        console.type("n\n")
        console.until("you chose reject_once")
        console.wait()
        assert_nothing_acted(console)

    asked_to, *rest = question.replace("\n    | ", "").split("\n")  # long lines go on behind a bar
    assert len(asked_to) < 1000
    assert ("(1,048,576 characters)" in asked_to) == (title == TITLES["long"])
    assert [each for each in rest if each.endswith(line)] != []
    assert sum(each.startswith("  1. ") for each in rest) == 1


@pytest.mark.fault("TRM-24")
def test_output_of_a_command_is_stored_and_does_not_act_when_shown(tmp_path: Path) -> None:
    (tmp_path / "output").write_text(f"L-printed{ACTS}L-printed-last\n", newline="")
    with terminal(tmp_path, "run", "/run cat output", "--yes") as console:
        assert console.wait() == 0
        assert_nothing_acted(console, "L-printed", "L-printed-last")
    duologue(tmp_path, "run", "/run cat output", "--yes", "--record", "run.acp")
    recorded = [line for line in (tmp_path / "run.acp").read_text("utf-8").split("\n") if "L-printed-last" in line]
    assert json.loads(recorded[0])["frame"]["result"]["output"] == f"L-printed{ACTS}L-printed-last\n"


@pytest.mark.parametrize("kind", ["xterm", "dumb"])
@pytest.mark.fault("CLI-01")
def test_names_that_the_agent_offers_in_a_chat_do_not_act_on_the_terminal(tmp_path: Path, kind: str) -> None:
    with terminal(tmp_path, "chat", "--", *AGENT, "talks", TERM=kind) as console:
        console.until("Ctrl-D exits.")
        prompt = "›" if kind == "xterm" else "> "
        for line, label in {
            ":mode": "mode = L-mode",
            ":mode nonsense": "unknown mode",
            ":set": "L-setting",
            ":set nonsense 1": "unknown setting",
            ":commands": "L-description",
            ":sessions": "L-title",
            ":usage": "the agent has reported no usage so far",
            ":resume L-other": "session id begins with",
            "hi": "L-stop",
        }.items():
            console.until(prompt)
            console.type(f"{line}\r")
            console.until(label)
        console.until(prompt)
        if kind == "xterm":
            console.type("/")
            console.complete("/plain")  # and not the command whose name would act
            console.type("\x15:mode \t\x15:set \t\x15")
        console.type("\x04")
        assert console.wait() == 0
        assert_nothing_acted(console, "L-agent-title", "L-message", "L-notice")


@pytest.mark.parametrize(
    ("arguments", "labels"),
    [
        (["list"], ["L-session", "L-title"]),
        (["show", "L-session"], ["L-message", "L-tool"]),
        (["export", "L-session"], ["L-message"]),
        (["search", "L-message"], ["L-session", "L-message"]),
    ],
)
@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.fault("CLI-01", "CLI-02")
def test_the_list_of_sessions_does_not_act_on_the_terminal(
    tmp_path: Path, arguments: list[str], labels: list[str], options: list[str]
) -> None:
    with terminal(tmp_path, "sessions", *arguments, *options, "--", *AGENT) as console:
        assert console.wait() == 0
        assert_nothing_acted(console, *labels)
        assert not options or console.raw.isascii()
    exact = duologue(tmp_path, "sessions", *arguments, *options, "--", *AGENT).stdout
    assert bool(options) == all(line.startswith("{") for line in exact.split("\n") if line)
    assert arguments[0] not in ("show", "export") or options or ACTS in exact


@pytest.mark.fault("CLI-01")
def test_a_shown_recording_does_not_act_on_the_terminal(tmp_path: Path) -> None:
    duologue(tmp_path, "run", "hi", "--record", "run.acp", "--", *AGENT, "talks")
    is_whole = {"--json", "--full", "--conversation"}
    for options in ([], ["--json"], ["--full"], ["--conversation"], ["--conversation", "--json"], ["--stats"]):
        with terminal(tmp_path, "trace", "run.acp", *options) as console:
            assert console.wait() == 0
            assert_nothing_acted(console, *(["L-message", "L-tool"] if {*options} & is_whole else []))


@pytest.mark.fault("CLI-01")
def test_the_doctor_and_the_list_of_agents_do_not_act_on_the_terminal(tmp_path: Path) -> None:
    folder = tmp_path / "config" / "duologue"
    folder.mkdir(parents=True)
    for name, kind in (("good", ""), ("dead", "exits"), ("shut", "locked")):
        args = json.dumps([AGENT[1], kind, ACTS.replace("\x00", "")]).replace("\\udb40\\udc41", "\\U000E0041")
        with (folder / "config.toml").open("a") as config:
            config.write(f"[agents.{name}]\ncommand = {json.dumps(AGENT[0])}\nargs = {args}\n".replace("\x7f", ""))
    for arguments in (["doctor"], ["doctor", "--json"], ["agents"], ["agents", "--json"], ["agents", "--names"]):
        with terminal(tmp_path, *arguments) as console:
            console.wait()
            labels = ["L-agent-title", "L-method", "L-stderr", "shut"] if "doctor" in arguments else []
            assert_nothing_acted(console, "good", "dead", *labels)


INITIALIZE = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'
NEW = '{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/tmp","mcpServers":[]}}\n'


@pytest.mark.parametrize("options", [[], ["--protocol", "v2"]])
@pytest.mark.fault("CLI-01", "CLI-02")
def test_frames_forwarded_to_a_terminal_are_ascii(tmp_path: Path, options: list[str]) -> None:
    with terminal(tmp_path, "connect", *options, "--", *AGENT, "talks") as console:
        newer = 'Version":2,"info":{"name":"n","version":"1"}'
        console.type(INITIALIZE if not options else INITIALIZE.replace('Version":1', newer))
        console.until("L-agent")
        console.type(NEW)
        console.until("L-session")
        console.type("\x04")
        console.wait()
        assert_nothing_acted(console, "L-stderr")


@pytest.mark.fault("CLI-01")
def test_stderr_of_a_served_agent_does_not_act_on_the_servers_terminal(tmp_path: Path) -> None:
    with terminal(tmp_path, "serve", "--access-log", "--", *AGENT, "talks") as console:
        url = "ws://" + console.until("\n").partition("ws://")[2].strip()
        duologue(tmp_path, "run", "hi", "--agent", url)
        console.until("L-stderr")
        console.interrupt()
        console.wait()
        assert_nothing_acted(console)


@pytest.mark.fault("CLI-02")
def test_the_built_in_agent_answers_a_terminal_in_ascii(tmp_path: Path) -> None:
    with terminal(tmp_path, "agent") as console:
        console.type(INITIALIZE + NEW)
        console.until('"sessionId":"')
        session = console.until('"').removesuffix('"')
        params = f'{{"sessionId":"{session}","prompt":[{{"type":"text","text":"/echo L-echo \\u009b2J \\u202e"}}]}}'
        console.type(f'{{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{params}}}\n')
        console.until("end_turn")
        console.type("\x04")
        assert console.wait() == 0
        assert_nothing_acted(console, "L-echo")
        assert console.raw.isascii()


@pytest.mark.fault("CLI-01")
def test_tracebacks_and_log_lines_do_not_act_on_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import duologue.config.agents as found, logging\n"
        "from tests.hostile.shouting_agent import bad\n"
        "def fail(*_):\n"
        "    logging.getLogger('x').warning(bad('L-logged'))\n"
        "    raise RuntimeError(bad('L-raised'))\n"
        "found.find_agents = fail\n"
    )
    root = str(Path(__file__).parents[2])
    with terminal(tmp_path, "agents", PYTHONPATH=f"{tmp_path}:{root}", PYTHONSAFEPATH="1") as console:
        assert console.wait() == 1
        assert_nothing_acted(console, "L-logged", "L-raised", "Traceback")


def test_the_program_is_the_one_that_users_start() -> None:
    """The tests above start the module; the installed command is the same function."""
    assert PROGRAM[1:] == ["-m", "duologue.cli.main"]
