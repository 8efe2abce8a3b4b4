"""Session updates that are the same in every version, to the wire and back; and the parts of the others that are.

Message chunks and tool calls, which are most of what travels, are converted by each version itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from duologue.conversation import updates as u
from duologue.conversation.work_state import TokenUsage
from duologue.protocol.shared.fields import convert_fields
from duologue.schema.base import JsonObject, Other

T = TypeVar("T")
S = TypeVar("S")

_TOKENS = ("total", "input", "output", "thought", "cached_read", "cached_write")


def patch(value: T | None | UnsetType, convert: Callable[[T], S]) -> S | None | UnsetType:
    """Convert the value of a patch field; absent stays absent, and null stays null."""
    if value is UNSET or value is None:
        return value
    return convert(value)


def meta_to_wire(meta: JsonObject | None | UnsetType) -> JsonObject | None:
    """Write `_meta` where absent and null are the same."""
    return None if isinstance(meta, UnsetType) else meta


def meta_from_wire(meta: JsonObject | None) -> JsonObject | UnsetType:
    """Read `_meta` where absent and null are the same."""
    return UNSET if meta is None else meta


class UpdateConverter:
    """Converts the updates that are the same in every version.

    Args:
        schema: The package of one version's shapes.
        content: The module that converts its content blocks.
        settings: The module that converts its config options.
    """

    def __init__(self, schema: Any, content: Any, settings: Any) -> None:
        self._schema = schema
        self._content = content
        self._settings = settings

    def to_wire(self, update: u.Update) -> Any:
        """Write an update; None if it is not one of those that every version has."""
        schema, content = self._schema, self._content
        meta = meta_to_wire(update.meta)
        match update:
            case u.SettingsUpdate():
                options = [self._settings.config_option_to_wire(option) for option in update.settings]
                return schema.ConfigOptionUpdate(config_options=options, meta=meta)
            case u.PlanRemovedUpdate():
                return convert_fields(update, schema.PlanRemoved, meta=meta)
            case u.NoticeUpdate():
                return convert_fields(update, schema.Notice, meta=meta)
            case u.CompactionUpdate():
                summary = patch(update.summary, content.blocks_to_wire)
                return convert_fields(update, schema.CompactionUpdate, summary=summary)
            case u.CompactionChunk():
                block = content.to_wire(update.content)
                return convert_fields(update, schema.CompactionSummaryChunk, content=block, meta=meta)
            case u.SubagentUpdate():
                return self._subagent_to_wire(update)
            case u.SessionMessageUpdate():
                blocks = patch(update.content, content.blocks_to_wire)
                return convert_fields(update, schema.SessionMessage, content=blocks)
            case u.SessionMessageChunk():
                block = content.to_wire(update.content)
                return convert_fields(update, schema.SessionMessageChunk, content=block, meta=meta)
            case u.UnrecognizedUpdate():
                return Other(update.tag, update.fields)
            case _:
                return None

    def from_wire(self, update: Any) -> u.Update:
        """Read an update that every version has.

        Raises:
            TypeError: It is not one of them.
        """
        schema, content = self._schema, self._content
        if isinstance(update, Other):
            return u.UnrecognizedUpdate(tag=update.tag, fields=dict(update))
        meta = UNSET if update.meta is None else update.meta
        match update:
            case schema.ConfigOptionUpdate():
                options = [self._settings.config_option_from_wire(option) for option in update.config_options]
                return u.SettingsUpdate(settings=options, meta=meta)
            case schema.PlanRemoved():
                return convert_fields(update, u.PlanRemovedUpdate, meta=meta)
            case schema.Notice():
                return convert_fields(update, u.NoticeUpdate, meta=meta)
            case schema.CompactionUpdate():
                summary = patch(update.summary, content.blocks_from_wire)
                return convert_fields(update, u.CompactionUpdate, summary=summary)
            case schema.CompactionSummaryChunk():
                return convert_fields(update, u.CompactionChunk, content=content.from_wire(update.content), meta=meta)
            case schema.SubagentUpdate():
                state = patch(update.state, msgspec.to_builtins)
                can_cancel = patch(update.capabilities, lambda capabilities: capabilities.cancel is not None)
                return convert_fields(update, u.SubagentUpdate, state=state, can_cancel=can_cancel)
            case schema.SessionMessage():
                blocks = patch(update.content, content.blocks_from_wire)
                return convert_fields(update, u.SessionMessageUpdate, content=blocks)
            case schema.SessionMessageChunk():
                block = content.from_wire(update.content)
                return convert_fields(update, u.SessionMessageChunk, content=block, meta=meta)
            case _:
                raise TypeError(f"{type(update).__name__} is not a session update of {schema.__name__}")

    def _subagent_to_wire(self, update: u.SubagentUpdate) -> Any:
        schema = self._schema
        cancel = schema.SessionCancelCapabilities() if update.can_cancel else None
        capabilities = patch(update.can_cancel, lambda _: schema.SubagentSessionCapabilities(cancel=cancel))
        # The state of another session is passed on as it was received.
        state = patch(update.state, lambda fields: Other(fields.get("state"), fields))
        return convert_fields(update, schema.SubagentUpdate, state=state, capabilities=capabilities)


def plan_entries_to_wire(schema: Any, entries: list[u.PlanEntry] | None) -> list[Any]:
    return [convert_fields(entry, schema.PlanEntry) for entry in entries or []]


def plan_content_to_wire(schema: Any, update: u.PlanUpdate, plan_id: str) -> Any:
    """Write what a plan with an id shows: entries, a file or Markdown."""
    if update.other is not None:
        return Other(update.other.get("type"), update.other)
    if update.uri is not None:
        return schema.PlanFile(plan_id=plan_id, uri=update.uri)
    if update.markdown is not None:
        return schema.PlanMarkdown(plan_id=plan_id, content=update.markdown)
    return schema.PlanItems(plan_id=plan_id, entries=plan_entries_to_wire(schema, update.entries))


def plan_from_wire(schema: Any, update: Any) -> u.PlanUpdate:
    """Read a plan with an id."""
    meta = meta_from_wire(update.meta)
    plan = update.plan
    match plan:
        case Other():
            return u.PlanUpdate(plan_id=str(plan.get("planId", "")), other=dict(plan), meta=meta)
        case schema.PlanItems():
            entries = [convert_fields(entry, u.PlanEntry) for entry in plan.entries]
            return u.PlanUpdate(plan_id=plan.plan_id, entries=entries, meta=meta)
        case schema.PlanFile():
            return u.PlanUpdate(plan_id=plan.plan_id, uri=plan.uri, meta=meta)
        case _:
            return u.PlanUpdate(plan_id=plan.plan_id, markdown=plan.content, meta=meta)


def token_usage_to_wire(schema: Any, usage: TokenUsage | None) -> Any:
    if usage is None:
        return None
    return schema.Usage(**{f"{name}_tokens": getattr(usage, name) for name in _TOKENS}, meta=usage.meta)


def token_usage_from_wire(usage: Any) -> TokenUsage | None:
    if usage is None:
        return None
    return TokenUsage(**{name: getattr(usage, f"{name}_tokens") for name in _TOKENS}, meta=usage.meta)
