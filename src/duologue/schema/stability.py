"""Stable parts of the schema: the generated classes cover the unstable schema, and a table lists what is stable."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Stability(Struct, frozen=True, kw_only=True):
    """The stable part of one version of the schema. What is generated but not listed here is unstable.

    Attributes:
        methods: Names of methods and notifications on the wire.
        definitions: Names of classes and types.
        fields: The fields of each class, by their names on the wire.
        members: The tags of each union.
        values: The strings of each enumeration.
    """

    methods: frozenset[str]
    definitions: frozenset[str]
    fields: Mapping[str, frozenset[str]]
    members: Mapping[str, frozenset[str]]
    values: Mapping[str, frozenset[str]]
