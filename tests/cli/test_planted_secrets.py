"""A hundred secrets in a conversation, and none in what any program writes about it; in `make chaos` a thousand.

A new view or export of recordings is one more line in `VIEWS`; a new program that records, one more in `RECORDERS`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from duologue.cli.parser import make_parser, subcommands
from duologue.client.connect import connect
from duologue.inspector.agent_tools import RecordingTools
from duologue.inspector.recording_folder import RecordingFolder
from duologue.recording.recorder import Recorder
from tests.cli.planted_secrets import OWN_PATTERN, SHAPES, escaped, lines
from tests.cli.program import SECONDS, duologue, environment
from tests.cli.test_lists import configure
from tests.cli.test_serve import served
from tests.recording.canaries import Canaries

AGENT = Path(__file__).with_name("leaky_agent.py")
OF_EACH, OF_EACH_IN_CHAOS = 2, 20
"""Secrets of each shape at each place."""


class Planted(NamedTuple):
    """A conversation with secrets: the lines of the client, the command of the agent, and its environment."""

    sent: list[str]
    command: list[str]
    env: dict[str, str]
    secrets: int


@pytest.fixture
def planted(tmp_path: Path, chaos_factor: int) -> Planted:
    canaries = Canaries()
    of_each = OF_EACH if chaos_factor == 1 else OF_EACH_IN_CHAOS
    configure(tmp_path, f"[recordings]\nredact = ['{OWN_PATTERN}']\n").chmod(0o600)
    env = {name: canaries() for name in ("MY_TOKEN", "SERVICE_API_KEY", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY")}
    received = [*lines(canaries, "to_client", [*env.values()], of_each), escaped(canaries)]
    sent = [*lines(canaries, "to_agent", [*env.values()], of_each), escaped(canaries)]
    stderr = [shape(canaries()) for shape in SHAPES for _ in range(of_each)] + [
        f"it is {each}" for each in env.values()
    ]
    (tmp_path / "frames").write_text("".join(f"{line}\n" for line in received), "utf-8")
    (tmp_path / "stderr").write_text("".join(f"{line}\n" for line in stderr), "utf-8")
    command = [sys.executable, str(AGENT), str(tmp_path / "frames"), str(tmp_path / "stderr")]
    command += ["--api-key", canaries(), f"--token={canaries()}"]
    return Planted(sent, command, env, canaries.planted)


async def _tap(home: Path, planted: Planted, path: Path) -> None:
    opening: list[dict[str, object]] = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}},
        {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}},
    ]
    stdin = "".join(f"{line}\n" for line in [*map(json.dumps, opening), *planted.sent])
    words = ["tap", "-o", str(path), "--", *planted.command]
    ended = await asyncio.to_thread(lambda: duologue(home, *words, stdin=stdin, cwd=None, **planted.env))
    assert "canary" in ended.stdout, "a tap changes nothing"


async def _run(home: Path, planted: Planted, path: Path) -> None:
    words = ["run", "TOKEN=" + planted.env["MY_TOKEN"], "--record", str(path), "--yes", "--", *planted.command]
    await asyncio.to_thread(lambda: duologue(home, *words, stdin="", cwd=None, **planted.env))


async def _connect(home: Path, planted: Planted, path: Path) -> None:
    recorder = Recorder(path, agent=planted.command, patterns=[OWN_PATTERN], env=planted.env)
    async with asyncio.timeout(SECONDS):
        with recorder:
            async with connect(planted.command, env=environment(home, **planted.env), observers=(recorder,)) as agent:
                async with agent.new_session(home) as session:
                    await session.prompt("hello")
                recorder.add_stderr((home / "stderr").read_bytes())
                for line in planted.sent:
                    recorder("out", line.encode())


async def _serve(home: Path, planted: Planted, path: Path) -> None:
    async with served(home, "--record", "recorded", "--", *planted.command, **planted.env) as server:
        async with (
            asyncio.timeout(SECONDS),
            connect(server.url, env=environment(home)) as agent,
            agent.new_session(home) as session,
        ):
            await session.prompt("hello")
        await server.stop()
    (recorded,) = (home / "recorded").iterdir()
    recorded.rename(path)


RECORDERS: dict[str, Callable[[Path, Planted, Path], Awaitable[None]]] = {
    "tap": _tap,
    "run": _run,
    "connect": _connect,
    "serve": _serve,
}
VIEWS = [
    ["show", "run.acp"],
    ["show", "run.acp", "--full"],
    ["show", "run.acp", "--json"],
    ["show", "run.acp", "--conversation", "--full"],
    ["show", "run.acp", "--conversation", "--json"],
    ["show", "run.acp", "--check"],
    ["show", "run.acp", "--stats", "--json"],
    ["list", "--json"],
    ["search", "canary", "--json"],
    ["validate", "run.acp", "--json"],
    ["export", "run.acp"],
    ["export", "run.acp", "--format", "json"],
    ["export", "run.acp", "--format", "mermaid"],
    ["export", "run.acp", "--html", "-o", "page.html"],
    ["diff", "run.acp", "run.acp", "--full"],
    ["diff", "run.acp", "run.acp", "--full", "--json"],
    ["redact", "run.acp", "-o", "copy.acp"],
]
"""Commands of `trace` that print or write what is in a recording."""
OTHERS = {"delete", "prune", "serve", "replay", "import", "mcp"}
"""Commands that show nothing of a recording, or what the views have in another form; `mcp` is called below."""


def test_every_command_that_shows_recordings_is_a_view() -> None:
    assert {*subcommands(make_parser()[1]["trace"])} == {words[0] for words in VIEWS} | OTHERS


def _answers_of_tools(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield every answer about `run.acp` that `trace mcp` can give, page by page."""
    tools = RecordingTools(RecordingFolder(folder))
    yield "summary", json.dumps(tools.summary("run.acp"))
    yield "diff", json.dumps(tools.diff("run.acp", "run.acp"))
    yield "search", json.dumps(tools.search("canary", "run.acp"))
    pages: list[Callable[..., dict[str, Any]]] = [
        tools.list_recordings,
        partial(tools.frames, "run.acp"),
        partial(tools.conversation, "run.acp"),
    ]
    for tool in pages:
        after: int | None = 0
        while after is not None:
            answer = tool(after=after)
            yield "pages", json.dumps(answer)
            after = answer.get("next")


def _assert_clean(text: str, where: str) -> None:
    found = Canaries.found_in(text)
    assert found == [], (
        f"{len(found)} secrets in {where}, for example in {text[max(0, text.find(found[0]) - 200) :][:300]}"
    )


@pytest.mark.timeout(1200)  # a thousand secrets through every view take minutes on a busy machine
@pytest.mark.fault("LOG-03", "LOG-04")
@pytest.mark.parametrize("name", RECORDERS)
async def test_no_secret_is_in_a_recording_or_in_any_view_of_it(
    tmp_path: Path, planted: Planted, name: str, record_property: Any, chaos_factor: int
) -> None:
    record_property("count", planted.secrets)
    path = tmp_path / "run.acp"
    await RECORDERS[name](tmp_path, planted, path)
    text = path.read_text("utf-8")

    assert planted.secrets >= (100 if chaos_factor == 1 else 1100)
    assert text.count("•••") > planted.secrets / 3
    _assert_clean(text, f"the recording of {name}")
    for file in (tmp_path / "state").rglob("*"):
        if file.is_file():
            _assert_clean(file.read_text("utf-8", "replace"), file.name)
    for words in VIEWS:
        ended = await asyncio.to_thread(duologue, tmp_path, "trace", *words)
        assert ended.returncode in (0, 1), (words, ended.stderr)
        _assert_clean(ended.stdout + ended.stderr, " ".join(words))
    for tool, answer in _answers_of_tools(tmp_path):
        _assert_clean(answer, f"trace mcp, {tool}")
    for written in (tmp_path / "copy.acp", tmp_path / "page.html"):
        _assert_clean(written.read_text("utf-8"), written.name)


@pytest.mark.fault("LOG-03")
def test_a_recording_with_secrets_is_redacted_afterwards(tmp_path: Path, planted: Planted) -> None:
    received = (tmp_path / "frames").read_text("utf-8").splitlines()
    entries = ['{"duologue":"recording","version":2}']
    for direction, lines_ in (("to_agent", planted.sent), ("to_client", received)):
        for line in lines_:
            try:
                content = {"frame": json.loads(line)}
            except ValueError:
                content = {"text": line}
            entries.append(json.dumps({"t": 0.1, "dir": direction, **content}))
    entries.append(json.dumps({"t": 1, "stderr": (tmp_path / "stderr").read_text("utf-8")}))
    (tmp_path / "raw.acp").write_text("\n".join(entries) + "\n")
    ended = duologue(tmp_path, "trace", "redact", "raw.acp", "-o", "copy.acp", stdin="", cwd=None, **planted.env)

    assert ended.returncode == 0, ended.stderr
    _assert_clean((tmp_path / "copy.acp").read_text("utf-8"), "the copy")


@pytest.mark.fault("LOG-03")
@pytest.mark.parametrize("format_name", ["acpx", "python-sdk", "zed"])
def test_no_secret_is_imported(tmp_path: Path, planted: Planted, format_name: str) -> None:
    received = (tmp_path / "frames").read_text("utf-8").splitlines()
    messages: list[dict[str, Any]] = []
    for line in [*planted.sent, *received]:
        try:
            messages.append(json.loads(line))
        except ValueError:
            continue  # these formats have only messages
    if format_name == "zed":
        log = json.dumps([
            {"_direction": "incoming", "_type": "notification", "method": each.get("method", ""),
             "params": each.get("params")}
            for each in messages
        ])  # fmt: skip
    elif format_name == "acpx":
        log = "".join(json.dumps(each) + "\n" for each in messages)
    else:
        log = "".join(json.dumps({"direction": "incoming", "message": each}) + "\n" for each in messages)
    (tmp_path / "log").write_text(log)
    ended = duologue(
        tmp_path, "trace", "import", "log", "-o", "run.acp", "--from", format_name, stdin="", cwd=None, **planted.env
    )

    assert ended.returncode in (0, 1), ended.stderr
    _assert_clean((tmp_path / "run.acp").read_text("utf-8"), "the recording")
    _assert_clean(ended.stdout + ended.stderr, "the report")


def test_secrets_that_are_not_removed_would_be_found(planted: Planted, tmp_path: Path) -> None:
    """Prove that the test can fail: the same lines, written as they are."""
    found = Canaries.found_in(
        "\n".join(planted.sent) + (tmp_path / "frames").read_text() + (tmp_path / "stderr").read_text()
    )

    assert len({*found}) >= planted.secrets - 10
