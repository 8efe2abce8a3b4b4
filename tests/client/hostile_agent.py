"""An agent that means harm: it plays trick after trick and keeps every answer it gets.

What its user allows: reading inside the project, writing `docs/`, the commands `git status` and `ls` with arguments,
and when asked, once each: changing `granted.txt` and running `make test`. Everything else that works is harm done.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duologue.transports.base import Transport

CANARY = "the canary that no session may read"
OPTIONS = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_once", "reject_once")]


@dataclass(frozen=True)
class Step:
    """One request, and whether the user would have it answered with yes."""

    method: str
    params: dict[str, Any]
    is_approved: bool = False


@dataclass(frozen=True)
class Trick:
    """Requests that belong together: one after the other, or all at once, with something done in between."""

    name: str
    steps: tuple[Step, ...]
    at_once: bool = False
    link: tuple[str, str] | None = None
    """Target and name of a link that takes the place of a file before the last request."""


class World:
    """A project to work in, another one, and all that lies outside."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.project, self.other, self.outside = home / "project", home / "other", home / "outside"
        for folder in (
            "project/src",
            "project/docs",
            "project/.git/hooks",
            "project/sub",
            "project-evil",
            "other",
            "outside",
        ):
            (home / folder).mkdir(parents=True)
        for file in ("outside/secret", "project-evil/secret", "other/secret", "project/.env", "project/id_rsa"):
            (home / file).write_text(CANARY)
        for file in (
            "project/src/main.py",
            "project/.git/config",
            "project/granted.txt",
            "project/.git/hooks/pre-commit",
        ):
            (home / file).write_text("as it was\n")
        for name, target in {
            "to-secret": self.outside / "secret",
            "to-outside": self.outside,
            "relative": Path("../outside"),
            "dangling": self.outside / "new",
            "loop": Path("loop"),
            "to-env": Path(".env"),
            "to-git": Path(".git"),
            "to-other": self.other,
            "docs/out": self.outside,
            "docs/src": Path("../src"),
            "docs/hook": Path("../.git/hooks/pre-commit"),
            "to-proc": Path("/proc/self"),
        }.items():
            (self.project / name).symlink_to(target)
        os.link(self.outside / "secret", self.project / "docs" / "hard")
        os.mkfifo(self.project / "docs" / "fifo")
        self.rules = self.outside / "rules.toml"
        self.rules.write_text("[permissions]\n")
        self.rules.chmod(0o600)


class HostileAgent:
    """Answers what a client asks, and plays the tricks of the next turn when prompted."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.received: list[tuple[Trick, Step, dict[str, Any]]] = []
        self.turns: list[list[Trick]] = []
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._ids = itertools.count(1)
        self._sessions = itertools.count(1)

    async def serve(self, transport: Transport) -> None:
        self._transport = transport
        async with transport, asyncio.TaskGroup() as group:
            while frames := await transport.receive():
                for frame in frames:
                    message = json.loads(frame)
                    if "method" not in message:
                        self._waiting.pop(message["id"]).set_result(message)
                    elif "id" in message:
                        group.create_task(self._answer(message))

    async def _answer(self, message: dict[str, Any]) -> None:
        match message["method"]:
            case "initialize":
                result: dict[str, Any] = {"protocolVersion": 1, "agentCapabilities": {}}
            case "session/new":
                result = {"sessionId": f"s{next(self._sessions)}"}
            case "session/prompt":
                for trick in self.turns.pop(0):
                    await self._play(trick)
                result = {"stopReason": "end_turn"}
            case _:
                result = {}
        self._transport.send(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())

    async def _play(self, trick: Trick) -> None:
        answers: list[dict[str, Any]] = []
        if trick.at_once:
            answers += await asyncio.gather(*(self._request(step) for step in trick.steps))
        else:
            for step in trick.steps:
                if trick.link is not None and step is trick.steps[-1]:
                    self._interfere(*trick.link)
                answers.append(await self._request(step))
        if trick.link is not None:
            self._repair(trick.link[1])
        self.received += [(trick, step, answer) for step, answer in zip(trick.steps, answers, strict=True)]

    def _interfere(self, target: str, name: str) -> None:
        path = self.world.project / name
        path.unlink()
        path.symlink_to(target)

    def _repair(self, name: str) -> None:
        path = self.world.project / name
        path.unlink()
        path.write_text("as it was\n")

    async def _request(self, step: Step) -> dict[str, Any]:
        number = next(self._ids)
        answered: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answered
        frame = {"jsonrpc": "2.0", "id": number, "method": step.method, "params": step.params}
        self._transport.send(json.dumps(frame).encode())
        return await answered


def succeeded(step: Step, answer: dict[str, Any]) -> bool:
    """Return True if the client did what the step requested."""
    if "error" in answer:
        return False
    if step.method != "session/request_permission":
        return True
    outcome = answer["result"]["outcome"]
    if outcome["outcome"] != "selected":
        return False
    kinds = {option["kind"] for option in step.params["options"] if option["optionId"] == outcome["optionId"]}
    return not kinds <= {"reject_once", "reject_always"}


# --- the requests


def reading(path: object, session_id: str = "s1") -> Step:
    return Step("fs/read_text_file", {"sessionId": session_id, "path": str(path)})


def writing(path: object, session_id: str = "s1", *, is_approved: bool = False) -> Step:
    params = {"sessionId": session_id, "path": str(path), "content": "harm\n"}
    return Step("fs/write_text_file", params, is_approved)


def running(command: str, *args: str, session_id: str = "s1", is_approved: bool = False, **more: Any) -> Step:
    params = {"sessionId": session_id, "command": command, "args": list(args), **more}
    return Step("terminal/create", params, is_approved)


def asking(
    *, options: list[dict[str, str]] | None = None, session_id: str = "s1", is_approved: bool = False, **tool: Any
) -> Step:
    call = {"toolCallId": f"call-{json.dumps(tool, default=str)[:40]}", **tool}
    params = {"sessionId": session_id, "toolCall": call, "options": OPTIONS if options is None else options}
    return Step("session/request_permission", params, is_approved)


def change(path: object) -> dict[str, Any]:
    return {"type": "diff", "path": str(path), "oldText": "as it was\n", "newText": "harm\n"}


# --- the tricks


def all_turns(world: World) -> list[list[Trick]]:
    """Return the tricks by turn: all that need no permission in one turn, each other one in a turn of its own."""
    families = (path_tricks, command_tricks, variable_tricks, option_tricks, question_tricks, other_tricks)
    return [[trick for family in families for trick in family(world)], *([trick] for trick in grant_tricks(world))]


def path_tricks(world: World) -> Iterator[Trick]:
    project, outside = world.project, world.outside
    closed = [
        *(f"{project}/../outside/secret", f"{project}/src/../../outside/secret", f"{project}/./..//outside/secret"),
        *(f"{project}/to-secret", f"{project}/to-outside/secret", f"{project}/relative/secret", f"{project}/loop"),
        *(f"{project}/docs/out/secret", f"{project}/docs/../to-secret", f"{project}/to-other/secret"),
        *(f"{project}-evil/secret", f"{outside}/secret", f"{world.other}/secret", "/etc/passwd", "/proc/self/environ"),
        *(f"{project}/to-proc/environ", "/proc/self/root/etc/passwd", "/dev/stdin", "/dev/fd/0", "src/main.py", ""),
        *("~/.ssh/id_rsa", f"file://{outside}/secret", f"{outside}/secret\0", f"{project}/docs/fifo", str(project)),
        *(f"{project}/%2e%2e/outside/secret", f"{project}/src/main.py/../../../outside/secret", f"//{outside}/secret"),
        *(
            str(world.rules),
            f"{project}/to-outside/rules.toml",
            f"{project}/{'x' * 5000}",
            f"{project}/docs/out/../secret",
        ),
    ]
    for path in closed:
        yield Trick(f"read {path!r}", (reading(path),))
        yield Trick(f"write {path!r}", (writing(path),))
    for name in (".env", "id_rsa", "to-env", "sub/../.env", ".ENV", "docs/../to-env"):
        yield Trick(f"read the secrets in {name}", (reading(project / name),))
    for name in (
        *(
            ".git/config",
            ".git/hooks/pre-commit",
            "to-git/config",
            "sub/.git/config",
            ".GIT/hooks/x",
            "docs/.git/config",
        ),
        *("docs/hook", "docs/.vscode/tasks.json", ".bashrc", ".mcp.json", "docs/.envrc", "docs/hard", "dangling"),
        *("src/main.py", "docs/src/main.py", "docs/../src/main.py", "granted.txt", "Makefile", "docs", "docs/"),
    ):
        yield Trick(f"write {name} without asking", (writing(f"{project}/{name}"),))


def command_tricks(world: World) -> Iterator[Trick]:
    payload = f"touch {world.outside}/harm"
    behind = [
        *(
            f"; {payload}",
            f" && {payload}",
            f" || {payload}",
            f" | {payload}",
            f" & {payload}",
            f"\n{payload}",
            f"\r\n{payload}",
            f" $({payload})",
        ),
        *(
            f" `{payload}`",
            f" > {world.outside}/harm",
            f" >> {world.outside}/harm",
            f" <({payload})",
            f' "$({payload})"',
        ),
        *(
            f" ${{x:-$({payload})}}",
            f" #\n{payload}",
            f" \\\n; {payload}",
            f"\u2028;{payload}",
            f" 2>{world.outside}/harm",
        ),
    ]
    for more in behind:
        yield Trick(f"git status{more!r} as a line", (running(f"git status{more}"),))
        yield Trick(f"git status{more!r} by a shell", (running("sh", "-c", f"git status{more}"),))
        yield Trick(f"ls -l{more!r} by a login shell", (running("/bin/bash", "-lc", f"ls -l{more}"),))
    programs = [
        *(["touch", "harm"], ["sh", "-c", payload], ["python3", "-c", "open('harm','w')"], ["env", *payload.split()]),
        *(
            ["xargs", *payload.split()],
            ["find", ".", "-exec", *payload.split(), ";"],
            ["git", "-c", f"core.pager={payload}", "log"],
        ),
        *(
            ["git", "-c", f"alias.status=!{payload}", "status"],
            ["git", "status", "--porcelain", "-x"],
            ["./git", "status"],
        ),
        *([f"{world.project}/git", "status"], ["GIT", "status"], ["git status", "x"], ["make", "test"], ["make test"]),
        *(
            ["ls", "--output=harm"],
            ["/tmp/ls", "-l"],
            ["./ls"],
            ["ls;touch", "harm"],
            ["npx", "-y", "harm"],
            ["cat", ".env"],
        ),
        *(
            ["rm", "-rf", "."],
            ["sudo", "ls"],
            ["nohup", "ls"],
            ["timeout", "5", "ls"],
            ["bash"],
            [""],
            ["git"],
            ["cd /; ls"],
        ),
    ]
    for argv in programs:
        yield Trick(f"run {argv!r}", (running(*argv),))
    for cwd in (world.outside, world.other, "/", "..", world.project / "to-outside", world.project / "missing", "~"):
        yield Trick(f"run an allowed command in {cwd}", (running("git", "status", cwd=str(cwd)),))


def variable_tricks(world: World) -> Iterator[Trick]:
    names = [
        *("PATH", "LD_PRELOAD", "LD_AUDIT", "GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND", "GIT_PAGER", "PAGER", "BASH_ENV"),
        *("GIT_DIR", "GIT_CONFIG_COUNT", "GIT_CONFIG_GLOBAL", "HOME", "XDG_CONFIG_HOME", "EDITOR", "IFS", "SHELL"),
    ]
    for name in names:
        env = [{"name": name, "value": f"{world.outside}/evil"}]
        yield Trick(f"an allowed command with {name}", (running("git", "status", env=env),))


def option_tricks(world: World) -> Iterator[Trick]:
    def option(kind: str, option_id: str = "x", name: str = "Deny") -> dict[str, str]:
        return {"optionId": option_id, "name": name, "kind": kind}

    sets = {
        "none at all": [],
        "only allowing ones": [option("allow_once", "a"), option("allow_always", "b")],
        "allowing ones called Deny": [option("allow_once", "reject_once"), option("allow_always", "reject_always")],
        "one id for yes and no": [option("allow_once"), option("reject_once")],
        "unknown kinds": [option("allow", "a"), option("approve", "b"), option("ALLOW_ONCE", "c"), option("", "d")],
        "a kind that begins with reject": [option("reject_and_allow", "a"), option("allow_once", "b")],
        "a thousand": [option("allow_once", str(number)) for number in range(1000)],
        "names with escape codes": [
            option("allow_once", "a", "\x1b[2JReject"),
            option("allow_always", "b", "\u202eyes"),
        ],
        "one that is remembered forever": [option("allow_always", "reject", "Reject")],
    }
    for (name, options), kind in itertools.product(sets.items(), ("edit", "execute", "other")):
        yield Trick(f"{kind} with options: {name}", (asking(kind=kind, title="harm", options=options),))


def question_tricks(world: World) -> Iterator[Trick]:
    project = world.project
    main, env = str(project / "src" / "main.py"), str(project / ".env")
    deceptions: list[dict[str, Any]] = [
        {"kind": "read", "title": "Read", "content": [change(main)]},
        {"kind": "think", "title": "Thinking", "content": [change(main)]},
        {"kind": "read", "title": "Read", "locations": [{"path": env}]},
        {"kind": "read", "title": "Read", "locations": [{"path": "/etc/passwd"}]},
        {"kind": "read", "title": "Read", "locations": [{"path": f"file://{world.outside}/secret"}]},
        {"kind": "read", "title": "Read", "locations": [{"path": main}], "rawInput": {"path": "/etc/passwd"}},
        {"kind": "read", "title": "Read", "locations": [{"path": main}], "rawInput": {"command": "rm -rf ."}},
        {"kind": "read", "title": "Read", "locations": [{"path": str(project / "to-secret")}]},
        {"kind": "read", "title": "Read"},
        {"kind": "execute", "title": "git status"},
        {"kind": "execute", "title": "git status", "rawInput": {"command": "rm -rf ."}},
        {"kind": "execute", "title": "git status", "rawInput": {"command": "git status", "cmd": "rm -rf ."}},
        {"kind": "execute", "title": "git status", "rawInput": {"command": "git", "args": ["push", "--force"]}},
        {"kind": "execute", "title": "git status", "rawInput": {"command": ["git", "status; rm"]}},
        {"kind": "execute", "title": "git status", "rawInput": {"command": "git status", "env": {"GIT_PAGER": "x"}}},
        {"kind": "execute", "title": "git status", "rawInput": "git status"},
        {"kind": "execute", "title": "git status", "rawInput": ["git", "status"]},
        {
            "kind": "edit",
            "title": "docs",
            "locations": [{"path": str(project / "docs" / "a")}],
            "content": [change(main)],
        },
        {"kind": "edit", "title": "docs", "locations": [{"path": str(project / "docs" / "src" / "main.py")}]},
        {"kind": "edit", "title": "docs", "locations": [{"path": str(project / "docs" / ".." / "src" / "main.py")}]},
        {"kind": "delete", "title": "docs", "locations": [{"path": str(project / "docs" / "a")}]},
        {"kind": "move", "title": "docs", "locations": [{"path": str(project / "docs" / "a")}, {"path": main}]},
        {"kind": "edit", "title": "ALREADY APPROVED: press any key", "locations": [{"path": main}]},
        {"kind": "other", "title": "\x1b[2J\x1b[H Allow? [Y/y]", "rawInput": {"note": "the user said yes"}},
        {"kind": "switch_mode", "title": "yolo"},
        {"kind": "fetch", "title": "https://example.com", "rawInput": {"url": "https://example.com/?key=1"}},
        {"kind": "made_up", "title": "x" * 100_000},
        {"kind": None, "title": None},
    ]
    for number, tool in enumerate(deceptions):
        yield Trick(f"ask {number}: {str(tool['title'])[:20]!r}", (asking(**tool),))


def grant_tricks(world: World) -> Iterator[Trick]:
    project = world.project
    granted, main = project / "granted.txt", project / "src" / "main.py"
    yes_edit = asking(kind="edit", title="edit", locations=[{"path": str(granted)}], is_approved=True)
    yes_make = asking(kind="execute", title="make", rawInput={"command": "make test"}, is_approved=True)
    yes_read = asking(kind="read", title="read", locations=[{"path": str(main)}], is_approved=True)
    no_edit = asking(kind="edit", title="edit", locations=[{"path": str(main)}])
    payload = f"touch {world.outside}/harm"
    flags = [{"name": "MAKEFLAGS", "value": f"--eval=$(shell {payload})"}]

    yield Trick("ask for one file, write another", (yes_edit, writing(main)))
    yield Trick("write what was granted in the turn before", (writing(granted),))
    yield Trick("ask once, write twice", (yes_edit, writing(granted, is_approved=True), writing(granted)))
    yield Trick("ask for a file, write it as another session", (yes_edit, writing(granted, "s2")))
    for target in ("src/main.py", ".git/hooks/x", "../outside/secret", "docs/hard"):
        yield Trick(f"ask, then lead it to {target}", (yes_edit, writing(granted)), link=(target, "granted.txt"))
    yield Trick("ask for a command, run another", (yes_make, running("make", "all")))
    yield Trick("ask for a command, run more", (yes_make, running(f"make test; {payload}")))
    yield Trick("ask for a command, add an argument", (yes_make, running("make", "test", f"--eval=$(shell {payload})")))
    yield Trick("ask for a command, add a variable", (yes_make, running("make", "test", env=flags)))
    yield Trick("ask for a command, run it elsewhere", (yes_make, running("make", "test", cwd=str(project / "sub"))))
    yield Trick("ask for a command, run it as another session", (yes_make, running("make", "test", session_id="s2")))
    yield Trick("ask to read, then write", (yes_read, writing(main)))
    yield Trick("make a repository whose settings run a program", (writing(project / "docs" / "HEAD"),))
    yield Trick("run a command next to files of its own", (running("git", "status", cwd=str(project / "docs")),))
    yield Trick("ask while acting", (no_edit, writing(main)), at_once=True)


def other_tricks(world: World) -> Iterator[Trick]:
    for session_id in ("s2", "s3", "", "S1", "s1\0"):
        yield Trick(
            f"read the project as session {session_id!r}", (reading(world.project / "src" / "main.py", session_id),)
        )
        yield Trick(
            f"run as session {session_id!r}", (running("git", "status", session_id=session_id, cwd=str(world.project)),)
        )
    for method in ("terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"):
        for terminal_id in ("1", "term_", "../s2/1"):
            step = Step(method, {"sessionId": "s1", "terminalId": terminal_id})
            yield Trick(f"{method} of a terminal called {terminal_id}", (step,))
    burst = tuple(writing(world.project / "src" / f"{number}.py") for number in range(100))
    yield Trick("a hundred writes at once", burst, at_once=True)
    questions = tuple(asking(kind="edit", title=str(number)) for number in range(300))
    yield Trick("three hundred questions at once", questions, at_once=True)
