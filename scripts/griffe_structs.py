"""Show the fields of structs and unpacked keywords in the API reference: extensions of griffe, which mkdocs.yml names.

griffe reads source without running it and knows the constructors of dataclasses only. For each class that derives from
`msgspec.Struct` this adds a constructor with the fields of the class and of its bases. Keywords that a function takes
as `**options: Unpack[…]` are shown one by one.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import griffe


class StructFields(griffe.Extension):
    """Add `__init__` to every struct of a package once all of it is loaded."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Add the constructors."""
        for found in list(_classes(pkg)):
            if _is_struct(found) and "__init__" not in found.members:
                constructor = griffe.Function("__init__", parameters=griffe.Parameters(*_fields(found)), parent=found)
                found.set_member("__init__", constructor)


class UnpackedKeywords(griffe.UnpackTypedDictExtension):
    """Show the keywords of `Unpack[…]` in the signature, and each of them once among the parameters."""

    def on_class(self, **kwargs: Any) -> None:
        """Leave the classes as they are: their docstrings describe the keywords."""

    def on_function(self, *, func: griffe.Function, **kwargs: Any) -> None:
        """Expand the signature, and merge what the docstring and the signature say about a keyword."""
        is_unpacked = any("Unpack[" in str(parameter.annotation) for parameter in func.parameters)
        super().on_function(func=func, **kwargs)
        for section in func.docstring.parsed if is_unpacked and func.docstring is not None else ():
            if isinstance(section, griffe.DocstringSectionParameters):
                described = {entry.name: entry for entry in reversed(section.value)}
                for name, entry in described.items():
                    entry.annotation = func.parameters[name].annotation
                section.value = list(reversed(described.values()))


def _classes(owner: griffe.Module | griffe.Class) -> Any:
    for member in owner.members.values():
        if member.is_alias:
            continue
        if isinstance(member, griffe.Class):
            yield member
            yield from _classes(member)
        elif isinstance(member, griffe.Module):
            yield from _classes(member)


def _is_struct(found: griffe.Class) -> bool:
    named = [getattr(base, "canonical_path", str(base)) for base in found.bases]
    return "msgspec.Struct" in named or any(_is_struct(base) for base in _bases(found))


def _bases(found: griffe.Class) -> list[griffe.Class]:
    return [base for base in found.resolved_bases if isinstance(base, griffe.Class)]


def _fields(found: griffe.Class) -> list[griffe.Parameter]:
    """Return the fields as parameters, those of the bases first, required ones before the others."""
    fields: dict[str, griffe.Parameter] = {}
    for owner in [*reversed(found.mro()), found]:
        for member in owner.members.values():
            if _is_field(member):
                fields[member.name] = griffe.Parameter(
                    member.name,
                    annotation=member.annotation,
                    kind=_kind_of_fields(owner),
                    default=member.value,
                    docstring=member.docstring,
                )
    keyword = griffe.ParameterKind.keyword_only
    in_order = sorted(fields.values(), key=lambda field: (field.kind is keyword, field.default is not None))
    return [griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword), *in_order]


def _kind_of_fields(owner: griffe.Class) -> griffe.ParameterKind:
    header = owner.source.partition(":\n")[0]
    if "kw_only=True" in header:
        return griffe.ParameterKind.keyword_only
    return griffe.ParameterKind.positional_or_keyword


def _is_field(member: griffe.Object | griffe.Alias) -> TypeGuard[griffe.Attribute]:
    if not isinstance(member, griffe.Attribute) or member.annotation is None or "property" in member.labels:
        return False
    return "class-attribute" not in member.labels or "instance-attribute" in member.labels
