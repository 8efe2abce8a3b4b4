"""Config options, to the wire and back: the same in every version, apart from the names of two fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from duologue.conversation.fields import convert_fields
from duologue.conversation.settings import ConfigOption, Option, OptionGroup
from duologue.schema.base import JsonObject, Other, wire_name


class ConfigOptionConverter:
    """Converts config options to one version and back.

    Args:
        schema: The package of the version's shapes.
        id_field: The field that holds the id of a config option.
        other_id_field: The name that other versions give that field.
        group_field: The field that holds the id of a group of values.
        make_select: Makes a config option with its current value and its values. It names each field, because making a
            struct from a dict takes three times as long.
    """

    def __init__(
        self,
        schema: Any,
        *,
        id_field: str,
        other_id_field: str,
        group_field: str,
        make_select: Callable[[ConfigOption, str, list[Any]], Any],
    ) -> None:
        self._schema = schema
        self._make_select = make_select
        self._id_field = id_field
        self._id_key = wire_name(id_field)
        self._other_id_key = wire_name(other_id_field)
        self._group_field = group_field

    def to_wire(self, option: ConfigOption) -> Any:
        """Write one config option."""
        if option.other is not None:
            return Other(option.kind, self._with_id(option.setting_id, option.other))
        value = option.value
        if option.kind == "boolean":
            fields = {self._id_field: option.setting_id, "current_value": bool(value)}
            return convert_fields(option, self._schema.SessionConfigBoolean, **fields)
        groups = option.groups
        values = [self._group_to_wire(group) for group in groups] if groups else self._values_to_wire(option.options)
        return self._make_select(option, "" if value is None else str(value), values)

    def from_wire(self, option: Any) -> ConfigOption:
        """Read one config option; one of an unknown type keeps all its fields in `other`."""
        if isinstance(option, Other):
            category = option.get("category")
            return ConfigOption(
                setting_id=str(option.get(self._id_key, "")),
                name=str(option.get("name", "")),
                kind=option.tag or "",
                category=category if isinstance(category, str) else None,
                other=dict(option),
            )
        is_select = isinstance(option, self._schema.SessionConfigSelect)
        items: list[Any] = option.options if is_select else []
        is_grouped = bool(items) and isinstance(items[0], self._schema.SessionConfigSelectGroup)  # all are, or none
        return ConfigOption(
            setting_id=getattr(option, self._id_field),
            name=option.name,
            kind="select" if is_select else "boolean",
            value=option.current_value,
            options=[] if is_grouped else _values_from_wire(items),
            groups=[self._group_from_wire(item) for item in items] if is_grouped else [],
            description=option.description,
            category=option.category,
            meta=option.meta,
        )

    def _group_from_wire(self, group: Any) -> OptionGroup:
        return OptionGroup(getattr(group, self._group_field), group.name, _values_from_wire(group.options), group.meta)

    def _group_to_wire(self, group: OptionGroup) -> Any:
        fields = {self._group_field: group.group_id, "options": self._values_to_wire(group.options)}
        return convert_fields(group, self._schema.SessionConfigSelectGroup, **fields)

    def _values_to_wire(self, values: list[Option]) -> list[Any]:
        kind = self._schema.SessionConfigSelectOption  # its fields one by one: there may be hundreds of models
        return [kind(value=each.value, name=each.name, description=each.description, meta=each.meta) for each in values]

    def _with_id(self, option_id: str, fields: JsonObject) -> JsonObject:
        """Rename the id of an option of unknown type that was received in another version."""
        if self._id_key in fields:
            return fields
        return {**{key: value for key, value in fields.items() if key != self._other_id_key}, self._id_key: option_id}


def _values_from_wire(values: list[Any]) -> list[Option]:
    return [Option(each.value, each.name, each.description, each.meta) for each in values]
