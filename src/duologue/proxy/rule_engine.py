"""Apply the rules of a proxy to the messages of one connection. What cannot be decided is blocked."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import Raw

from duologue.errors import ConnectionLost, InternalError, InvalidParams, InvalidRequest, RequestError
from duologue.jsonrpc.codec import serialize_error, serialize_result
from duologue.jsonrpc.envelope import with_member
from duologue.jsonrpc.framing import Oversized
from duologue.proxy.message_reader import MessageReader
from duologue.proxy.params import TypedContent, result_text
from duologue.proxy.proxy import Block, Proxy, ProxyRule
from duologue.proxy.values import RequestAnswer, WireMessage
from duologue.recording.format import FrameDirection
from duologue.runtime.tasks import TaskScope
from duologue.sanitize import escape_line, quote
from duologue.transports.offload import run_offloaded

CANCEL_SECONDS = 1.0
"""Time for rules that still run at the end of a connection."""

_log = logging.getLogger("duologue.proxy")


class Outcome(NamedTuple):
    """The frame to pass on, and the frame to send back to the sender."""

    forward: bytes | None = None
    reply: bytes | None = None


class RuleEngine:
    """Applies a proxy to one connection. Enter an event loop first; close it with `aclose`.

    Args:
        proxy: The rules and observers.
    """

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._reader = MessageReader()
        self._tasks = TaskScope()

    async def aclose(self) -> None:
        """Cancel the rules that still run."""
        await self._tasks.cancel(CANCEL_SECONDS)
        await self._proxy.aclose()

    def has_rules(self, message: WireMessage) -> bool:
        """Return True if a function is called before the message is passed on."""
        return bool(self._proxy.observers or self._rules(message))

    async def read(self, direction: FrameDirection, frame: bytes) -> WireMessage:
        """Read a frame; each one once, in order."""
        return await run_offloaded(lambda each: self._reader.read(direction, each), frame)

    def _rules(self, message: WireMessage) -> tuple[ProxyRule, ...]:
        if message.kind == "invalid" or message.is_error:
            return ()
        return self._proxy.rules_for(message.kind, message.method, message.direction)

    async def apply(self, message: WireMessage) -> Outcome:
        """Call the observers and rules for a message, and return what to do with it.

        Raises:
            ConnectionLost: A message is too long, and does not show which request it is or answers.
        """
        for observer in self._proxy.observers:
            await self._observe(observer, message)
        if self._proxy.is_passive:
            return Outcome(message.frame)
        if message.problem is not None:
            return self._reject_invalid(message)
        rules = self._rules(message)
        if not rules:
            return Outcome(message.frame)
        try:
            content = await run_offloaded(lambda each: _typed(message, each), bytes(message.content))
        except InvalidParams as error:
            return self._blocked(message, rules[0], error, f"it cannot be checked: {error}")
        return await self._decide(message, rules, content)

    async def _decide(self, message: WireMessage, rules: tuple[ProxyRule, ...], content: TypedContent) -> Outcome:
        text: bytes | None = None
        for rule in rules:
            try:
                arguments = (content.read(), message) if rule.takes_message else (content.read(),)
                result = await self._call(rule.function, arguments)
                if result is None:
                    continue
                if isinstance(result, RequestAnswer):
                    return self._answer(message, rule, result)
                if not isinstance(result, content.types):
                    return self._blocked(message, rule, TypeError(_expected(result, content, message)))
                text = content.changed_to(result)
                content = TypedContent(text, message.version, message.method, message.kind)
            except Exception as error:
                return self._blocked(message, rule, error)
        if text is None:
            return Outcome(message.frame)
        part = "result" if message.kind == "response" else "params"
        return Outcome(with_member(message.frame, part, text))

    def _answer(self, message: WireMessage, rule: ProxyRule, answer: RequestAnswer) -> Outcome:
        if message.kind != "request" or message.id is None:
            return self._blocked(message, rule, TypeError(f"only a request can be answered, not a {message.kind}"))
        text = result_text(message.version, message.method, answer.result)
        self._reader.answered(message)
        return Outcome(reply=serialize_result(message.id, Raw(text)))

    async def _call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Call a function of the user; one that does not end in time is left behind.

        Raises:
            TimeoutError: It did not end in time.
        """
        task = self._tasks.start(_result_of(function, arguments))
        try:
            await asyncio.wait({task}, timeout=self._proxy.timeout)
            if not task.done():
                raise TimeoutError(f"it did not end within {self._proxy.timeout:g} seconds")
            if task.cancelled():
                raise RuntimeError("it was cancelled")
            return task.result()
        finally:
            task.cancel()

    async def _observe(self, observer: Callable[[WireMessage], Any], message: WireMessage) -> None:
        try:
            await self._call(observer, (message,))
        except Exception:
            _log.exception("%s: the observer %s failed", self._proxy.name, getattr(observer, "__name__", "?"))

    # --- blocking

    def _reject_invalid(self, message: WireMessage) -> Outcome:
        """Block what is no message, because no rule can check it; fail the request that it is or answers."""
        problem = message.problem
        assert problem is not None, "only invalid messages come here"
        _log.warning("%s: blocked a line %s: %s", self._proxy.name, _direction(message), escape_line(str(problem)))
        if isinstance(message.frame, Oversized) and problem.id is None:
            raise ConnectionLost(f"{problem.error.message}, and does not show which request it is about")
        if not problem.is_response:
            return Outcome(reply=serialize_error(problem.id, problem.error))
        return Outcome() if problem.id is None else Outcome(serialize_error(problem.id, problem.error))

    def _blocked(self, message: WireMessage, rule: ProxyRule, error: Exception, reason: str = "") -> Outcome:
        """Log why a message is blocked, and fail the request that it is or answers."""
        reference = os.urandom(4).hex()
        is_wanted = isinstance(error, Block)
        reason = str(error) if is_wanted else reason or f"it failed with {type(error).__name__}"
        _log.warning(
            "%s: the rule %s blocked %s %s: %s (reference %s)",
            self._proxy.name,
            rule.name,
            quote(message.method),
            _direction(message),
            escape_line(reason),
            reference,
            exc_info=None if is_wanted or isinstance(error, InvalidParams | TimeoutError) else error,
        )
        self._reader.answered(message)
        if message.id is None:
            return Outcome()
        text = f"blocked by the rule {rule.name} of {self._proxy.name}: {reason} (reference {reference})"
        data = {"proxy": self._proxy.name, "rule": rule.name, "reference": reference}
        kind: type[RequestError] = InvalidRequest if is_wanted or isinstance(error, InvalidParams) else InternalError
        failure = serialize_error(message.id, kind(text, data=data))
        return Outcome(reply=failure) if message.kind == "request" else Outcome(failure)


async def _result_of(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        return await function(*arguments)
    result = await asyncio.to_thread(function, *arguments)
    return await result if inspect.isawaitable(result) else result


def _typed(message: WireMessage, text: bytes) -> TypedContent:
    """Read the content of a message that a rule decides about.

    Raises:
        InvalidParams: It does not match the schema, or its receiver could read it differently.
    """
    try:
        json.loads(text, object_pairs_hook=_unique)
    except ValueError as error:
        raise InvalidParams(str(error)) from None
    return TypedContent(text, message.version, message.method, message.kind)


def _unique(pairs: list[tuple[str, Any]]) -> None:
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError("a name occurs twice in an object")


def _direction(message: WireMessage) -> str:
    return message.direction.replace("_", " the ")


def _expected(result: object, content: TypedContent, message: WireMessage) -> str:
    types = content.types[0].__name__ if len(content.types) == 1 else "an update"
    answers = ", `proxy.answer(…)`" if message.kind == "request" else ""
    return f"it returned {type(result).__name__}; return None, {types}{answers}, or raise `Block`"
