"""A scripted agent: plays the steps of a file, faults included, and fails loudly when the client does otherwise."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import deque
from pathlib import Path
from typing import Any

import msgspec

from duologue.conversation.content import JsonObject
from duologue.errors import ConnectionLost, DuologueError, InternalError, MethodNotFound
from duologue.testing.script import Script, Step, difference, read_script
from duologue.transports.base import Transport
from duologue.transports.stdio.stdio import StdioTransport

__all__ = ["Scenario", "ScenarioFailed", "play"]


class ScenarioFailed(DuologueError):
    """The client did not do what a step expects; the message says what it did instead."""


class Scenario:
    """An agent that follows a script instead of thinking. It can be served wherever an agent can.

    Args:
        script: What to play, or a file that says it.
    """

    def __init__(self, script: Script | str | Path) -> None:
        self._script = script if isinstance(script, Script) else read_script(Path(script))

    async def serve(self, transport: Transport) -> None:
        """Play it for one client.

        Raises:
            ScenarioFailed: The client did something else than the script expects.
        """
        await self.play(transport)

    async def play(self, transport: Transport) -> Step | None:
        """Play it for one client; the step that ends the process, if one does.

        Raises:
            ScenarioFailed: The client did something else than the script expects.
        """
        async with transport:
            return await _Playing(self._script, transport).run()


class _Playing:
    """One conversation."""

    def __init__(self, script: Script, transport: Transport) -> None:
        self._script = script
        self._transport = transport
        self._arrived: deque[bytes] = deque()
        self._open: list[tuple[str, Any]] = []
        """Requests that were expected and not yet answered: method and id."""

    async def run(self) -> Step | None:
        while True:
            for number, step in enumerate(self._script.step, 1):
                if await self._perform(f"step {number}", step):
                    return step
            if not self._script.loop:
                await self._stay()
                return None
            if not await self._is_there():
                return None

    async def _perform(self, name: str, step: Step) -> bool:
        """Do what a step says; whether that is the end."""
        if step.delay:
            await asyncio.sleep(step.delay)
        if step.pattern is not None:
            await self._expect(name, step)
        elif step.send is not None:
            await self._send(msgspec.json.encode({"jsonrpc": "2.0", **step.send}), step.times)
        elif step.reply is not None:
            request_id = self._request_to_answer(name, step.to)
            await self._send(msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, **step.reply}))
        elif step.raw is not None:
            await self._send(step.raw.encode("utf-8", "surrogatepass"), step.times)
        elif step.raw_hex is not None:
            await self._send(bytes.fromhex(step.raw_hex), step.times)
        return step.end is not None

    # --- hearing

    async def _expect(self, name: str, step: Step) -> None:
        try:
            async with asyncio.timeout(self._script.within if step.within is None else step.within):
                await self._until(name, step.pattern or {})
        except TimeoutError:
            raise ScenarioFailed(f"{name}: {_called(step.pattern or {})} did not come in time") from None

    async def _until(self, name: str, pattern: JsonObject) -> None:
        """Wait for the message; what the script answers anyway may come before it, and nothing else."""
        while True:
            message = await self._next()
            if message is None:
                raise ScenarioFailed(f"{name}: the client left while {_called(pattern)} was expected")
            found = difference(pattern, message)
            if found is None:
                if "method" in message and "id" in message:
                    self._open.append((message["method"], message["id"]))
                return
            if not await self._answer(message):
                raise await self._refuse(message, f"{name}: {_called(pattern)} was expected, but {found}")

    async def _refuse(self, message: JsonObject, reason: str) -> ScenarioFailed:
        """The failure; the client is told, too, if it can be."""
        if "method" in message and "id" in message:
            await self._send_error(message["id"], InternalError.code, reason)
        return ScenarioFailed(f"{reason}: {msgspec.json.encode(message).decode()[:1000]}")

    async def _answer(self, message: JsonObject) -> bool:
        """Deal with what no step expects; whether the script allows it."""
        method = str(message.get("method"))
        reply = self._script.answer_to(method)
        if reply is not None and "id" in message:
            await self._send(msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], **reply}))
            return True
        # protocol, extensibility: what begins with `$/` may be ignored by anyone.
        return method in self._script.ignore or method.startswith("$/")

    async def _stay(self) -> None:
        """All is played: answer what the script answers, until the client leaves."""
        while (message := await self._next()) is not None:
            if not await self._answer(message) and "method" in message and "id" in message:
                reason = f"the scenario is over, and says nothing about {message['method']}"
                await self._send_error(message["id"], MethodNotFound.code, reason)
                raise ScenarioFailed(reason)

    async def _is_there(self) -> bool:
        """Whether the client will say anything more."""
        if not self._arrived:
            self._arrived += await self._transport.receive()
        return bool(self._arrived)

    async def _next(self) -> JsonObject | None:
        if not await self._is_there():
            return None
        frame = self._arrived.popleft()
        try:
            return msgspec.json.decode(frame, type=JsonObject)
        except msgspec.MsgspecError as error:
            raise ScenarioFailed(f"the client sent what is no message ({error}): {frame[:200]!r}") from None

    # --- saying

    def _request_to_answer(self, name: str, method: str | None) -> Any:
        for index in reversed(range(len(self._open))):
            if method in (None, self._open[index][0]):
                return self._open.pop(index)[1]
        raise ScenarioFailed(f"{name}: there is no {method or 'request'} to reply to; expect one first")

    async def _send(self, frame: bytes, times: int | None = None) -> None:
        for _ in range(1 if times is None else times):
            self._transport.send(frame)
            if self._transport.is_congested:
                await self._transport.drain()

    async def _send_error(self, request_id: Any, code: int, text: str) -> None:
        error = {"code": code, "message": text}
        await self._send(msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "error": error}))


def _called(pattern: JsonObject) -> str:
    if "method" in pattern:
        return str(pattern["method"])
    return f"an answer to {pattern['id']!r}" if "id" in pattern else "a message"


def play(path: Path) -> int:
    """Play a file on stdio; the exit code: 0 if the client kept to the script, 1 if not, 2 if it is no script."""
    try:
        scenario = Scenario(path)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"duologue agent: {path}: {error}\n")
        return 2
    try:
        ending = asyncio.run(scenario.play(StdioTransport()))
    except (ScenarioFailed, ConnectionLost) as error:
        sys.stderr.write(f"duologue agent: {path}: {error}\n")
        return 1
    return 0 if ending is None else _end(ending)


def _end(step: Step) -> int:
    """End as the script says. The transport is closed, so that stdin and stdout are as they were."""
    if step.torn is not None:
        os.write(1, step.torn.encode())
    if step.end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if step.end == "close":
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 1)
        os.close(nowhere)
        while os.read(0, 65536):
            pass
    return step.end if isinstance(step.end, int) else 0
