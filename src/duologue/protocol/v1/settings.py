"""Modes, models and config options, to version 1 and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from duologue.conversation.fields import convert_fields
from duologue.conversation.settings import ConfigOption, Mode, Modes, Option
from duologue.protocol.shared.settings import ConfigOptionConverter
from duologue.schema import v1

if TYPE_CHECKING:
    from duologue.schema import legacy


def _make_select(option: ConfigOption, value: str, values: list[Any]) -> v1.SessionConfigSelect:
    return v1.SessionConfigSelect(
        id=option.setting_id,
        name=option.name,
        current_value=value,
        options=values,
        description=option.description,
        category=option.category,
        meta=option.meta,
    )


_config_options = ConfigOptionConverter(
    v1, id_field="id", other_id_field="config_id", group_field="group", make_select=_make_select
)
config_option_to_wire: Callable[[ConfigOption], v1.SessionConfigOption] = _config_options.to_wire
config_option_from_wire: Callable[[v1.SessionConfigOption], ConfigOption] = _config_options.from_wire


def modes_to_wire(modes: Modes | None) -> v1.SessionModeState | None:
    """Write the modes of a session."""
    if modes is None:
        return None
    available = [
        v1.SessionMode(id=mode.mode_id, name=mode.name, description=mode.description, meta=mode.meta)
        for mode in modes.available
    ]
    return v1.SessionModeState(current_mode_id=modes.current, available_modes=available, meta=modes.meta)


def modes_from_wire(modes: v1.SessionModeState | None) -> Modes | None:
    """Read the modes of a session."""
    if modes is None:
        return None
    available = [Mode(mode.id, mode.name, mode.description, mode.meta) for mode in modes.available_modes]
    return Modes(modes.current_mode_id, available, modes.meta)


def models_to_wire(option: ConfigOption) -> legacy.SessionModelState:
    """Write the config option of category `model` for clients that support models only."""
    from duologue.schema import legacy

    models = [convert_fields(choice, legacy.ModelInfo, model_id=choice.value) for choice in option.choices]
    return legacy.SessionModelState(current_model_id=str(option.value), available_models=models)


def models_from_wire(models: legacy.SessionModelState) -> ConfigOption:
    """Read the models of an agent without config options as a config option."""
    options = [convert_fields(model, Option, value=model.model_id) for model in models.available_models]
    return ConfigOption(
        setting_id="model", name="Model", category="model", value=models.current_model_id, options=options
    )
