"""Registries of agents in order, each a URL or a file; their indexes are saved for use without a network.

The first registry that has an id decides. A registry that cannot be read is an error for every id that no earlier one
has: a later registry must not answer for it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from duologue.config.registries import configured_registries
from duologue.errors import StartError
from duologue.private_files import make_private_directory, user_directory
from duologue.registry.download import DownloadLimits, fetch, shown
from duologue.registry.file_reader import read_at_most
from duologue.registry.index import MAX_INDEX_BYTES, Index, RegistryEntry, RegistryError, read_index
from duologue.suggestion import suggestion

VARIABLE = "DUOLOGUE_REGISTRY"
"""Environment variable with registries, separated by whitespace."""

MIRROR_INDEX = "registry.json"
"""Index of a mirror directory."""

PUBLIC = "https://cdn.agentclientprotocol.com/registry/v1/latest/registry.json"
"""The protocol's own registry, used if no other is named."""

EXAMPLE = Path(__file__).with_name("example_index.json")
"""The index that comes with duologue, used while the public registry has never been reached."""

EXAMPLE_NOTE = (
    "the public registry was never reached from here: these are the examples of duologue; --registry names another"
)

INDEX_LIMITS = DownloadLimits(silence=20.0, total=120.0)


class LoadedIndex(Struct, frozen=True, kw_only=True):
    """The index of one registry.

    Attributes:
        registry: The registry: its URL without credentials and query, or its file.
        index: The entries.
        note: What the user should know, such as that a saved index is used: at most two lines, may be empty.
    """

    registry: str
    index: Index
    note: str = ""


class FoundEntry(Struct, frozen=True, kw_only=True):
    """An entry, and the registry that has it.

    Attributes:
        registry: The registry: its URL without credentials and query, or its file.
        entry: The entry.
        note: What the user should know about the registry; may be empty.
    """

    registry: str
    entry: RegistryEntry
    note: str = ""


class _SavedIndex(Struct, frozen=True, kw_only=True):
    """Description of a saved index."""

    registry: str
    sha256: str
    fetched_at: str
    etag: str | None = None


class Registries:
    """The registries that are asked, in order.

    Args:
        named: URLs and files; none: those of `DUOLOGUE_REGISTRY`, else of the configuration, else the public registry.
        mirror: Directory of a mirror, which is the only registry then.
        is_offline: Use saved indexes and files only.
        limits: Time limits of downloads.

    Raises:
        RegistryError: The configuration cannot be read.
    """

    def __init__(
        self,
        named: Sequence[str] = (),
        *,
        mirror: str | Path | None = None,
        is_offline: bool = False,
        limits: DownloadLimits = INDEX_LIMITS,
    ) -> None:
        self._locations = [str(Path(mirror) / MIRROR_INDEX)] if mirror is not None else _locations(named)
        self._is_offline = is_offline
        self._limits = limits
        self._loaded: dict[str, LoadedIndex] = {}

    def find(self, agent_id: str) -> FoundEntry:
        """Return the entry of the first registry that has the id.

        Raises:
            RegistryError: No registry has it, or one cannot be read before it is found.
        """
        known: list[str] = []
        for location in self._locations:
            loaded = self._load(location)
            if agent_id in loaded.index.agents:
                entry = loaded.index.agents[agent_id]
                return FoundEntry(registry=loaded.registry, entry=entry, note=loaded.note)
            known += loaded.index.agents
        asked = ", ".join(loaded.registry for loaded in self._loaded.values())
        meant = suggestion(agent_id, known) or "; `duologue agents list --all` lists what there is"
        raise RegistryError(f"no agent {agent_id!r} in {asked}{meant}{self._broken(agent_id)}")

    def entries(self) -> tuple[list[FoundEntry], list[str]]:
        """Return all entries, of each id the one that counts, and what the user should know about the registries.

        Raises:
            RegistryError: No registry can be read.
        """
        found: dict[str, FoundEntry] = {}
        notes: list[str] = []
        failures: list[str] = []
        for location in self._locations:
            try:
                loaded = self._load(location)
            except RegistryError as error:
                failures.append(str(error))
                continue
            notes += [loaded.note] if loaded.note else []
            notes += [f"{loaded.registry}: {problem}" for problem in loaded.index.problems]
            for entry in loaded.index.agents.values():
                found.setdefault(entry.id, FoundEntry(registry=loaded.registry, entry=entry))
        if len(failures) == len(self._locations):
            raise RegistryError("\n".join(failures))
        return list(found.values()), [*failures, *notes]

    def saved_ids(self) -> set[str]:
        """Return the ids that are known without asking a registry: of saved indexes, files and bundled examples."""
        ids: set[str] = set()
        for location in self._locations:
            with suppress(RegistryError):
                ids.update(self._load_saved(location).index.agents)
        return ids

    def _load_saved(self, location: str) -> LoadedIndex:
        """Return an index without asking its registry."""
        if not is_url(location):
            return self._load(location)
        try:
            return self._saved(location)[0]
        except RegistryError as error:
            if location != PUBLIC:
                raise
            return _examples(str(error))

    def _broken(self, agent_id: str) -> str:
        """Say why the entry with that id was left out, if one was."""
        problems = [problem for loaded in self._loaded.values() for problem in loaded.index.problems]
        return next((f"; its entry is not valid: {each}" for each in problems if repr(agent_id) in each), "")

    def _load(self, location: str) -> LoadedIndex:
        if location not in self._loaded:
            self._loaded[location] = self._read(location)
        return self._loaded[location]

    def _read(self, location: str) -> LoadedIndex:
        if not is_url(location):
            return _read_file(location)
        try:
            return self._download(location)
        except RegistryError as error:
            if location != PUBLIC:
                raise
            return _examples(str(error))

    def _download(self, url: str) -> LoadedIndex:
        """Download an index unless the saved one is still the newest; use the saved one if the network fails."""
        saved: LoadedIndex | None = None
        etag: str | None = None
        with suppress(RegistryError):
            saved, about = self._saved(url)
            etag = about.etag
        if self._is_offline:
            if saved is None:
                raise RegistryError(f"no index of {shown(url)} is saved, and --offline was given; run once without it")
            return saved
        path = _cache_file(url)
        partial = path.with_name(f".{path.name}-{os.getpid()}")
        try:
            make_private_directory(path.parent)
            fetched = fetch(url, partial, max_bytes=MAX_INDEX_BYTES, etag=etag, limits=self._limits)
            if fetched.is_unchanged and saved is not None:
                return msgspec.structs.replace(saved, note="")
            index = read_index(partial.read_bytes(), shown(url))
            partial.replace(path)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            keep = _SavedIndex(registry=shown(url), sha256=fetched.sha256, fetched_at=now, etag=fetched.etag)
            path.with_suffix(".about").write_bytes(msgspec.json.encode(keep))
        except (RegistryError, OSError) as error:
            if saved is None:
                raise RegistryError(str(error)) from None
            return msgspec.structs.replace(saved, note=f"{error}; {saved.note}")
        finally:
            partial.unlink(missing_ok=True)
        return LoadedIndex(registry=shown(url), index=index)

    def _saved(self, url: str) -> tuple[LoadedIndex, _SavedIndex]:
        """Return the saved index of a URL.

        Raises:
            RegistryError: There is none, or it is damaged.
        """
        path = _cache_file(url)
        try:
            data = read_at_most(path, MAX_INDEX_BYTES)
            about = msgspec.json.decode(read_at_most(path.with_suffix(".about"), 100_000), type=_SavedIndex)
        except (OSError, msgspec.DecodeError) as error:
            raise RegistryError(f"no index of {shown(url)} is saved: {error}") from None
        if hashlib.sha256(data).hexdigest() != about.sha256:
            raise RegistryError(f"the saved index of {shown(url)} is damaged")
        note = f"the index of {shown(url)} from {about.fetched_at} is used"
        return LoadedIndex(registry=shown(url), index=read_index(data, shown(url)), note=note), about


def is_url(location: str) -> bool:
    """Return True if a registry is a URL, not a file."""
    return "://" in location


def _locations(named: Sequence[str]) -> list[str]:
    """Return the registries to ask; without any, the public one."""
    try:
        found = named or os.environ.get(VARIABLE, "").split() or configured_registries()
    except StartError as error:
        raise RegistryError(str(error)) from None
    return list(dict.fromkeys(found)) or [PUBLIC]


def _cache_file(url: str) -> Path:
    """Return the file of a saved index; the URL is hashed, because it may contain a password."""
    name = hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return user_directory("XDG_CACHE_HOME", ".cache") / "registries" / f"{name}.json"


def _read_file(location: str) -> LoadedIndex:
    try:
        data = read_at_most(Path(location).expanduser(), MAX_INDEX_BYTES)
    except OSError as error:
        raise RegistryError(f"cannot read the registry {location}: {error.strerror}") from None
    return LoadedIndex(registry=location, index=read_index(data, location))


def _examples(why: str) -> LoadedIndex:
    """Return the bundled examples in place of the public registry."""
    name = "the bundled examples"
    note = f"{' '.join(why.split())}\n{EXAMPLE_NOTE}"
    return LoadedIndex(registry=name, index=read_index(EXAMPLE.read_bytes(), name), note=note)
