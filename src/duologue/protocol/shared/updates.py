"""Session updates, to the wire and back: what is the same in every version, and the parts of the others that are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

from duologue.conversation import updates as u
from duologue.conversation.fields import convert_fields
from duologue.conversation.work_state import TokenUsage
from duologue.protocol.background_tasks import extension_from_wire
from duologue.schema.base import Model, Other
from duologue.schema.lenient_errors import is_array

T = TypeVar("T")
S = TypeVar("S")

_TOKENS = ("total", "input", "output", "thought", "cached_read", "cached_write")


def patch(value: T | None | UnsetType, convert: Callable[[T], S]) -> S | None | UnsetType:
    """Convert the value of a patch field; absent stays absent, and null stays null."""
    if value is UNSET or value is None:
        return value
    return convert(value)


class UpdateConverter:
    """Converts updates to one version and back. A kind that needs no converter of its own is copied field by field.

    Args:
        schema: The package of the version's shapes.
        content: The module that converts its content blocks.
        settings: The module that converts its config options.
        to_wire: The converters of this version, by kind of update.
        from_wire: The converters of this version, by class of its schema.

    Attributes:
        writers: What writes each kind of update.
        readers: What reads each class of the schema.
    """

    def __init__(
        self,
        schema: Any,
        content: Any,
        settings: Any,
        *,
        to_wire: dict[type[u.Update], Callable[[Any], Any]],
        from_wire: dict[type[Model | Other], Callable[[Any], u.Update]],
    ) -> None:
        self._schema = schema
        self._content = content
        self._settings = settings
        members = {member.__name__: member for member in get_args(schema.SessionUpdate)}
        pairs = [(kind, members.get(kind.wire_name or kind.__name__)) for kind in u.KINDS]
        copied = [(kind, wire) for kind, wire in pairs if wire is not None]
        self.writers: dict[type, Callable[[Any], Any]] = {
            **{kind: partial(self.copy_to_wire, wire) for kind, wire in copied},
            u.SettingsUpdate: self._settings_to_wire,
            u.UsageUpdate: self._usage_to_wire,
            u.SubagentUpdate: self._subagent_to_wire,
            u.UnrecognizedUpdate: lambda update: Other(update.tag, update.fields),
            **to_wire,
        }
        self.readers: dict[type, Callable[[Any], u.Update]] = {
            **{wire: partial(self.copy_from_wire, kind) for kind, wire in copied},
            schema.ConfigOptionUpdate: self._settings_from_wire,
            schema.UsageUpdate: self._usage_from_wire,
            schema.SubagentUpdate: self._subagent_from_wire,
            Other: extension_from_wire,
            **from_wire,
        }

    def to_wire(self, update: u.Update) -> Any:
        """Write an update.

        Raises:
            TypeError: The update has no form in this version.
        """
        write = self.writers.get(type(update))
        if write is None:
            raise TypeError(f"{type(update).__name__} has no form in {self._schema.__name__}")
        return write(update)

    def from_wire(self, update: Any) -> u.Update:
        """Read an update."""
        return self.readers[type(update)](update)

    def copy_to_wire(self, wire: type[Model], update: u.Update) -> Any:
        """Write an update whose class in the schema has the same fields; content blocks are converted."""
        blocks = _converted_blocks(update, self._content.to_wire)
        return convert_fields(update, wire, **blocks)

    def copy_from_wire(self, kind: type[Any], update: Model) -> Any:
        """Read an update whose class in the schema has the same fields; content blocks are converted."""
        blocks = _converted_blocks(update, self._content.from_wire)
        return convert_fields(update, kind, **blocks)

    def _settings_to_wire(self, update: u.SettingsUpdate) -> Any:
        options = [self._settings.config_option_to_wire(option) for option in update.settings]
        return convert_fields(update, self._schema.ConfigOptionUpdate, config_options=options)

    def _settings_from_wire(self, update: Any) -> u.Update:
        options = [self._settings.config_option_from_wire(option) for option in update.config_options]
        return convert_fields(update, u.SettingsUpdate, settings=options)

    def _usage_to_wire(self, update: u.UsageUpdate) -> Any:
        schema, cost = self._schema, update.cost
        if isinstance(cost, UnsetType):
            return convert_fields(update, schema.UsageUpdate)
        is_known = cost is not None and update.currency is not None
        known = schema.Cost(amount=cost, currency=update.currency) if is_known else None
        return convert_fields(update, schema.UsageUpdate, cost=known)

    def _usage_from_wire(self, update: Any) -> u.Update:
        cost = update.cost
        if not isinstance(cost, self._schema.Cost):
            return convert_fields(update, u.UsageUpdate)
        return convert_fields(update, u.UsageUpdate, cost=cost.amount, currency=cost.currency)

    def _subagent_to_wire(self, update: u.SubagentUpdate) -> Any:
        schema = self._schema
        cancel = schema.SessionCancelCapabilities() if update.can_cancel else None
        capabilities = patch(update.can_cancel, lambda _: schema.SubagentSessionCapabilities(cancel=cancel))
        # The state of another session is passed on as it was received.
        state = patch(update.state, lambda fields: Other(fields.get("state"), fields))
        return convert_fields(update, schema.SubagentUpdate, state=state, capabilities=capabilities)

    def _subagent_from_wire(self, update: Any) -> u.Update:
        state = patch(update.state, msgspec.to_builtins)
        can_cancel = patch(update.capabilities, lambda capabilities: capabilities.cancel is not None)
        return convert_fields(update, u.SubagentUpdate, state=state, can_cancel=can_cancel)


def _converted_blocks(update: Struct, convert: Callable[[Any], Any]) -> dict[str, Any]:
    """Convert the fields of an update that hold a content block or a list of them."""
    fields = {name: getattr(update, name, None) for name in ("content", "summary")}
    return {
        name: [convert(block) for block in value] if is_array(value) else convert(value)
        for name, value in fields.items()
        if isinstance(value, list | Struct | Other)
    }


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
    plan = update.plan
    fields: dict[str, Any]
    match plan:
        case Other():
            fields = {"plan_id": str(plan.get("planId", "")), "other": dict(plan)}
        case schema.PlanItems():
            entries = [convert_fields(entry, u.PlanEntry) for entry in plan.entries]
            fields = {"plan_id": plan.plan_id, "entries": entries}
        case schema.PlanFile():
            fields = {"plan_id": plan.plan_id, "uri": plan.uri}
        case _:
            fields = {"plan_id": plan.plan_id, "markdown": plan.content}
    return convert_fields(update, u.PlanUpdate, **fields)


def token_usage_to_wire(schema: Any, usage: TokenUsage | None) -> Any:
    if usage is None:
        return None
    return schema.Usage(**{f"{name}_tokens": getattr(usage, name) for name in _TOKENS}, meta=usage.meta)


def token_usage_from_wire(usage: Any) -> TokenUsage | None:
    if usage is None:
        return None
    return TokenUsage(**{name: getattr(usage, f"{name}_tokens") for name in _TOKENS}, meta=usage.meta)
