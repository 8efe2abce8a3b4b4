"""Modes and configuration options from one typed declaration.

    class NotesSettings(Settings):
        mode = choice("ask", "write", category="mode")
        deep = toggle(False, name="Deep search")

`turn.settings.mode` is the current value, even if the user just changed it. `await turn.set_option(mode="write")`
changes it and notifies the client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from duologue.conversation.content import JsonObject
from duologue.conversation.settings import ConfigOption, Mode, Modes, Option, OptionGroup
from duologue.errors import InvalidParams

if TYPE_CHECKING:
    # Type checkers bring their own `typing_extensions`; Python 3.11 has no defaults of type variables at run time.
    from typing_extensions import TypeVar

    S = TypeVar("S", bound="Settings", default=Any)
else:
    from typing import TypeVar

    S = TypeVar("S", bound="Settings")


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
    """Declare a setting with one of several values; the first is the default unless `default` is given.

    Args:
        options: The values, as strings or as `Option(value, name, description)`.
        default: The value of a new session.
        name: Shown to the user; made from the attribute's name if not given.
        description: A sentence for the user.
        category: `mode` for the session's modes, `model` for its models; also `model_config`, `thought_level`.
        groups: Values by heading, instead of `options`.
        meta: Attached to the setting.
    """
    flat = [_as_option(option) for option in options]
    grouped = [
        OptionGroup(heading.lower().replace(" ", "-"), heading, [_as_option(option) for option in members])
        for heading, members in (groups or {}).items()
    ]
    values = [option.value for option in [*flat, *(o for group in grouped for o in group.options)]]
    if not values or (flat and grouped):
        raise ValueError("a choice needs either options or groups of options")
    if default is not None and default not in values:
        raise ValueError(f"the default {default!r} is not one of {values}")
    chosen = values[0] if default is None else default
    setting = _Choice(flat, grouped, name=name, description=description, category=category, default=chosen, meta=meta)
    return setting  # type: ignore[return-value]  # on an instance it is a str: what type checkers should see


def toggle(
    default: bool,
    *,
    name: str | None = None,
    description: str | None = None,
    category: str | None = None,
    meta: JsonObject | None = None,
) -> bool:
    """Declare a setting that is on or off. Clients without support for boolean options do not see it."""
    setting = _Toggle(name=name, description=description, category=category, default=default, meta=meta)
    return setting  # type: ignore[return-value]  # on an instance it is a bool: what type checkers should see


class Settings:
    """The settings of a session: subclass it and declare each with `choice` or `toggle`. No settings by default."""

    _declared: ClassVar[dict[str, _Setting]] = {}
    """The settings by name, those of base classes first."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._declared = {}
        for owner in reversed(cls.__mro__):
            cls._declared |= {key: each for key, each in vars(owner).items() if isinstance(each, _Setting)}

    def __init__(self, values: Mapping[str, str | bool] | None = None) -> None:
        self._values: dict[str, str | bool] = {key: setting.default for key, setting in self._declared.items()}
        for key, value in (values or {}).items():
            if key in self._values and self._is_legal(self._declared[key], value):
                self._values[key] = value
        self._described = {key: self._describe(setting) for key, setting in self._declared.items()}

    @property
    def values(self) -> dict[str, str | bool]:
        """All values by name."""
        return dict(self._values)

    @classmethod
    def _key_of(cls, category: str) -> str | None:
        return next((key for key, setting in cls._declared.items() if setting.category == category), None)

    @staticmethod
    def _is_legal(setting: _Setting, value: object) -> bool:
        return value in setting.values if isinstance(setting, _Choice) else isinstance(value, bool)

    def change(self, key: str, value: str | bool) -> bool:
        """Set a value without notifying the client; return True if it changed. See `turn.set_option`.

        Raises:
            InvalidParams: There is no such setting or value; nothing was changed.
        """
        setting = self._declared.get(key)
        if setting is None:
            known = ", ".join(self._declared) or "none"
            raise InvalidParams(f"no such setting: {key!r} (known: {known})")
        if not self._is_legal(setting, value):
            legal = ", ".join(setting.values) if isinstance(setting, _Choice) else "true, false"
            raise InvalidParams(f"{value!r} is not a value of {key!r} (known: {legal})")
        if self._values[key] == value:
            return False
        self._values[key] = value
        self._described[key] = self._described[key].with_value(value)
        return True

    def describe(self) -> list[ConfigOption]:
        """Return every setting with its current value, as sent to clients."""
        return list(self._described.values())

    def modes(self) -> Modes | None:
        """Return the setting of category `mode` as modes, for clients that know only modes."""
        key = self._key_of("mode")
        if key is None:
            return None
        setting = self._described[key]
        available = [Mode(option.value, option.name, option.description, option.meta) for option in setting.choices]
        return Modes(str(setting.value), available)

    def models(self) -> ConfigOption | None:
        """Return the setting of category `model`, if one was declared."""
        key = self._key_of("model")
        return None if key is None else self._described[key]

    def _describe(self, setting: _Setting) -> ConfigOption:
        is_choice = isinstance(setting, _Choice)
        return ConfigOption(
            setting_id=setting.key,
            name=setting.name or setting.key,
            kind="select" if is_choice else "boolean",
            value=self._values[setting.key],
            options=setting.options if isinstance(setting, _Choice) else [],
            groups=setting.groups if isinstance(setting, _Choice) else [],
            description=setting.description,
            category=setting.category,
            meta=setting.meta,
        )


def _as_option(option: str | Option) -> Option:
    return (
        Option(option, option.replace("_", " ").replace("-", " ").capitalize()) if isinstance(option, str) else option
    )
