"""The calls that one update, one prompt or one question crosses, in order: `python -m benchmarks --path update`.

A line is a call of one of duologue's functions, indented below its caller. `~` stands before a coroutine that goes on,
`--` where the event loop runs another task or callback, and `+N` counts calls of the standard library in between.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.cost import INLINE_NAMES, PACKAGE, is_of_benchmark, run, settle
from benchmarks.pair import SIDE, SIDES, Modes, connected
from benchmarks.wire import CHUNK_TEXTS
from duologue import Agent, Turn
from duologue.client.session import ClientSession
from duologue.events import Text

PATHS = ("update", "prompt", "permission")
WARM_UP = 3


@dataclass
class Call:
    """One call of a function.

    Attributes:
        side: Whose it is.
        depth: How many of duologue's functions it stands below in its task.
        name: Module and name of the function, nothing for one of another library.
        is_resumed: A coroutine goes on.
        is_first: The event loop has just called it.
    """

    side: str
    depth: int
    name: str
    is_resumed: bool
    is_first: bool


class Recorder:
    """Notes every call from `start()` to `stop()`."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.stopped = asyncio.Event()

    def start(self) -> None:
        self.stopped.clear()
        sys.setprofile(self._note)

    def stop(self) -> None:
        sys.setprofile(None)
        self.stopped.set()

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or is_of_benchmark(code) or code.co_name in INLINE_NAMES:
            return
        depth, caller = 0, frame.f_back
        while caller is not None and caller.f_code.co_name != "_run_once":
            depth += caller.f_code.co_filename.startswith(PACKAGE)
            caller = caller.f_back
        is_own = code.co_filename.startswith(PACKAGE)
        location = f"{Path(code.co_filename).relative_to(PACKAGE)}:{code.co_firstlineno}" if is_own else ""
        name = f"{location} {code.co_qualname}" if is_own else ""
        is_first = frame.f_back is not None and frame.f_back.f_code.co_name in ("_run", "_run_once", "run")
        self.calls.append(Call(SIDE.get(), depth, name, _is_resumed(frame), is_first))


def _is_resumed(frame: FrameType) -> bool:
    """Tell a coroutine that goes on from a call: it stands at an instruction that says after what it goes on."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti + 1] & 3 != 0


def record(path: str, wire: str = "memory") -> list[Call]:
    """Record one of `PATHS`, after a few that are not recorded."""
    return run(_record(path, wire))


async def _record(path: str, wire: str) -> list[Call]:
    recorder = Recorder()
    async with _pair(path, wire, recorder) as session:
        for number in range(WARM_UP + 1):
            is_recorded = number == WARM_UP
            if path == "prompt":
                await settle()
                if is_recorded:
                    recorder.start()
                await session.prompt("nothing")
                recorder.stop()
                continue
            async with session.prompt("record" if is_recorded else "warm up") as turn:
                async for event in turn:
                    if isinstance(event, Text) and event.text.endswith(LAST):
                        recorder.stop()
    return recorder.calls


LAST = "the last one"


@asynccontextmanager
async def _pair(path: str, wire: str, recorder: Recorder) -> AsyncGenerator[ClientSession]:
    agent = Agent("benchmark", settings=Modes)

    @agent.on_prompt
    async def answer(turn: Turn[Modes]) -> None:
        is_recorded = turn.text == "record"
        if path == "update":
            await turn.say(CHUNK_TEXTS[0])
            await turn.say(CHUNK_TEXTS[1])
            await settle()
            if is_recorded:
                recorder.start()
            await turn.say(LAST)
            await recorder.stopped.wait()  # without being resumed before the client has the update
        elif path == "permission":
            async with turn.tool("Write a file", kind="edit") as tool:
                await settle()
                if is_recorded:
                    recorder.start()
                await tool.request_permission()
                recorder.stop()

    async with connected(agent, wire) as session:
        yield session


def show(path: str, wire: str) -> str:
    """Write a path for a reader, with its sums."""
    lines: list[str] = []
    others = 0
    calls = record(path, wire)
    for call in calls:
        if call.is_first and (not lines or lines[-1] != "--"):
            lines.append("--")
        if not call.name:
            others += 1
            continue
        if others:
            lines.append(f"{'':9}+{others}")
            others = 0
        lines.append(f"{call.side:8} {'~' if call.is_resumed else ' '}{'  ' * call.depth}{call.name}")
    own = [call for call in calls if call.name]
    sums = [f"{sum(call.side == side for call in own)} {side}" for side in SIDES]
    modules = {call.name.partition(":")[0] for call in own}
    total = f"{path} over {wire}: {len(own)} calls of duologue's functions ({', '.join(sums)})"
    return "\n".join(
        [*lines, "", f"{total} in {len(modules)} modules, {len(calls) - len(own)} of other Python functions"]
    )
