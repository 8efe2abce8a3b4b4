"""The recipe of an installation, which decides the files of an agent, and the source of these files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from msgspec import Struct

from duologue.registry.index import Kind, RegistryError
from duologue.registry.lock_file import LockedAgent

EXACT_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*[0-9A-Za-z.+!-]*")
"""A version of a package, as opposed to a range or a tag."""


class InstallProgress:
    """Receives what an installation does; this one ignores it."""

    def step(self, text: str) -> None:
        """Report that a step begins, such as the start of npm."""

    def received(self, size: int, announced: int | None) -> None:
        """Report bytes of a download."""

    def notice(self, text: str) -> None:
        """Report something that the user must know: what is executed, what could not be checked, a wait."""


class InstallRecipe(Struct, frozen=True, kw_only=True):
    """Everything that decides which files an agent consists of; the fields are those of `LockedAgent`."""

    kind: Kind
    allow_scripts: bool = False
    package: str | None = None
    url: str | None = None
    archive_sha256: str | None = None
    package_lock: dict[str, Any] | None = None
    requirements: str | None = None
    python: str | None = None


class InstallSource(Struct, frozen=True, kw_only=True):
    """The source of an agent's files.

    Attributes:
        progress: Receives what is done.
        mirror: Directory of a mirror; its files are used instead of the network.
        is_offline: Use no network at all.
    """

    progress: InstallProgress
    mirror: Path | None = None
    is_offline: bool = False

    def missing(self, name: str) -> RegistryError:
        """Return the error about something that would have to be downloaded, though no network may be used."""
        if self.mirror is not None:
            return RegistryError(f"{name} is not in the mirror {self.mirror}, and nothing else is used")
        return RegistryError(
            f"{name} must be downloaded, and --offline was given; run without it, or name a mirror with --mirror"
        )


class FoundProgram(Struct, frozen=True, kw_only=True):
    """The program of an installation.

    Attributes:
        program: Its path relative to the installation.
        compared: Files that decide what it does, which are compared at each start.
    """

    program: str
    compared: list[str]


def recipe_of(agent: LockedAgent) -> InstallRecipe:
    """Return the recipe of a locked agent."""
    return InstallRecipe(**{field: getattr(agent, field) for field in InstallRecipe.__struct_fields__})
