"""Modes and configuration options from one typed declaration.

    class Knobs(Settings):
        mode = choice("ask", "write", category="mode")
        deep = toggle(False, name="Deep search")

`turn.settings.mode` is the current value, even if the user just changed it. `await turn.set_option(mode="write")`
changes it and notifies the client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from duologue.conversation.content import JsonObject
from duologue.conversation.settings import ConfigOption, Mode, Modes, Option, OptionGroup
from duologue.errors import InvalidParams

__all__ = ["Settings", "choice", "toggle"]


class _Setting:
    """One declared setting; on an instance it reads as its current value."""

    def __init__(
        self,
        name: str | None,
        description: str | None,
        category: str | None,
        default: str | bool,
        meta: JsonObject | None,
    ) -> None:
        self.name = name
        self.description = description
        self.category = category
        self.default = default
        self.meta = meta
        self.key = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.key = name
        if self.name is None:
            self.name = name.replace("_", " ").capitalize()

    def __get__(self, instance: Settings | None, owner: type) -> Any:
        return self if instance is None else instance._values[self.key]

    def __set__(self, instance: Settings, value: object) -> None:
        raise AttributeError(f"changes must be sent to the client: use `await turn.set_option({self.key}=…)`")


class _Choice(_Setting):
    def __init__(self, options: list[Option], groups: list[OptionGroup], **rest: Any) -> None:
        super().__init__(**rest)
        self.options = options
        self.groups = groups
        self.values = [option.value for option in [*options, *(o for group in groups for o in group.options)]]


class _Toggle(_Setting):
    pass


def choice(
    *options: str | Option,
    default: str | None = None,
    name: str | None = None,
    description: str | None = None,
    category: str | None = None,
    groups: Mapping[str, Sequence[str | Option]] | None = None,
    meta: JsonObject | None = None,
) -> str:
    """A setting with one of several values; the first is the default unless one is named.

    Args:
        options: The values, as strings or as `Option(value, name, description)`.
        default: The value of a new session.
        name: What a person sees; made from the attribute's name otherwise.
        description: A sentence for a person.
        category: `mode` makes these the session's modes, `model` its models; also `model_config`, `thought_level`.
        groups: Values under headings, instead of `options`.
        meta: Attached to the setting.
    """
    flat = [_as_option(option) for option in options]
    grouped = [
        OptionGroup(heading.lower().replace(" ", "-"), heading, [_as_option(option) for option in members])
        for heading, members in (groups or {}).items()
    ]
    values = [option.value for option in [*flat, *(o for group in grouped for o in group.options)]]
    if not values or (flat and grouped):
        raise ValueError("a choice has options or groups of options, at least one and not both")
    if default is not None and default not in values:
        raise ValueError(f"the default {default!r} is not one of {values}")
    chosen = values[0] if default is None else default
    knob = _Choice(flat, grouped, name=name, description=description, category=category, default=chosen, meta=meta)
    return knob  # type: ignore[return-value]  # on an instance it is a str: what type checkers should see


def toggle(
    default: bool,
    *,
    name: str | None = None,
    description: str | None = None,
    category: str | None = None,
    meta: JsonObject | None = None,
) -> bool:
    """A setting that is on or off. Clients that do not know switches never see it."""
    knob = _Toggle(name=name, description=description, category=category, default=default, meta=meta)
    return knob  # type: ignore[return-value]  # on an instance it is a bool: what type checkers should see


class Settings:
    """What can be set in a session; subclass it and declare with `choice` and `toggle`. No settings by default."""

    def __init__(self, values: Mapping[str, str | bool] | None = None) -> None:
        self._values: dict[str, str | bool] = {knob.key: knob.default for knob in self._settings()}
        for key, value in (values or {}).items():
            if key in self._values and self._is_legal(self._setting(key), value):
                self._values[key] = value

    @property
    def values(self) -> dict[str, str | bool]:
        """All values by name, for a store."""
        return dict(self._values)

    @classmethod
    def _settings(cls) -> list[_Setting]:
        found: dict[str, _Setting] = {}
        for owner in reversed(cls.__mro__):
            found |= {key: knob for key, knob in vars(owner).items() if isinstance(knob, _Setting)}
        return list(found.values())

    @classmethod
    def _setting(cls, key: str) -> _Setting:
        knob = getattr(cls, key, None)
        if not isinstance(knob, _Setting):
            known = ", ".join(each.key for each in cls._settings()) or "none"
            raise InvalidParams(f"no such setting: {key!r} (there are: {known})")
        return knob

    @classmethod
    def _key_of(cls, category: str) -> str | None:
        return next((knob.key for knob in cls._settings() if knob.category == category), None)

    @staticmethod
    def _is_legal(knob: _Setting, value: object) -> bool:
        return value in knob.values if isinstance(knob, _Choice) else isinstance(value, bool)

    def change(self, key: str, value: str | bool) -> bool:
        """Set a value; whether that changed anything.

        Raises:
            InvalidParams: No such setting, or not a value of it; nothing was changed.
        """
        knob = self._setting(key)
        if not self._is_legal(knob, value):
            legal = ", ".join(knob.values) if isinstance(knob, _Choice) else "true, false"
            raise InvalidParams(f"{value!r} is not a value of {key!r} (there are: {legal})")
        changed = self._values[key] != value
        self._values[key] = value
        return changed

    def describe(self) -> list[ConfigOption]:
        """Every setting with its current value, as a client is shown them."""
        return [self._describe(knob) for knob in self._settings()]

    def modes(self) -> Modes | None:
        """The setting of category `mode` as modes, for clients that know only those."""
        key = self._key_of("mode")
        if key is None:
            return None
        setting = self._describe(self._setting(key))
        available = [Mode(option.value, option.name, option.description, option.meta) for option in setting.choices]
        return Modes(str(setting.value), available)

    def models(self) -> ConfigOption | None:
        """The setting of category `model`, if one was declared."""
        key = self._key_of("model")
        return None if key is None else self._describe(self._setting(key))

    def _describe(self, knob: _Setting) -> ConfigOption:
        is_choice = isinstance(knob, _Choice)
        return ConfigOption(
            setting_id=knob.key,
            name=knob.name or knob.key,
            kind="select" if is_choice else "boolean",
            value=self._values[knob.key],
            options=knob.options if isinstance(knob, _Choice) else [],
            groups=knob.groups if isinstance(knob, _Choice) else [],
            description=knob.description,
            category=knob.category,
            meta=knob.meta,
        )


def _as_option(option: str | Option) -> Option:
    return (
        Option(option, option.replace("_", " ").replace("-", " ").capitalize()) if isinstance(option, str) else option
    )
