"""What can be set in a session: modes, models and other choices, as both ends talk about them."""

from __future__ import annotations

from msgspec import Struct, structs

from duologue.conversation.content import JsonObject

__all__ = ["ConfigOption", "Mode", "Modes", "Option", "OptionGroup"]


class Option(Struct, frozen=True, omit_defaults=True):
    """One value a choice can take."""

    value: str
    name: str
    description: str | None = None
    meta: JsonObject | None = None


class OptionGroup(Struct, frozen=True, omit_defaults=True):
    """Values that belong together under a heading."""

    group_id: str
    name: str
    options: list[Option]
    meta: JsonObject | None = None


class ConfigOption(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that can be set. `kind` is `select`, `boolean`, or one this version does not know (`other` has it all).

    Categories tell a client where to show it: `mode`, `model`, `model_config`, `thought_level`, or one's own `_x`.
    """

    setting_id: str
    name: str
    kind: str = "select"
    value: str | bool | None = None
    options: list[Option] = []
    groups: list[OptionGroup] = []
    description: str | None = None
    category: str | None = None
    other: JsonObject | None = None
    meta: JsonObject | None = None

    @property
    def choices(self) -> list[Option]:
        """All values, grouped or not."""
        return [*self.options, *(option for group in self.groups for option in group.options)]

    def with_value(self, value: str | bool) -> ConfigOption:
        """The same setting, set to this."""
        return structs.replace(self, value=value)


class Mode(Struct, frozen=True, omit_defaults=True):
    """A way for the agent to work."""

    mode_id: str
    name: str
    description: str | None = None
    meta: JsonObject | None = None


class Modes(Struct, frozen=True, omit_defaults=True):
    """The modes of a session and the one it is in."""

    current: str
    available: list[Mode]
    meta: JsonObject | None = None
