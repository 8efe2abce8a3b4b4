"""Modules that offer names from elsewhere and load each of them when it is first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def lazy_exports(
    module: str, names: Mapping[str, str]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` for a module that re-exports names lazily.

    Args:
        module: The `__name__` of the re-exporting module.
        names: For each module that defines names, these names, separated by spaces.
    """
    modules = {name: defining for defining, listed in names.items() for name in listed.split()}

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[module], name, value)
        return value

    def listing() -> list[str]:
        return sorted({*vars(sys.modules[module]), *modules})

    return sorted(modules), load, listing
