"""Modes and configuration options, to version 1 and back."""

from __future__ import annotations

from duologue.conversation.settings import ConfigOption, Mode, Modes, Option, OptionGroup
from duologue.schema import legacy, v1
from duologue.schema.base import JsonObject, Other

__all__ = [
    "models_from_wire",
    "models_to_wire",
    "modes_from_wire",
    "modes_to_wire",
    "setting_from_wire",
    "setting_to_wire",
]


def setting_to_wire(setting: ConfigOption) -> v1.SessionConfigOption:
    """One configuration option as it is written."""
    if setting.other is not None:
        return Other(setting.kind, _named(setting, setting.other))
    if setting.kind == "boolean":
        return v1.SessionConfigBoolean(
            id=setting.setting_id,
            name=setting.name,
            current_value=bool(setting.value),
            description=setting.description,
            category=setting.category,
            meta=setting.meta,
        )
    options: v1.SessionConfigSelectOptions = (
        [
            v1.SessionConfigSelectGroup(
                group=group.group_id,
                name=group.name,
                options=[_option_to_wire(option) for option in group.options],
                meta=group.meta,
            )
            for group in setting.groups
        ]
        if setting.groups
        else [_option_to_wire(option) for option in setting.options]
    )
    return v1.SessionConfigSelect(
        id=setting.setting_id,
        name=setting.name,
        current_value=str(setting.value),
        options=options,
        description=setting.description,
        category=setting.category,
        meta=setting.meta,
    )


def setting_from_wire(option: v1.SessionConfigOption) -> ConfigOption:
    """One configuration option as it was read; one of an unknown type keeps everything it came with."""
    if isinstance(option, Other):
        return ConfigOption(
            setting_id=str(option.get("id", "")),
            name=str(option.get("name", "")),
            kind=option.tag or "",
            other=dict(option),
        )
    flat: list[Option] = []
    groups: list[OptionGroup] = []
    if isinstance(option, v1.SessionConfigSelect):
        for item in option.options:
            if isinstance(item, v1.SessionConfigSelectGroup):
                members = [_option_from_wire(member) for member in item.options]
                groups.append(OptionGroup(item.group, item.name, members, item.meta))
            else:
                flat.append(_option_from_wire(item))
    return ConfigOption(
        setting_id=option.id,
        name=option.name,
        kind="select" if isinstance(option, v1.SessionConfigSelect) else "boolean",
        value=option.current_value,
        options=flat,
        groups=groups,
        description=option.description,
        category=option.category,
        meta=option.meta,
    )


def modes_to_wire(modes: Modes | None) -> v1.SessionModeState | None:
    """The modes of a session as they are written."""
    if modes is None:
        return None
    available = [
        v1.SessionMode(id=mode.mode_id, name=mode.name, description=mode.description, meta=mode.meta)
        for mode in modes.available
    ]
    return v1.SessionModeState(current_mode_id=modes.current, available_modes=available, meta=modes.meta)


def modes_from_wire(modes: v1.SessionModeState | None) -> Modes | None:
    """The modes of a session as they were read."""
    if modes is None:
        return None
    available = [Mode(mode.id, mode.name, mode.description, mode.meta) for mode in modes.available_modes]
    return Modes(modes.current_mode_id, available, modes.meta)


def _named(setting: ConfigOption, other: JsonObject) -> JsonObject:
    """A setting of an unknown type that came by version 2 has its id under another name."""
    if "id" in other:
        return other
    return {**{key: value for key, value in other.items() if key != "configId"}, "id": setting.setting_id}


def _option_to_wire(option: Option) -> v1.SessionConfigSelectOption:
    return v1.SessionConfigSelectOption(
        value=option.value, name=option.name, description=option.description, meta=option.meta
    )


def _option_from_wire(option: v1.SessionConfigSelectOption) -> Option:
    return Option(option.value, option.name, option.description, option.meta)


def models_to_wire(setting: ConfigOption) -> legacy.SessionModelState:
    """The setting of category `model`, for clients that know models only."""
    models = [
        legacy.ModelInfo(model_id=option.value, name=option.name, description=option.description, meta=option.meta)
        for option in setting.choices
    ]
    return legacy.SessionModelState(current_model_id=str(setting.value), available_models=models)


def models_from_wire(models: legacy.SessionModelState) -> ConfigOption:
    """Models of an agent that knows no settings, as the setting they would be today."""
    options = [Option(model.model_id, model.name, model.description, model.meta) for model in models.available_models]
    return ConfigOption(
        setting_id="model", name="Model", category="model", value=models.current_model_id, options=options
    )
