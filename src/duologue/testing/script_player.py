"""Play one side of a script on a transport, and fail if the peer deviates from it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import msgspec
from msgspec import Struct

from duologue.conversation.content import JsonObject
from duologue.errors import ConnectionLost, DuologueError, InternalError, MessageTooLarge, MethodNotFound
from duologue.testing.message_log import MessageLog
from duologue.testing.message_pattern import as_pattern, difference
from duologue.testing.script import Script, Step
from duologue.testing.script_variables import UnknownVariable, Variables, value_at
from duologue.transports.base import Transport


class ScenarioFailed(DuologueError):
    """The peer did something other than a step expects; the message says what."""


class Side(Struct, frozen=True, kw_only=True):
    """One side of a script: the differences between agent and client.

    Attributes:
        peer: The other side.
        answers: Replies to requests that neither a step nor the script names.
        ignore: Methods that are ignored if the script does not say which.
        within: Time limit of an `expect` if the script has none.
        is_strict: A name of a variable without a value is an error, even in a script that has no variables.
    """

    peer: str
    answers: Mapping[str, JsonObject] = {}
    ignore: Sequence[str] = ()
    within: float | None = None
    is_strict: bool = False


class ScriptPlayer:
    """One conversation with a peer.

    Args:
        script: What to play.
        transport: The connection, entered.
        side: The side that is played.
        values: Variables in addition to those of the script.

    Attributes:
        values: The variables with their values so far.
        log: The messages so far.
    """

    def __init__(
        self, script: Script, transport: Transport, side: Side, values: Mapping[str, Any] | None = None
    ) -> None:
        self.values: dict[str, Any] = {**script.variables, **(values or {})}
        self.log = MessageLog()
        self._script = script
        self._transport = transport
        self._side = side
        self._variables = Variables(self.values, is_strict=side.is_strict or script.has_variables)
        self._ignored = side.ignore if script.ignore is None else script.ignore
        self._frames: deque[bytes] = deque()
        self._open: list[tuple[str, Any]] = []
        """Method and id of expected requests that are not yet answered."""

    async def run(self) -> Step | None:
        """Play as an agent does: until the last step, then until the peer disconnects; return the step that ends it.

        Raises:
            ScenarioFailed: The peer deviates from the script.
        """
        while True:
            ending = await self.play(self._script.step)
            if ending is not None:
                return ending
            if not self._script.loop:
                await self._finish()
                return None
            if not await self._has_input():
                return None

    async def play(self, steps: Sequence[Step], name: str = "step") -> Step | None:
        """Play steps; return the one that ends the conversation, if there is one.

        Raises:
            ScenarioFailed: The peer deviates from a step.
        """
        for number, step in enumerate(steps, 1):
            try:
                await self._perform(f"{name} {number}", step)
            except UnknownVariable as error:
                raise ScenarioFailed(f"{name} {number}: {error}") from None
            if step.end is not None:
                return step
        return None

    async def _perform(self, name: str, step: Step) -> None:
        if step.delay:
            await asyncio.sleep(step.delay)
        if step.patterns:
            await self._expect(name, step)
        elif step.send is not None:
            await self._send_message(self._variables.fill(step.send), step.times)
        elif step.reply is not None:
            request_id = self._request_to_answer(name, step.to)
            await self._send_message({"id": request_id, **self._variables.fill(step.reply)})
        elif step.raw is not None:
            await self._send(step.raw.encode("utf-8", "surrogatepass"), step.times)
        elif step.raw_hex is not None:
            await self._send(bytes.fromhex(step.raw_hex), step.times)

    # --- receiving

    async def _expect(self, name: str, step: Step) -> None:
        limits = (step.within, self._script.within, self._side.within)
        missing = [self._variables.fill(pattern) for pattern in step.patterns]
        try:
            async with asyncio.timeout(next((limit for limit in limits if limit is not None), None)):
                await self._until(name, missing, step)
        except TimeoutError:
            raise ScenarioFailed(f"{name}: {_describe(missing)} did not arrive in time") from None

    async def _until(self, name: str, missing: list[JsonObject], step: Step) -> None:
        """Wait for all missing messages; only messages that the script answers or ignores may precede them."""
        excluded = [self._variables.fill(as_pattern(each)) for each in step.without or ()]
        while missing:
            message = await self._next(f"{name}: {{}} while {_describe(missing)} was expected")
            differences = [difference(pattern, message) for pattern in missing]
            if None in differences:
                del missing[differences.index(None)]
                self._accept(name, message, step.capture or {})
                continue
            found = f"{_describe(missing)} was expected, but {differences[0]}"
            if len(missing) > 1:
                found = f"one of {_describe(missing)} was expected, but none is like it"
            if any(difference(pattern, message) is None for pattern in excluded):
                found = f"the step is `without` this message before {_describe(missing)}"
            elif await self._answer(message):
                continue
            raise await self._reject(message, f"{name}: {found}")

    def _accept(self, name: str, message: JsonObject, capture: Mapping[str, str]) -> None:
        if "method" in message and "id" in message:
            self._open.append((message["method"], message["id"]))
        for variable, path in capture.items():
            try:
                self.values[variable] = value_at(message, path)
            except LookupError as error:
                text = msgspec.json.encode(message).decode()[:1000]
                raise ScenarioFailed(f"{name}: cannot capture {path}: there is no {error.args[0]} in {text}") from None

    async def _reject(self, message: JsonObject, reason: str) -> ScenarioFailed:
        """Return the failure, after sending it to the peer if the message was a request."""
        if "method" in message and "id" in message:
            await self._send_error(message["id"], InternalError.code, reason)
        return ScenarioFailed(f"{reason}: {msgspec.json.encode(message).decode()[:1000]}")

    async def _answer(self, message: JsonObject) -> bool:
        """Handle a message that no step expects; return True if the script allows it."""
        method = str(message.get("method"))
        reply = self._script.answers.get(method, self._side.answers.get(method))
        if reply is not None and "id" in message:
            self.values["request"] = message
            await self._send_message({"id": message["id"], **self._variables.fill(reply)})
            return True
        # protocol, extensibility: notifications that begin with `$/` may be ignored.
        return method in self._ignored or method.startswith("$/")

    async def _finish(self) -> None:
        """Answer what the script answers after the last step, until the peer disconnects."""
        while await self._has_input():
            message = self._decode(self._frames.popleft())
            if not await self._answer(message) and "method" in message and "id" in message:
                reason = f"the scenario has ended, and has no answer to {message['method']}"
                await self._send_error(message["id"], MethodNotFound.code, reason)
                raise ScenarioFailed(reason)

    async def _has_input(self) -> bool:
        """Wait for input; return False if the peer has disconnected."""
        if not self._frames:
            frames = await self._transport.receive()
            for frame in frames:
                self.log.add("received", frame)
            self._frames += frames
        return bool(self._frames)

    async def _next(self, failure: str) -> JsonObject:
        """Return the next message; `failure` is the text for a peer that sends none."""
        reason = ""
        try:
            if await self._has_input():
                return self._decode(self._frames.popleft())
        except (ConnectionLost, MessageTooLarge) as error:
            reason = f" ({error})"
        raise ScenarioFailed(failure.format(f"the {self._side.peer} disconnected{reason}"))

    def _decode(self, frame: bytes) -> JsonObject:
        try:
            return msgspec.json.decode(frame, type=JsonObject)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            _raise_invalid(self._side.peer, error, frame)

    # --- sending

    def _request_to_answer(self, name: str, method: str | None) -> Any:
        for index in reversed(range(len(self._open))):
            if method in (None, self._open[index][0]):
                return self._open.pop(index)[1]
        raise ScenarioFailed(f"{name}: no {method or 'request'} is waiting for a reply; expect one first")

    async def _send_message(self, message: JsonObject, times: int | None = None) -> None:
        await self._send(msgspec.json.encode({"jsonrpc": "2.0", **message}), times)

    async def _send(self, frame: bytes, times: int | None = None) -> None:
        for _ in range(1 if times is None else times):
            self._transport.send(frame)
            self.log.add("sent", frame)
            if self._transport.is_congested:
                await self._drain()

    async def _drain(self) -> None:
        limit = self._side.within if self._script.within is None else self._script.within
        try:
            async with asyncio.timeout(limit):
                await self._transport.drain()
        except TimeoutError:
            raise ScenarioFailed(f"the {self._side.peer} does not read: output waited for {limit:g} s") from None

    async def _send_error(self, request_id: Any, code: int, text: str) -> None:
        await self._send_message({"id": request_id, "error": {"code": code, "message": text}})


def _raise_invalid(peer: str, error: Exception, frame: bytes) -> NoReturn:
    raise ScenarioFailed(f"the {peer} sent an invalid message ({error}): {frame[:200]!r}") from None


def _describe(patterns: Sequence[JsonObject]) -> str:
    return " and ".join(_describe_one(pattern) for pattern in patterns)


def _describe_one(pattern: JsonObject) -> str:
    if "method" in pattern:
        return str(pattern["method"])
    return f"a response to {pattern['id']!r}" if "id" in pattern else "a message"
