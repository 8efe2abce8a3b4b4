"""Config options, to version 2 and back; modes and models are config options of a category in version 2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import structs

from duologue.conversation.fields import convert_fields
from duologue.conversation.settings import ConfigOption, Modes, Option
from duologue.protocol.shared.settings import ConfigOptionConverter
from duologue.schema import v2

MODE = "mode"
"""The id and the category of the config option that modes become."""


def _make_select(option: ConfigOption, value: str, values: list[Any]) -> v2.SessionConfigSelect:
    return v2.SessionConfigSelect(
        config_id=option.setting_id,
        name=option.name,
        current_value=value,
        options=values,
        description=option.description,
        category=option.category,
        meta=option.meta,
    )


_config_options = ConfigOptionConverter(
    v2, id_field="config_id", other_id_field="id", group_field="group_id", make_select=_make_select
)
config_option_from_wire: Callable[[v2.SessionConfigOption], ConfigOption] = _config_options.from_wire


def config_option_to_wire(option: ConfigOption) -> v2.SessionConfigOption:
    """Write one config option; a choice has at least one value, the current one."""
    if option.kind != "boolean" and option.other is None:
        value = "" if option.value is None else str(option.value)
        groups = [group for group in option.groups if group.options]
        option = structs.replace(option, value=value, groups=groups, options=option.options or [Option(value, value)])
    wire: v2.SessionConfigOption = _config_options.to_wire(option)
    return wire


# --- modes


def mode_setting(modes: Modes) -> ConfigOption:
    """Return modes as a config option."""
    options = [convert_fields(mode, Option, value=mode.mode_id) for mode in modes.available]
    return ConfigOption(
        setting_id=MODE, name="Mode", category=MODE, value=modes.current, options=options, meta=modes.meta
    )


def with_modes(settings: list[ConfigOption], modes: Modes | None) -> list[ConfigOption]:
    """Return the config options with the modes as the first, unless there is one of that category."""
    if modes is None or any(setting.category == MODE or setting.setting_id == MODE for setting in settings):
        return settings
    return [mode_setting(modes), *settings]
