"""Config options and modes of a session."""

from __future__ import annotations

from msgspec import Struct, structs

from duologue.conversation.content import JsonObject


class Option(Struct, frozen=True, omit_defaults=True):
    """One value of a config option."""

    value: str
    name: str
    description: str | None = None
    meta: JsonObject | None = None


class OptionGroup(Struct, frozen=True, omit_defaults=True):
    """Values of a config option grouped under a heading."""

    group_id: str
    name: str
    options: list[Option]
    meta: JsonObject | None = None


class ConfigOption(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A config option. `kind` is `select`, `boolean`, or one that this version does not know (`other` has all fields).

    The category says where a client should show it: `mode`, `model`, `model_config`, `thought_level`, or a custom `_x`.
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
        """All values, in groups or not."""
        return [*self.options, *(option for group in self.groups for option in group.options)]

    def with_value(self, value: str | bool) -> ConfigOption:
        """Return the config option with another value."""
        return structs.replace(self, value=value)


class Mode(Struct, frozen=True, omit_defaults=True):
    """A mode of the agent."""

    mode_id: str
    name: str
    description: str | None = None
    meta: JsonObject | None = None


class Modes(Struct, frozen=True, omit_defaults=True):
    """The modes of a session and the current one."""

    current: str
    available: list[Mode]
    meta: JsonObject | None = None
