"""`duologue proxy`, between real programs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import PROGRAM, SECONDS, duologue, environment
from tests.cli.test_serve import BUILTIN, served
from tests.cli.test_tap import ECHO

OBSERVER = """
import subprocess
from duologue.proxy import Proxy, WireMessage

print("text of the module")
proxy = Proxy()

@proxy.observe
def note(message: WireMessage):
    print("text of the observer")
    subprocess.run(["echo", "text of a child"])
    with open("seen.jsonl", "a") as file:
        file.write(f"{message.direction} {message.kind} {len(message.frame)}\\n")
"""

RULES = """
from duologue.proxy import Block, Prompt, Proxy

proxy = Proxy("rules")

@proxy.on_prompt
def check(prompt: Prompt):
    print("text of the rule")
    if "secret" in prompt.text:
        raise Block("no secrets")
    return prompt.with_prefix("Be brief.")
"""


def _proxy(home: Path, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*PROGRAM, "proxy", *arguments], input=stdin, capture_output=True, timeout=SECONDS, check=False, cwd=home,
        env=environment(home),
    )  # fmt: skip


HOSTILE = [
    b"\xef\xbb\xbfa byte order mark",
    b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1,"a":2}}\r',
    b"",
    b"   ",
    b"{",
    b"\xff\xfe\x00 no text",
    b'{"jsonrpc":"2.0","id":1e400,"result":NaN}',
    b"[" * 100_000,
    b'{"jsonrpc":"2.0","method":"giant","params":"' + b"x" * (40 << 20) + b'"}',
    b"the last line has no end",
]


def test_a_proxy_that_only_observes_passes_every_byte_in_both_directions(tmp_path: Path) -> None:
    (tmp_path / "observer.py").write_text(OBSERVER)
    stream = b"\n".join(HOSTILE)
    ended = _proxy(tmp_path, "observer.py", "--", *ECHO, stdin=stream)

    assert (ended.returncode, ended.stdout == stream) == (0, True)
    for text in (b"text of the module", b"text of the observer", b"text of a child"):
        assert text in ended.stderr
    seen = (tmp_path / "seen.jsonl").read_text().splitlines()
    lines = [line for line in HOSTILE if line.strip()]
    for direction in ("to_agent", "to_client"):
        assert len([each for each in seen if each.startswith(direction)]) == len(lines)


@pytest.mark.parametrize("code", [3, -signal.SIGKILL])
def test_a_proxy_that_only_observes_ends_like_the_agent(tmp_path: Path, code: int) -> None:
    (tmp_path / "observer.py").write_text(OBSERVER)
    end = f"import os, signal; {'os._exit(3)' if code > 0 else 'os.kill(os.getpid(), signal.SIGKILL)'}"
    assert _proxy(tmp_path, "observer.py", "--", sys.executable, "-c", end).returncode == code


@pytest.mark.parametrize("options", [[], ["--v2"]])
def test_rules_change_and_block_prompts(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "rules.py").write_text(RULES)
    agent = [*PROGRAM, "proxy", "rules.py", "--", *BUILTIN, *options]
    ended = duologue(tmp_path, "run", "hello", *options, "--", *agent)
    assert ended.returncode == 0
    assert "Be brief.\n\nhello" in ended.stdout
    assert "text of the rule" not in ended.stdout

    ended = duologue(tmp_path, "run", "secret", *options, "--", *agent)
    assert ended.returncode == 1
    assert "blocked by the rule check of rules: no secrets" in ended.stderr


async def test_rules_apply_to_a_remote_agent(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(RULES)
    async with served(tmp_path) as server:
        through = [*PROGRAM, "proxy", "rules.py:proxy", "--agent", server.url]
        ended = await asyncio.to_thread(duologue, tmp_path, "run", "hello", "--", *through)
    assert "Be brief.\n\nhello" in ended.stdout


def test_an_agent_that_ends_is_reported_to_the_client_and_in_the_exit_code(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(RULES)
    request = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n'
    ended = _proxy(tmp_path, "rules.py", "--", sys.executable, "-c", "import sys; sys.exit(7)", stdin=request)
    assert ended.returncode == 1
    assert b"7" in ended.stderr
    assert json.loads(ended.stdout)["error"]["code"] == -32603


def test_the_agent_ends_with_the_client(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(RULES)
    command = [
        sys.executable,
        "-c",
        "import os, sys; print(os.getpid(), file=sys.stderr, flush=True); sys.stdin.read()",
    ]
    ended = _proxy(tmp_path, "rules.py", "--", *command)
    assert ended.returncode == 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(ended.stderr.split()[0]), 0)


def test_the_policy_uses_the_named_rules_and_writes_the_audit_log(tmp_path: Path) -> None:
    rules = tmp_path / "team.toml"
    rules.write_text('[permissions]\nedit = "reject"\n')
    rules.chmod(0o600)
    work = tmp_path / "work"
    work.mkdir()
    policy = [*PROGRAM, "proxy", "policy", "--rules", str(rules), "--audit", str(tmp_path / "audit.jsonl")]
    ended = duologue(tmp_path, "run", "/edit", "--yes", "--", *policy, "--", *BUILTIN, cwd=work)
    assert "I left" in ended.stdout
    records = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert records[-1]["decision"] == "reject"
    assert not list(work.iterdir())


def test_the_logger_logs_each_message_but_no_content(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    duologue(tmp_path, "run", "hello there", "--", *PROGRAM, "proxy", "logger", "--log", str(log), "--", *BUILTIN)
    text = log.read_text()
    records = [json.loads(line) for line in text.splitlines()]
    requests = [each["method"] for each in records if each["kind"] == "request"]
    assert requests[:3] == ["initialize", "session/new", "session/prompt"]
    assert "hello there" not in text
    assert log.stat().st_mode & 0o077 == 0

    ended = _proxy(tmp_path, "logger", "--", *ECHO, stdin=b'{"jsonrpc":"2.0","id":1,"method":"a\\u001b"}\nno\n')
    assert "→ request" in ended.stderr.decode()
    assert "← invalid" in ended.stderr.decode()
    assert b"\x1b" not in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.py", "--", "x"], "missing.py: no such file"),
        (["no_module:proxy", "--", "x"], "No module named 'no_module'"),
        (["empty.py", "--", "x"], "has no proxy 'proxy'; it has none"),
        (["two.py", "--", "x"], "has no proxy 'proxy'; it has one, other"),
        (["two.py:on", "--", "x"], "did you mean 'one'"),
        (["broken.py", "--", "x"], "broken.py: ZeroDivisionError"),
        (["two.py:one", "--log", "x", "--", "x"], "--log is an option of `duologue proxy logger`"),
        (["policy", "--rules", "missing.toml", "--", "x"], "missing.toml"),
        (["policy", "--rules", "no-rules.toml", "--", "x"], "has no rules"),
        (["two.py:one", "--agent", "x", "--", "x"], "not both"),
        (["two.py:one", "--"], "there is no command after `--`"),
    ],
)
def test_a_wrong_command_line_is_explained(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "two.py").write_text("from duologue.proxy import Proxy\none, other = Proxy(), Proxy()\n")
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "no-rules.toml").write_text('edit = "reject"')
    (tmp_path / "no-rules.toml").chmod(0o600)
    ended = duologue(tmp_path, "proxy", *arguments)
    assert ended.returncode == 2
    assert message in ended.stderr


def test_the_example_changes_answers_and_blocks(tmp_path: Path) -> None:
    example = str(Path(__file__).parents[2] / "examples" / "proxy_rules.py")
    agent = [*PROGRAM, "proxy", example, "--", *BUILTIN]
    (tmp_path / ".env").write_text("TOKEN=1")
    answer = duologue(tmp_path, "run", "see db.internal", "--", *agent).stdout
    assert "Answer in English, and name the files that you read.\n\nsee HOST" in answer
    assert "0 lines" in duologue(tmp_path, "run", f"/read {tmp_path}/.env", "--yes", "--", *agent).stdout
    ended = duologue(tmp_path, "run", "AKIAABCDEFGHIJKLMNOP", "--", *agent)
    assert "blocked by the rule check_prompt of team rules: the prompt contains an access key" in ended.stderr


def test_without_an_agent_and_a_conductor_the_client_gets_an_explanation(tmp_path: Path) -> None:
    request = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n'
    ended = _proxy(tmp_path, "logger", stdin=request)
    assert "this proxy has no agent" in json.loads(ended.stdout)["error"]["message"]
