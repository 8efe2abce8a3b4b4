"""Read an index of agents: the `registry.json` of the ACP registry, in each generation of its format.

The format has grown: entries of 2025 may offer `bunx`, those of early 2026 come with a list of extensions, those of
today may have checksums, commands of packages, and a preview version. An index is input from the network: an entry that
is not valid is left out with its reason, and the others stay usable.
"""

from __future__ import annotations

import platform
import sys
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, UnsetType

from duologue.errors import DuologueError

MAX_INDEX_BYTES = 16 << 20
"""Size of the largest index that is read."""

MAX_ENTRIES = 10_000
"""Number of entries of the largest index that is read."""

MACHINES = {"arm64": "aarch64", "amd64": "x86_64", "x64": "x86_64"}
"""The registry's names of processors that Python names otherwise."""

Kind = Literal["binary", "npx", "uvx"]
"""How an agent is distributed."""

AgentId = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9-]*\Z", max_length=100)]
Version = Annotated[str, Meta(pattern=r"\A[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.+-]*\Z", max_length=100)]
Text = Annotated[str, Meta(min_length=1, max_length=2000)]
Word = Annotated[str, Meta(max_length=4000, pattern=r"\A[^\x00]*\Z")]
Sha256 = Annotated[str, Meta(pattern=r"\A[a-fA-F0-9]{64}\Z")]
Url = Annotated[str, Meta(pattern=r"\Ahttps://[^\s\x00-\x1f]+\Z", max_length=4000)]


class RegistryError(DuologueError):
    """An index, a lock file or an installed agent cannot be used; the message says why."""


class PackageTarget(Struct, frozen=True, kw_only=True):
    """A package of npm or PyPI, and how to start it.

    Attributes:
        package: Name of the package, with extras and a version if the entry names them.
        cmd: Command of the package to start; None: the package's own.
        args: Arguments of the command.
        env: Environment variables that the agent needs.
    """

    package: Annotated[str, Meta(min_length=1, max_length=300)]
    cmd: Word | None = None
    args: list[Word] = []
    env: dict[Word, Word] = {}


class BinaryTarget(Struct, frozen=True, kw_only=True):
    """An archive, or a program, for one platform.

    Attributes:
        archive: URL of the archive.
        cmd: Path of the program inside the archive.
        sha256: Checksum of the archive.
        args: Arguments of the command.
        env: Environment variables that the agent needs.
    """

    archive: Url
    cmd: Word
    sha256: Sha256 | None = None
    args: list[Word] = []
    env: dict[Word, Word] = {}


class Distribution(Struct, frozen=True, kw_only=True):
    """The ways to install an agent; other kinds, such as the former `bunx`, are ignored."""

    binary: dict[str, BinaryTarget] = {}
    npx: PackageTarget | None = None
    uvx: PackageTarget | None = None

    def kinds(self) -> list[Kind]:
        """Return the kinds that can be used on this platform, the preferred one first."""
        found: list[Kind] = []
        if platform_name() in self.binary:
            found.append("binary")
        if self.npx is not None:
            found.append("npx")
        if self.uvx is not None:
            found.append("uvx")
        return found


class Preview(Struct, frozen=True, kw_only=True):
    """A version that is not yet released."""

    version: Version
    distribution: Distribution


class RegistryEntry(Struct, frozen=True, kw_only=True):
    """An agent in an index."""

    id: AgentId
    name: Text
    version: Version
    description: Text
    distribution: Distribution
    repository: Word | None = None
    website: Word | None = None
    authors: list[Word] = []
    license: Word | None = None
    license_url: Word | None = None
    icon: Word | None = None
    preview: Preview | None = None


class Index(Struct, frozen=True, kw_only=True):
    """The agents of one registry.

    Attributes:
        version: Version of the index.
        agents: The valid entries by their ids, in the order of the index.
        problems: Why entries were left out.
    """

    version: str
    agents: dict[str, RegistryEntry]
    problems: list[str]


class _RawIndex(Struct):
    version: Annotated[str, Meta(pattern=r"\A[0-9]+\.[0-9]+\.[0-9]+\Z")]
    agents: Annotated[list[dict[str, Any]], Meta(max_length=MAX_ENTRIES)] | UnsetType = msgspec.UNSET


def read_index(data: bytes, source: str) -> Index:
    """Read an index.

    Args:
        data: Its JSON.
        source: Where it is from, for messages.

    Raises:
        RegistryError: It is too large, not an index, or of a newer major version.
    """
    if len(data) > MAX_INDEX_BYTES:
        raise RegistryError(f"the index of {source} has {len(data):,} bytes; at most {MAX_INDEX_BYTES:,} are read")
    try:
        raw = msgspec.json.decode(data, type=_RawIndex)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RegistryError(f"{source} is not an index of agents: {error}") from None
    if raw.version.partition(".")[0] != "1":
        raise RegistryError(
            f"the index of {source} has version {raw.version}; this duologue reads version 1: update duologue"
        )
    if raw.agents is msgspec.UNSET:
        raise RegistryError(f"{source} is not an index of agents: it has no list `agents`")
    agents: dict[str, RegistryEntry] = {}
    problems: list[str] = []
    for number, each in enumerate(raw.agents):
        name = each.get("id")
        try:
            entry = msgspec.convert(each, RegistryEntry)
        except msgspec.ValidationError as error:
            problems.append(f"entry {number} ({str(name)[:100]!r}): {error}")
            continue
        if entry.id in agents:
            problems.append(f"entry {number} ({entry.id!r}): the id is used twice; the first entry counts")
            continue
        agents[entry.id] = entry
    return Index(version=raw.version, agents=agents, problems=problems)


def platform_name() -> str:
    """Return the registry's name of this platform, such as `linux-x86_64`."""
    system = {"win32": "windows"}.get(sys.platform, sys.platform)
    machine = platform.machine().lower()
    return f"{system}-{MACHINES.get(machine, machine)}"
