"""Reproduce a finding without the checker: write the lines of its case to the agent's stdin, and read its stdout.

Each line is sent when the agent has written as much as it had in the case. Ids that agents make up, of sessions and of
their own requests, are replaced by those of this run, and so is the directory of the case.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from msgspec import Raw

from duologue.conformance.checked_agent import FILE_TEXT
from duologue.conformance.raw_peer import Json
from duologue.conformance.wire_log import WireFrame

SILENCE_SECONDS = 3.0
"""How long the agent may be silent before it counts as having nothing to add."""
LONGEST_WAIT = 20.0
"""How long the agent may take for a message that it sent in the case, too."""
MOST_LINES = 10_000
MAX_LINE = 64 << 20
DIRECTORY = re.compile(r"/[^\s\"]*duologue-check-\w+")


@dataclass
class Replay:
    """The lines of one reproduction, in the order in which they were written.

    Attributes:
        lines: Receiver, `agent` or `client`, and text.
        exit_code: Exit code of an agent that ended by itself; None for one that went on.
        is_running_without_input: True if it still ran some seconds after the end of its stdin.
    """

    lines: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    exit_code: int | None = None
    is_running_without_input: bool = False

    def sent(self) -> list[str]:
        """Return the lines that were sent to the agent."""
        return [text for to, text in self.lines if to == "agent"]

    def received(self) -> list[Json]:
        """Return the messages of the agent."""
        return [_decoded(text) for to, text in self.lines if to == "client"]


def text_of(frame: WireFrame) -> str:
    """Return a message of a case as a line."""
    return bytes(frame.entry.frame).decode() if isinstance(frame.entry.frame, Raw) else frame.entry.text or ""


async def replay(
    command: Sequence[str],
    variables: Mapping[str, str],
    wire: Sequence[WireFrame],
    *,
    ends_input: bool = False,
    silence: float = SILENCE_SECONDS,
) -> Replay:
    """Send the messages of one connection to a new process of the agent.

    Args:
        command: The agent.
        variables: Variables of its environment.
        wire: The messages of the case, in both directions.
        ends_input: Close stdin after the last one, and see whether the agent ends.
        silence: Seconds of silence after which the agent has nothing to add.
    """
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        (Path(folder) / "notes.txt").write_text(FILE_TEXT, "utf-8")
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, **variables},
            limit=MAX_LINE,
            start_new_session=True,
        )
        try:
            return await _Conversation(process, folder, silence).run(wire, ends_input=ends_input)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


class _Conversation:
    """One process, and what was said so far."""

    def __init__(self, process: asyncio.subprocess.Process, folder: str, silence: float) -> None:
        self._silence = silence
        self._process = process
        self._folder = folder
        self._replay = Replay()
        self._replaced: dict[str, str] = {}
        self._expected: list[Json] = []

    async def run(self, wire: Sequence[WireFrame], *, ends_input: bool) -> Replay:
        assert self._process.stdin is not None
        for frame in wire:
            if frame.entry.dir == "to_client":
                self._expected.append(_decoded(text_of(frame)))
                continue
            await self._read(LONGEST_WAIT, len(self._expected))
            line = self._adapted(text_of(frame))
            self._replay.lines.append(("agent", line))
            with contextlib.suppress(ConnectionError):
                self._process.stdin.write(line.encode() + b"\n")
                await self._process.stdin.drain()
        await self._read(LONGEST_WAIT, len(self._expected))
        await self._read(self._silence)
        if ends_input:
            self._process.stdin.close()
            await self._read(self._silence)
            self._replay.is_running_without_input = self._process.returncode is None
        self._replay.exit_code = self._process.returncode
        return self._replay

    async def _read(self, silence: float, count: int = MOST_LINES) -> None:
        """Read until there are so many messages, the agent is silent for so long, or it ends."""
        assert self._process.stdout is not None
        with contextlib.suppress(TimeoutError):
            while len(self._replay.received()) < count:
                line = await asyncio.wait_for(self._process.stdout.readline(), silence)
                if not line:
                    await asyncio.wait_for(self._process.wait(), silence)
                    return
                self._take(line.decode("utf-8", "replace").rstrip("\r\n"))

    def _take(self, line: str) -> None:
        """Remember a line, and what it has instead of what the same message had in the case."""
        number = len(self._replay.received())
        self._replay.lines.append(("client", line))
        found, expected = _decoded(line), self._expected[number] if number < len(self._expected) else None
        if expected is not None:
            for old, new in ((_session(expected), _session(found)), (_own_id(expected), _own_id(found))):
                if old and new and old != new:
                    self._replaced[old] = new

    def _adapted(self, line: str) -> str:
        for old, new in self._replaced.items():
            line = line.replace(old, new)
        return DIRECTORY.sub(self._folder, line)


def _decoded(text: str) -> Json:
    """Return the message on a line; empty if it is none."""
    try:
        return _object(json.loads(text))
    except ValueError:
        return {}


def _object(value: Any) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


def _session(message: Json) -> str:
    """Return the session that a response names, as JSON."""
    session = _object(message.get("result")).get("sessionId")
    return json.dumps(session) if isinstance(session, str) else ""


def _own_id(message: Json) -> str:
    """Return the id of a request of the agent, as it stands in a response."""
    return f'"id":{json.dumps(message["id"])},' if "method" in message and "id" in message else ""


def shape(message: Json) -> tuple[object, ...]:
    """Return what two runs of an agent have in common in a message."""
    kind = _object(_object(message.get("params")).get("update")).get("sessionUpdate")
    id_ = None if "method" in message else message.get("id")
    return message.get("method"), kind, str(id_), _object(message.get("error")).get("code")


def is_reproduced(made: Replay, wire: Sequence[WireFrame], frames: Sequence[int]) -> bool:
    """Return True if a replay shows what the finding is about.

    Messages of the agent that the finding names must be there again; if it names none, a request or the last line that
    was sent must be without a response again, or the agent have ended again.
    """
    shown = {shape(each) for each in made.received()}
    named = [shape(_decoded(text_of(each))) for each in wire if each.number in frames and each.entry.dir == "to_client"]
    if named:
        return all(each in shown for each in named)
    if made.exit_code is not None or made.is_running_without_input:
        return True
    answered = {str(each["id"]) for each in made.received() if "method" not in each and "id" in each}
    sent_ids = [
        str(each["id"]) for each in map(_decoded, made.sent()) if "method" in each and each.get("id") is not None
    ]
    if any(each not in answered for each in sent_ids):
        return True
    last = max(number for number, (to, _) in enumerate(made.lines) if to == "agent")
    sent, later = _decoded(made.lines[last][1]), [_decoded(text) for _, text in made.lines[last + 1 :]]
    return not any("method" not in each and "id" in each and each["id"] == sent.get("id") for each in later)
