"""The promise: a rule that ends in ` *` lets no agent run a program of its choice, write a file, or read one elsewhere.

Each attack is played by an agent, against a client that allows every command which may end in ` *`, all at once; and
without a client, on the program of this machine, to show that it would do harm.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from duologue.client.permissions.reviewed_commands import REVIEWED, ReviewedCommand
from duologue.client.permissions.rules import Rule, Rules
from duologue.client.services.terminals import Terminals
from tests.client.scripted_agent import ScriptedAgent
from tests.local.sandbox import snapshot

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(shutil.which("git") is None, reason="the attacks need git"),
]

EVERY_RULE: Rule = {f"{entry.name} *": "allow" for entry in REVIEWED}
CANARY = "the canary that no command may show"
QUIET = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}

# {evil} is a program that leaves a mark, {mark} the mark, {outside} a directory next to the project.
ATTACKS = {
    "a pager, bundled and glued": "git grep -nO{evil} text",
    "a pager, glued": "git grep -O{evil} text",
    "a pager, abbreviated": "git grep --open-files-in-p={evil} text",
    "a pager behind the options": "git grep -l -i -n -O{evil} text",
    "an output, glued": "git log --output={mark}",
    "an output, as a word": "git diff --output {mark} HEAD",
    "an output of show": "git show --output={mark}",
    "a program that checks signatures": "git log --show-signature",
    "the same by a format": "git log --format=%G?",
    "the same by a format with a sign": "git log --pretty=format:%+GG",
    "a conversion": "git diff --textconv HEAD~1 HEAD -- file.odd",
    "a setting before the subcommand": "git -c alias.log=!{evil} -c core.fsmonitor={evil} status",
    "an editor": "git branch --edit-desc",
    "a transport, abbreviated": "git fetch --upload-pa={evil} .",
    "a transport, short": "git clone -u {evil} . copy",
    "a transport of ls-remote": "git ls-remote --upload-pack={evil} .",
    "an archive at home": "git archive --remote=. --exec={evil} HEAD",
    "a command after each commit": "git rebase -x {evil} HEAD~1",
    "a compressor": "sort -S 1k --compress-prog={evil} many",
    "an output of sort": "sort -no {mark} many",
    "a filter": "split --filter={evil} file",
    "a second operand that is written": "uniq file {mark}",
    "a wrapper: taskset": "taskset 1 {evil}",
    "a wrapper: flock": "flock file {evil}",
    "a wrapper: prlimit": "prlimit {evil}",
    "a wrapper: setarch": "setarch -R {evil}",
    "a wrapper: env": "env {evil}",
    "a wrapper: timeout": "timeout 5 {evil}",
    "a search that acts": "find . -name file -exec {evil} ;",
    "a search that writes": "find . -fprint {mark}",
    "a script that writes": "sed -n w{mark} file",
    "a script that runs": "sed 1e{evil} file",
    "an archive": "tar --to-command={evil} -xf archive.tar",
    "a file outside": "cat {outside}/secret",
    "a file above": "cat ../outside/secret",
    "a file behind a link": "head -n1 link",
    "a directory behind a link": "grep -h . out/secret",
    "a file of secrets": "cat .env",
    "a search through all files": "grep -r canary",
    "patterns from a file": "grep -vf /dev/null {outside}/secret",
    "a pattern that makes a file of the first word": "grep -e . {outside}/secret",
    "a comparison with a file outside": "git diff --no-index file {outside}/secret",
    "the same without the option": "git diff file {outside}/secret",
    "contents from elsewhere": "git blame --contents={outside}/secret file",
    "a search without the repository": "git grep --no-index canary",
    "a search through what is not in the repository": "git grep --untracked canary",
    "names from a file": "wc --files0-from={outside}/names",
    "a file of the repository that suggests secrets": "git show HEAD:.env",
}


class World:
    """A repository to work in, something to steal next to it, and a program that leaves a mark when it runs."""

    def __init__(self, home: Path) -> None:
        self.project, self.outside = home / "project", home / "outside"
        self.mark, self.evil = self.outside / "mark", self.outside / "evil"
        for folder in (self.project, self.outside):
            folder.mkdir()
        self.evil.write_text(f"#!/bin/sh\ntouch {self.mark}\ncat >/dev/null 2>&1 </dev/null\n")
        self.evil.chmod(0o755)
        (self.outside / "secret").write_text(f"{CANARY}\n")
        (self.outside / "names").write_bytes(f"{CANARY}\0".encode())
        (self.project / "file").write_text("some text\n")
        (self.project / "file.odd").write_text("one\n")
        (self.project / "many").write_text("".join(f"{number}\n" for number in range(200)))
        (self.project / ".env").write_text(f"{CANARY}\n")
        (self.project / "link").symlink_to(self.outside / "secret")
        (self.project / "out").symlink_to(self.outside)
        self._make_history()

    def _make_history(self) -> None:
        self.git("init", "-q", "-b", "main")
        (self.project / ".gitattributes").write_text("*.odd diff=odd\n")
        for name, value in {
            "user.name": "x",
            "user.email": "x@example.com",
            **dict.fromkeys(["gpg.program", "core.editor", "core.pager", "core.sshCommand"], str(self.evil)),
        }.items():
            self.git("config", name, value)
        self.git("add", "--", "file", "file.odd", ".gitattributes", ".env")
        self.git("commit", "-qm", "first")
        (self.project / "file.odd").write_text("two\n")
        self.git("commit", "-qam", "second")
        # What a signed commit looks like is enough for git to ask the program that checks it.
        head = self.git("cat-file", "commit", "HEAD").replace(
            "\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n -----END PGP SIGNATURE-----\n\n", 1
        )
        signed = self.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=head).strip()
        self.git("reset", "-q", "--soft", signed)
        subprocess.run(["tar", "-cf", "archive.tar", "file"], cwd=self.project, check=True)

    def git(self, *arguments: str, stdin: str = "") -> str:
        ended = subprocess.run(
            ["git", *arguments],
            cwd=self.project,
            env=os.environ | QUIET,
            input=stdin,
            check=True,
            text=True,
            capture_output=True,
        )
        return ended.stdout

    def argv(self, line: str) -> list[str]:
        return [word.format(evil=self.evil, mark=self.mark, outside=self.outside) for word in line.split()]

    def run(self, argv: list[str]) -> str:
        """Run it without a client; what it says counts, not whether it ends well."""
        ended = subprocess.run(
            argv,
            cwd=self.project,
            env=os.environ | QUIET,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
        )
        return ended.stdout.decode(errors="replace")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.fault("PRM-20")
@pytest.mark.fault("PRM-21")
@pytest.mark.parametrize("line", ATTACKS.values(), ids=ATTACKS)
async def test_no_attack_is_allowed_by_any_rule(world: World, line: str) -> None:
    argv = world.argv(line)
    before = snapshot(world.outside)
    agent = ScriptedAgent()
    rules = Permissions(execute=EVERY_RULE)
    async with (
        asyncio.timeout(60),
        connect(agent, permissions=rules, terminals=Terminals()) as remote,
        remote.new_session(world.project),
    ):
        for command in ({"command": argv[0], "args": argv[1:]}, {"command": " ".join(argv)}):
            answer = await agent.ask("terminal/create", {"sessionId": "s1", **command})
            assert answer["error"]["message"] == "not permitted by the client's rules"
    assert snapshot(world.outside) == before


@pytest.mark.parametrize("line", ATTACKS.values(), ids=ATTACKS)
def test_each_attack_succeeds_without_rules(world: World, line: str) -> None:
    argv = world.argv(line)
    if shutil.which(argv[0]) is None:
        pytest.skip(f"no {argv[0]} here")
    if "--textconv" in argv:
        world.git("config", "diff.odd.textconv", str(world.evil))
    output = world.run(argv)
    if not world.mark.exists() and CANARY not in output:
        pytest.skip(f"this version of {argv[0]} is not open to it: {output[:200]}")


@pytest.mark.fault("PRM-20")
@pytest.mark.parametrize(
    "variable",
    [
        *(
            "LANGUAGE=../../../..{place}",
            "LANGUAGE=de:../../../..{place}",
            "LC_ALL={place}",
            "LANG={place}",
            "TZ={place}",
        ),
        *("TZ=:{place}", "TERM=../x", "LC_MESSAGES=../../../..{place}", "PATH={place}", "GIT_EXTERNAL_DIFF={place}"),
    ],
)
async def test_no_variable_makes_an_allowed_command_load_files_of_the_agent(world: World, variable: str) -> None:
    """Translations hold the formats of `printf`, so a program that loads those of an agent may run anything."""
    name, _, value = variable.format(place=world.project).partition("=")
    agent = ScriptedAgent()
    async with (
        asyncio.timeout(60),
        connect(agent, permissions=Permissions(execute=EVERY_RULE), terminals=Terminals()) as remote,
        remote.new_session(world.project),
    ):
        env = [{"name": name, "value": value}]
        answer = await agent.ask("terminal/create", {"sessionId": "s1", "command": "ls", "args": ["-l"], "env": env})
        assert "error" in answer


@pytest.mark.parametrize(
    "line",
    [
        *("git log --oneline -5", "git log -n 2 --stat -- file", "git diff --stat", "git show --name-only HEAD"),
        *("git status --short", "git grep -n text", "git blame -L 1,1 file", "git ls-files", "git branch -a"),
        *("git rev-parse --abbrev-ref HEAD", "ls -la .", "cat -n file", "head -1 file", "tail -n 1 file", "wc -l file"),
        *("grep -in text file", "echo hello", "which ls"),
    ],
)
async def test_intended_commands_are_allowed_and_work(world: World, line: str) -> None:
    agent = ScriptedAgent()
    async with (
        asyncio.timeout(60),
        connect(agent, permissions=Permissions(execute=EVERY_RULE), terminals=Terminals()) as remote,
        remote.new_session(world.project),
    ):
        made = await agent.ask("terminal/create", {"sessionId": "s1", "command": line})
        terminal = {"sessionId": "s1", "terminalId": made["result"]["terminalId"]}
        assert (await agent.ask("terminal/wait_for_exit", terminal))["result"]["exitCode"] == 0


@pytest.mark.fault("PRM-23")
@pytest.mark.parametrize("line", ATTACKS.values(), ids=ATTACKS)
def test_no_rule_that_would_allow_an_attack_can_be_written(line: str) -> None:
    words = line.split()
    for size in range(1, len(words)):
        rule = " ".join([*words[:size], "*"])
        if rule not in EVERY_RULE:
            with pytest.raises(ValueError, match=r"would allow any arguments|one simple command"):
                Rules({"execute": {rule: "allow"}})


# --- whatever the list lets through


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("shared"))


def without_index(project: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return all files, except for the timestamps that git records when it reads them."""
    return {name: was for name, was in snapshot(project).items() if name not in (".git", ".git/index")}


@st.composite
def commands(draw: st.DrawFn) -> tuple[ReviewedCommand, list[str]]:
    """Draw a command of the list with arguments of all kinds: listed ones, dangerous ones, and parts of both."""
    entry = draw(st.sampled_from(REVIEWED))
    dangerous = [word for line in ATTACKS.values() for word in line.split()]
    texts = [
        "file",
        "file.odd",
        "HEAD",
        "HEAD~1",
        "text",
        "1",
        "5",
        ".",
        "--",
        "link",
        "out/secret",
        "..",
        ".env",
        "%G?",
    ]
    values = [f"{name}{'=' if name.startswith('--') else ''}{text}" for name in entry.values for text in texts]
    flags = [flag.replace("NUMBER", "3") for flag in entry.flags]
    word = st.sampled_from([*flags, *values, *texts, *texts, *dangerous])
    return entry, draw(st.lists(word, max_size=5))


@pytest.mark.fault("PRM-20")
@pytest.mark.fault("PRM-21")
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(commands())
def test_every_allowed_command_runs_no_program_writes_no_file_and_stays_inside(
    shared: World, command: tuple[ReviewedCommand, list[str]]
) -> None:
    entry, arguments = command
    argv = shared.argv(" ".join([*entry.words, *arguments]))
    if not entry.accepts(argv[len(entry.words) :], os.path.realpath(shared.project)) or shutil.which(argv[0]) is None:
        return
    before, outside = without_index(shared.project), snapshot(shared.outside)

    output = shared.run(argv)

    assert snapshot(shared.outside) == outside
    assert without_index(shared.project) == before
    # What is in the repository may be shown by git, whichever file it was in; this one is.
    assert CANARY not in output or argv[0] == "git"
