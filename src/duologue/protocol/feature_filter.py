"""The filter of unstable features: what is not switched on is left out of messages.

Every unstable part of the protocol belongs to one of the features below, and is advertised and sent only if that
feature was switched on. Reading is never restricted. The tests compare the features with the generated tables of what
is stable (`schema/vN/stable.py`), which nothing else needs.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from duologue.errors import MethodNotFound
from duologue.protocol.background_tasks import STOP_TASK
from duologue.schema.base import Method, Notification
from duologue.schema.fields import Field, fields_of
from duologue.schema.lenient_errors import is_array

Unstable: TypeAlias = bool | AbstractSet[str]
"""Which unstable features are switched on: all, none, or those named."""

T = TypeVar("T")

FEATURES: dict[str, tuple[str, ...]] = {
    "archive": (
        "session/archive",
        "session/unarchive",
        "SessionCapabilities.archive",
        "ListSessionsRequest.archived",
        "SessionInfo.archived",
    ),
    "auth_status": ("auth/status", "auth/status_update", "AgentAuthCapabilities.status"),
    "background_tasks": (STOP_TASK,),
    "fork": ("session/fork", "SessionCapabilities.fork"),
    "mcp_over_acp": ("mcp/message", "McpCapabilities.acp", "McpServerAcp"),
    "plan": ("ClientCapabilities.plan", "PlanUpdate", "PlanRemoved", "PlanFile", "PlanMarkdown"),
    "providers": ("providers/list", "providers/set", "providers/disable", "AgentCapabilities.providers"),
    "status": ("session/status", "SessionCapabilities.status"),
    "subagents": (
        "ClientCapabilities.subagents",
        "SubagentUpdate",
        "SessionMessage",
        "SessionMessageChunk",
        "BackgroundSubagent",
    ),
    "system_prompt": (
        "SessionCapabilities.systemPrompt",
        "NewSessionRequest.systemPrompt",
        "LoadSessionRequest.systemPrompt",
        "ResumeSessionRequest.systemPrompt",
        "ForkSessionRequest.systemPrompt",
    ),
    "title": ("session/set_title", "SessionCapabilities.title"),
    "usage": ("PromptResponse.usage", "WorkState.usage", "WorkStateUpdate.usage"),
}
"""The names of the features, and the parts of the protocol that belong to each: methods, classes, and fields of
classes. A part that is stable in the version in use is never left out."""

STABLE_PARTS = {1: frozenset[str](), 2: frozenset({"PlanUpdate"})}
"""The parts of features that are stable in a version."""

EVERYTHING = frozenset(FEATURES)


def enabled_features(unstable: Unstable) -> frozenset[str]:
    """Return the names of the features that are switched on.

    Raises:
        ValueError: A name is not one of `FEATURES`.
    """
    if isinstance(unstable, bool):
        return EVERYTHING if unstable else frozenset()
    names = frozenset(unstable)
    if not names <= EVERYTHING:
        listed = ", ".join(sorted(FEATURES))
        raise ValueError(f"unstable={unstable!r}: it takes True, False or a set of these names: {listed}")
    return names


class FeatureFilter:
    """Leaves out what is unstable and not switched on, in one version of the protocol.

    Args:
        version: The version in use.
        switched: The names of the features that are switched on.
        switch: What switches a feature on, for error messages: `connect` or `Agent`.
    """

    def __init__(self, version: int, switched: frozenset[str], switch: str) -> None:
        self._version = version
        self._switched = switched
        self._switch = switch
        self._walks: dict[type[Struct], list[tuple[Field, str | None]]] = {}
        self._open: set[type[Any]] = {type(None), str, int, bool, float}
        """Classes whose values contain nothing that is left out."""

    @cached_property
    def _closed(self) -> dict[str, str]:
        """The parts that are left out, each with the name of its feature."""
        stable = STABLE_PARTS[self._version]
        closed = [(name, parts) for name, parts in FEATURES.items() if name not in self._switched]
        return {part: name for name, parts in closed for part in parts if part not in stable}

    def allows(self, name: str) -> bool:
        """Return True if a feature is switched on, or stable as a whole."""
        return name not in self._closed.values()

    def serves(self, method: Method[Any, Any] | Notification[Any]) -> bool:
        """Return True if a method or notification may be sent and offered."""
        return method.name not in self._closed

    def check(self, method: Method[Any, Any], params: object) -> None:
        """Check that a request, and everything it asks for, is switched on.

        Raises:
            MethodNotFound: Naming the feature to switch on.
        """
        if type(params) in self._open and method.name not in self._closed:
            return
        closed = [method.name] if method.name in self._closed else []
        if self._closed and not closed and not _is_custom(method):
            self._without(params, closed)
        if closed:
            name = self._closed[closed[0]]
            raise MethodNotFound(
                f"{closed[0]} is unstable in version {self._version} of the protocol and switched off; "
                f"`{self._switch}(…, unstable={{{name!r}}})` switches it on"
            )

    def sendable(self, notification: Notification[T], params: T) -> T | None:
        """Return the parameters of a notification without what is switched off; None if it must not be sent."""
        if notification.name in self._closed:
            return None
        return params if not self._closed or _is_custom(notification) else self._without(params, [])

    def strip(self, message: T) -> T | None:
        """Return a message without what is switched off; None if nothing is left of it."""
        return message if not self._closed or type(message) in self._open else self._without(message, [])

    def _without(self, value: Any, lost: list[str]) -> Any:
        """Return the value without closed parts, which are added to `lost`; None if its whole class is closed."""
        if not isinstance(value, Struct):
            return self._items_without(value, lost) if is_array(value) else value
        if type(value).__name__ in self._closed:
            lost.append(type(value).__name__)
            return None
        changes: dict[str, Any] = {}
        walk = self._walks.get(type(value))
        if walk is None:
            walk = self._walk(type(value))
        if not walk:
            self._open.add(type(value))
        for field, closed in walk:
            before = getattr(value, field.name)
            if closed is None and type(before) in self._open:
                continue
            after = self._without(before, lost) if closed is None else field.default
            if after is before:
                continue
            if closed is not None:
                lost.append(closed)
            elif after is None and field.is_required:
                return None
            changes[field.name] = after
        return replace(value, **changes) if changes else value

    def _items_without(self, items: list[Any], lost: list[str]) -> list[Any]:
        pairs = [(item, self._without(item, lost)) for item in items]
        if all(after is before for before, after in pairs):
            return items
        return [after for before, after in pairs if after is not None or before is None]

    def _walk(self, kind: type[Struct]) -> list[tuple[Field, str | None]]:
        """Return the fields of a class that are closed or contain something closed."""
        walk = self._walks.get(kind)
        if walk is None:
            walk = self._walks[kind] = []
            for field in fields_of(kind):
                part = f"{kind.__name__}.{field.wire_name}"
                if part in self._closed:
                    walk.append((field, part))
                elif self._leads(field.classes):
                    walk.append((field, None))
        return walk

    def _leads(self, kinds: tuple[type[Struct], ...]) -> bool:
        return any(kind.__name__ in self._closed for kind in kinds) or any(self._walk(kind) for kind in kinds)


def _is_custom(method: Method[Any, Any] | Notification[Any]) -> bool:
    """Return True for custom methods, which are never filtered."""
    return method.name.startswith("_")
