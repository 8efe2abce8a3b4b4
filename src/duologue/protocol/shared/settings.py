"""Config options, to the wire and back: the same in every version, apart from the names of two fields."""

from __future__ import annotations

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
    """

    def __init__(self, schema: Any, *, id_field: str, other_id_field: str, group_field: str) -> None:
        self._schema = schema
        self._id_field = id_field
        self._id_key = wire_name(id_field)
        self._other_id_key = wire_name(other_id_field)
        self._group_field = group_field

    def to_wire(self, option: ConfigOption) -> Any:
        """Write one config option."""
        if option.other is not None:
            return Other(option.kind, self._with_id(option.setting_id, option.other))
        fields: dict[str, Any] = {
            self._id_field: option.setting_id,
            "name": option.name,
            "description": option.description,
            "category": option.category,
            "meta": option.meta,
        }
        value = option.value
        if option.kind == "boolean":
            return self._schema.SessionConfigBoolean(current_value=bool(value), **fields)
        values = list(map(self._group_to_wire, option.groups)) or self._values_to_wire(option.options)
        return self._schema.SessionConfigSelect(
            current_value="" if value is None else str(value), options=values, **fields
        )

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
        values: list[Option] = []
        groups: list[OptionGroup] = []
        is_select = isinstance(option, self._schema.SessionConfigSelect)
        items: list[Any] = option.options if is_select else []
        for item in items:
            if isinstance(item, self._schema.SessionConfigSelectGroup):
                members = [convert_fields(member, Option) for member in item.options]
                groups.append(OptionGroup(getattr(item, self._group_field), item.name, members, item.meta))
            else:
                values.append(Option(item.value, item.name, item.description, item.meta))
        return ConfigOption(
            setting_id=getattr(option, self._id_field),
            name=option.name,
            kind="select" if is_select else "boolean",
            value=option.current_value,
            options=values,
            groups=groups,
            description=option.description,
            category=option.category,
            meta=option.meta,
        )

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
