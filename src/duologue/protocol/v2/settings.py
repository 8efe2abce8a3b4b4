"""Settings, to version 2 and back; modes and models are settings here, of a category of their own."""

from __future__ import annotations

from duologue.conversation.settings import ConfigOption, Mode, Modes, Option, OptionGroup
from duologue.schema import v2
from duologue.schema.base import JsonObject, Other

__all__ = [
    "MODE",
    "mode_setting",
    "models_from_wire",
    "modes_from_wire",
    "modes_to_wire",
    "setting_from_wire",
    "setting_to_wire",
    "with_modes",
]

MODE = "mode"
"""The id of the setting that modes become, and its category."""


def setting_to_wire(setting: ConfigOption) -> v2.SessionConfigOption:
    """One setting as it is written."""
    if setting.other is not None:
        return Other(setting.kind, _named(setting, setting.other))
    if setting.kind == "boolean":
        return v2.SessionConfigBoolean(
            config_id=setting.setting_id,
            name=setting.name,
            current_value=bool(setting.value),
            description=setting.description,
            category=setting.category,
            meta=setting.meta,
        )
    value = "" if setting.value is None else str(setting.value)
    return v2.SessionConfigSelect(
        config_id=setting.setting_id,
        name=setting.name,
        current_value=value,
        options=_options_to_wire(setting, value),
        description=setting.description,
        category=setting.category,
        meta=setting.meta,
    )


def setting_from_wire(option: v2.SessionConfigOption) -> ConfigOption:
    """One setting as it was read; one of an unknown type keeps everything it came with."""
    if isinstance(option, Other):
        category = option.get("category")
        return ConfigOption(
            setting_id=str(option.get("configId", "")),
            name=str(option.get("name", "")),
            kind=option.tag or "",
            category=category if isinstance(category, str) else None,
            other=dict(option),
        )
    flat: list[Option] = []
    groups: list[OptionGroup] = []
    if isinstance(option, v2.SessionConfigSelect):
        for item in option.options:
            if isinstance(item, v2.SessionConfigSelectGroup):
                members = [_option_from_wire(member) for member in item.options]
                groups.append(OptionGroup(item.group_id, item.name, members, item.meta))
            else:
                flat.append(_option_from_wire(item))
    return ConfigOption(
        setting_id=option.config_id,
        name=option.name,
        kind="select" if isinstance(option, v2.SessionConfigSelect) else "boolean",
        value=option.current_value,
        options=flat,
        groups=groups,
        description=option.description,
        category=option.category,
        meta=option.meta,
    )


# --- modes and models


def mode_setting(modes: Modes) -> ConfigOption:
    """Modes as the setting they are here."""
    options = [Option(mode.mode_id, mode.name, mode.description, mode.meta) for mode in modes.available]
    return ConfigOption(
        setting_id=MODE, name="Mode", category=MODE, value=modes.current, options=options, meta=modes.meta
    )


def with_modes(settings: list[ConfigOption], modes: Modes | None) -> list[ConfigOption]:
    """All settings, the modes among them unless a setting of that category is there already."""
    if modes is None or any(setting.category == MODE or setting.setting_id == MODE for setting in settings):
        return settings
    return [mode_setting(modes), *settings]


def modes_to_wire(modes: Modes | None) -> v2.SessionConfigOption | None:
    """The modes of a session as they are written."""
    return None if modes is None else setting_to_wire(mode_setting(modes))


def modes_from_wire(options: list[v2.SessionConfigOption]) -> Modes | None:
    """The modes of a session, if one of its settings is about them."""
    for option in options:
        if isinstance(option, v2.SessionConfigSelect) and option.category == MODE:
            setting = setting_from_wire(option)
            available = [Mode(each.value, each.name, each.description, each.meta) for each in setting.choices]
            return Modes(option.current_value, available, setting.meta)
    return None


def models_from_wire(options: list[v2.SessionConfigOption]) -> ConfigOption | None:
    """The setting of category `model`, if there is one."""
    settings = [setting_from_wire(option) for option in options if isinstance(option, v2.SessionConfigSelect)]
    return next((setting for setting in settings if setting.category == "model"), None)


# --- the smaller pieces


def _named(setting: ConfigOption, other: JsonObject) -> JsonObject:
    """A setting of an unknown type that came by version 1 has its id under another name."""
    if "configId" in other:
        return other
    return {**{key: value for key, value in other.items() if key != "id"}, "configId": setting.setting_id}


def _options_to_wire(setting: ConfigOption, value: str) -> v2.SessionConfigSelectOptions:
    """The values there are, at least the one that is set: a choice without any cannot be written."""
    if groups := [group for group in setting.groups if group.options]:
        return [
            v2.SessionConfigSelectGroup(
                group_id=group.group_id,
                name=group.name,
                options=[_option_to_wire(option) for option in group.options],
                meta=group.meta,
            )
            for group in groups
        ]
    return [_option_to_wire(option) for option in setting.options or [Option(value, value)]]


def _option_to_wire(option: Option) -> v2.SessionConfigSelectOption:
    return v2.SessionConfigSelectOption(
        value=option.value, name=option.name, description=option.description, meta=option.meta
    )


def _option_from_wire(option: v2.SessionConfigSelectOption) -> Option:
    return Option(option.value, option.name, option.description, option.meta)
