"""A scripted agent: play the steps of a file, including faults, and fail if the client deviates from them."""

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


class ScenarioFailed(DuologueError):
    """The client did something other than a step expects; the message says what."""


class Scenario:
    """An agent that follows a script. It can be used wherever an agent can: `connect(Scenario("tea.toml"))`.

    Args:
        script: The script, or the path of its file.
    """

    def __init__(self, script: Script | str | Path) -> None:
        self._script = script if isinstance(script, Script) else read_script(Path(script))

    async def serve(self, transport: Transport) -> None:
        """Play the script for one client.

        Raises:
            ScenarioFailed: The client did something other than the script expects.
        """
        await self.play(transport)

    async def play(self, transport: Transport) -> Step | None:
        """Play the script for one client; return the step that ends the process, if there is one.

        Raises:
            ScenarioFailed: The client did something other than the script expects.
        """
        async with transport:
            return await _Playback(self._script, transport).run()


class _Playback:
    """One conversation with a client."""

    def __init__(self, script: Script, transport: Transport) -> None:
        self._script = script
        self._transport = transport
        self._frames: deque[bytes] = deque()
        self._open: list[tuple[str, Any]] = []
        """Method and id of expected requests that are not yet answered."""

    async def run(self) -> Step | None:
        while True:
            for number, step in enumerate(self._script.step, 1):
                if await self._perform(f"step {number}", step):
                    return step
            if not self._script.loop:
                await self._finish()
                return None
            if not await self._has_input():
                return None

    async def _perform(self, name: str, step: Step) -> bool:
        """Perform a step; return True if it ends the process."""
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

    # --- receiving

    async def _expect(self, name: str, step: Step) -> None:
        try:
            async with asyncio.timeout(self._script.within if step.within is None else step.within):
                await self._until(name, step.pattern or {})
        except TimeoutError:
            raise ScenarioFailed(f"{name}: {_describe(step.pattern or {})} did not arrive in time") from None

    async def _until(self, name: str, pattern: JsonObject) -> None:
        """Wait for the message; only messages that the script answers or ignores may precede it."""
        while True:
            message = await self._next()
            if message is None:
                raise ScenarioFailed(f"{name}: the client disconnected while {_describe(pattern)} was expected")
            found = difference(pattern, message)
            if found is None:
                if "method" in message and "id" in message:
                    self._open.append((message["method"], message["id"]))
                return
            if not await self._answer(message):
                raise await self._reject(message, f"{name}: {_describe(pattern)} was expected, but {found}")

    async def _reject(self, message: JsonObject, reason: str) -> ScenarioFailed:
        """Return the failure, after sending it to the client if the message was a request."""
        if "method" in message and "id" in message:
            await self._send_error(message["id"], InternalError.code, reason)
        return ScenarioFailed(f"{reason}: {msgspec.json.encode(message).decode()[:1000]}")

    async def _answer(self, message: JsonObject) -> bool:
        """Handle a message that no step expects; return True if the script allows it."""
        method = str(message.get("method"))
        reply = self._script.answer_to(method)
        if reply is not None and "id" in message:
            await self._send(msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], **reply}))
            return True
        # protocol, extensibility: notifications that begin with `$/` may be ignored.
        return method in self._script.ignore or method.startswith("$/")

    async def _finish(self) -> None:
        """Answer what the script answers after the last step, until the client disconnects."""
        while (message := await self._next()) is not None:
            if not await self._answer(message) and "method" in message and "id" in message:
                reason = f"the scenario has ended, and has no answer to {message['method']}"
                await self._send_error(message["id"], MethodNotFound.code, reason)
                raise ScenarioFailed(reason)

    async def _has_input(self) -> bool:
        """Wait for input; return False if the client has disconnected."""
        if not self._frames:
            self._frames += await self._transport.receive()
        return bool(self._frames)

    async def _next(self) -> JsonObject | None:
        if not await self._has_input():
            return None
        frame = self._frames.popleft()
        try:
            return msgspec.json.decode(frame, type=JsonObject)
        except msgspec.MsgspecError as error:
            raise ScenarioFailed(f"the client sent an invalid message ({error}): {frame[:200]!r}") from None

    # --- sending

    def _request_to_answer(self, name: str, method: str | None) -> Any:
        for index in reversed(range(len(self._open))):
            if method in (None, self._open[index][0]):
                return self._open.pop(index)[1]
        raise ScenarioFailed(f"{name}: no {method or 'request'} is waiting for a reply; expect one first")

    async def _send(self, frame: bytes, times: int | None = None) -> None:
        for _ in range(1 if times is None else times):
            self._transport.send(frame)
            if self._transport.is_congested:
                await self._transport.drain()

    async def _send_error(self, request_id: Any, code: int, text: str) -> None:
        error = {"code": code, "message": text}
        await self._send(msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "error": error}))


def _describe(pattern: JsonObject) -> str:
    if "method" in pattern:
        return str(pattern["method"])
    return f"a response to {pattern['id']!r}" if "id" in pattern else "a message"


def play(path: Path) -> int:
    """Play a file on stdio; return 0 if the client followed the script, 1 if not, 2 if the file is not a script."""
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
    """End the process as the script says, after the transport was closed; return the exit code."""
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
