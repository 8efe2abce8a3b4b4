"""A scripted agent: plays the steps of a file, frame by frame, faults included.

    [[step]]
    expect = "session/prompt"                  # wait for this method; `where` narrows it by members of its params
    where = { sessionId = "s1" }

    [[step]]
    send = { method = "session/update", params = { … } }      # "jsonrpc" is added

    [[step]]
    reply = { result = { stopReason = "end_turn" } }          # answers the request expected last

Further steps: `raw = "text"` (a line as it is), `delay = 0.5` (seconds), `exit = 3` (end the process), `close = true`
(close stdout and stay). A step may carry `delay` beside another action. `loop = true` at the top starts over.
Methods in `[answers]` are answered with that result whenever they come: `[answers.initialize]`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from duologue.transports.base import Transport
from duologue.transports.stdio import StdioTransport

__all__ = ["Scenario", "play"]


class Scenario:
    """The steps of one file, and the conversation they are played in."""

    def __init__(self, script: dict[str, Any]) -> None:
        self._steps: list[dict[str, Any]] = script.get("step", [])
        self._answers: dict[str, Any] = script.get("answers", {})
        self._loops: bool = script.get("loop", False)
        self._last_id: Any = None
        self._waiting: list[dict[str, Any]] = []

    async def play(self, transport: Transport) -> int | None:
        """Play all steps; the exit code the script asks for, or `None` at its end."""
        async with transport:
            while True:
                for step in self._steps:
                    ended, code = await self._step(transport, step)
                    if ended:
                        return code
                if not self._loops:
                    await self._stay(transport)
                    return None

    async def _step(self, transport: Transport, step: dict[str, Any]) -> tuple[bool, int | None]:
        if "delay" in step:
            await asyncio.sleep(float(step["delay"]))
        if "expect" in step and not await self._expect(transport, step["expect"], step.get("where", {})):
            return True, None
        if "send" in step:
            _send(transport, step["send"])
        if "reply" in step:
            _send(transport, {"id": self._last_id, **step["reply"]})
        if "raw" in step:
            transport.send(str(step["raw"]).encode())
        if "exit" in step:
            await transport.drain()
            return True, int(step["exit"])
        if step.get("close"):
            await transport.aclose()
        return False, None

    async def _expect(self, transport: Transport, method: str, where: dict[str, Any]) -> bool:
        """Wait for a message of this method; everything else is answered by the table or passed over."""
        while True:
            message = await self._next(transport)
            if message is None:
                return False
            params = message.get("params") or {}
            if message.get("method") == method and where.items() <= params.items():
                self._last_id = message.get("id")
                return True
            self._answer(transport, message)

    async def _stay(self, transport: Transport) -> None:
        while (message := await self._next(transport)) is not None:
            self._answer(transport, message)

    def _answer(self, transport: Transport, message: dict[str, Any]) -> None:
        result = self._answers.get(message.get("method", ""))
        if result is not None and "id" in message:
            _send(transport, {"id": message["id"], "result": result})

    async def _next(self, transport: Transport) -> dict[str, Any] | None:
        while not self._waiting:
            frames = await transport.receive()
            if not frames:
                return None
            self._waiting += [msgspec.json.decode(frame, type=dict[str, Any]) for frame in frames]
        return self._waiting.pop(0)


def play(path: Path) -> int:
    """Play a file on stdio; the exit code."""
    try:
        script = _read(path)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"duologue agent: {path}: {error}\n")
        return 2
    code = asyncio.run(Scenario(script).play(StdioTransport()))
    if code is not None:
        sys.stdout.flush()
        os._exit(code)
    return 0


def _read(path: Path) -> dict[str, Any]:
    if path.suffix in (".yaml", ".yml"):
        return _read_yaml(path)
    return tomllib.loads(path.read_text("utf-8"))


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        import yaml
    except ImportError:
        raise ValueError("YAML needs the package PyYAML; or write the scenario as TOML") from None
    script: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return script


def _send(transport: Transport, message: dict[str, Any]) -> None:
    transport.send(msgspec.json.encode({"jsonrpc": "2.0", **message}))
