"""`connect` for names of agents: gives the client side the function that finds an agent by its name.

`duologue.connect`, `duologue.ask` and `duologue.sync` are loaded through this module; the registry is imported when the
first name is looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from duologue.client.connect import connect
from duologue.client.target import use_name_resolver

__all__ = ["connect", "resolve_name"]


def resolve_name(word: str, lock: str | Path | None) -> Mapping[str, Any]:
    """Return the start configuration of the agent that a word names, as `registry.resolver.resolve` does."""
    from duologue.registry.resolver import resolve

    return resolve(word, lock)


use_name_resolver(resolve_name)
