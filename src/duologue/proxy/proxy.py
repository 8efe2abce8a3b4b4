"""A proxy: the rules and observers that see the messages between a client and an agent."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cache, partial
from typing import Any, TypeVar

from msgspec import Struct, structs

from duologue.conversation.session_setup import McpServer, SessionParams
from duologue.proxy.params import OPENING, PERMISSION, side_of
from duologue.proxy.values import MessageKind, RequestAnswer, WireMessage

F = TypeVar("F", bound=Callable[..., Any])

RULE_SECONDS = 10.0
"""How long a rule may take: a person waits for the message behind it."""


class Block(Exception):
    """Raise it in a rule to block the message; the text is the reason that the sender gets."""


class ProxyRule(Struct, frozen=True):
    """A function that decides about messages.

    Attributes:
        kind: Kind of messages that it gets.
        patterns: Methods that it gets; `*` stands for any characters.
        function: The function.
        takes_message: It takes the `WireMessage` as a second argument.
    """

    kind: MessageKind
    patterns: tuple[str, ...]
    function: Callable[..., Any]
    takes_message: bool = False

    @property
    def name(self) -> str:
        """The name of the function."""
        return str(getattr(self.function, "__name__", type(self.function).__name__))


class Proxy:
    """A program between a client and an agent: register functions that see the messages with its decorators.

    A rule gets the params as a type of this library (those of the schema for methods that have none) and, if it takes
    a second argument, the `WireMessage`. It returns None to pass the message on as it is, a changed value of the same
    type, or for a request `proxy.answer(…)`; it raises `Block` to block the message. A rule that fails, takes too long
    or returns anything else blocks the message, too. Rules for the same message are called in the order in which they
    were registered. A plain function is called in a thread.

    Args:
        name: Name of the proxy, for its log and in the errors that it sends.
        timeout: Seconds that a rule may take.
    """

    def __init__(self, name: str = "proxy", *, timeout: float = RULE_SECONDS) -> None:
        self.name = name
        self.timeout = timeout
        self.observers: list[Callable[[WireMessage], Any]] = []
        self.rules: list[ProxyRule] = []
        self.rules_for = cache(self._rules_for)

    @property
    def is_passive(self) -> bool:
        """True if it has no rules: it sees messages and never changes, answers or blocks one."""
        return not self.rules

    @staticmethod
    def answer(result: Any = None) -> RequestAnswer:
        """Answer a request in place of its receiver, which does not get it.

        Args:
            result: A JSON object, a class of the schema, or the plain result of a request to the client: the text of a
                file, the id of a terminal, the id of the chosen option (None: cancelled).
        """
        return RequestAnswer(result)

    def observe(self, function: F) -> F:
        """Register a function that gets every message as a `WireMessage`, before the rules do.

        What it returns has no effect, and if it fails, that is logged and the message passes all the same.
        """
        _parameters(function, 1)
        self.observers.append(function)
        return function

    def on_request(self, *methods: str) -> Callable[[F], F]:
        """Register a rule for requests: `@proxy.on_request("session/new")`; `*` stands for any characters."""
        return partial(self._register, "request", methods)

    def on_notification(self, *methods: str) -> Callable[[F], F]:
        """Register a rule for notifications: `@proxy.on_notification("session/cancel")`."""
        return partial(self._register, "notification", methods)

    def on_response(self, *methods: str) -> Callable[[F], F]:
        """Register a rule for the results of these methods. Responses that are errors pass without it."""
        return partial(self._register, "response", methods)

    def on_prompt(self, function: F) -> F:
        """Register a rule for prompts, which it gets as `Prompt`."""
        return self._register("request", ("session/prompt",), function)

    def on_session(self, function: F) -> F:
        """Register a rule for requests that open a session, which it gets as `SessionParams`."""
        return self._register("request", OPENING, function)

    def on_update(self, function: F) -> F:
        """Register a rule for session updates, which it gets as one of `duologue.types.Update`."""
        return self._register("notification", ("session/update",), function)

    def on_permission_request(self, function: F) -> F:
        """Register a rule for permission requests, which it gets as `PermissionQuestion`."""
        return self._register("request", (PERMISSION,), function)

    def add_mcp_server(self, server: McpServer) -> None:
        """Offer one more MCP server in every session; one of the same name that the client offers stays instead."""

        def add_mcp_server(session: SessionParams) -> SessionParams | None:
            if any(each.name == server.name for each in session.mcp_servers):
                return None
            return structs.replace(session, mcp_servers=[*session.mcp_servers, server])

        self.on_session(add_mcp_server)

    async def aclose(self) -> None:
        """End what a connection has left; called after each one. A subclass may have something to do here."""

    def _register(self, kind: MessageKind, methods: tuple[str, ...], function: F) -> F:
        if not methods or not all(isinstance(each, str) for each in methods):  # pyright: ignore[reportUnnecessaryIsInstance]  # a forgotten call
            raise TypeError(f'name the methods: `@proxy.on_{kind}("session/new")`')
        self.rules.append(ProxyRule(kind, methods, function, takes_message=_parameters(function, 2) > 1))
        self.rules_for.cache_clear()
        return function

    def _rules_for(self, kind: MessageKind, method: str, direction: str) -> tuple[ProxyRule, ...]:
        """Return the rules for a message, in order; a method that only one side handles counts in its direction."""
        side = side_of(method, is_request=kind != "notification")
        receiver = direction if kind != "response" else "to_client" if direction == "to_agent" else "to_agent"
        if side is not None and receiver != f"to_{side}":
            return ()
        fitting = [rule for rule in self.rules if rule.kind == kind]
        return tuple(each for each in fitting if any(fnmatchcase(method, pattern) for pattern in each.patterns))


def _parameters(function: Callable[..., Any], most: int) -> int:
    """Return how many arguments a function takes, at most.

    Raises:
        TypeError: It takes none, or needs more than it gets.
    """
    if not callable(function):  # pyright: ignore[reportUnnecessaryComparison]  # not checked before
        raise TypeError(f"expected a function, got {function!r}")
    parameters = list(inspect.signature(function).parameters.values())
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    needed = [
        each
        for each in parameters
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    if not positional or len(needed) > most or any(each.kind is each.KEYWORD_ONLY for each in needed):
        expected = "the message" if most == 1 else "the params and, if it wants, the message"
        raise TypeError(f"{getattr(function, '__name__', function)} must take {expected}")
    return min(len(positional), most)
