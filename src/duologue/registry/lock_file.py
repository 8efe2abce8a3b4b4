"""Read and write `agents.lock`: which agents are installed, from where, with which content, and how each is started.

A lock file may come with a cloned project, so it is hostile input: sizes are bounded, paths stay inside of the agent's
directory, and a version that this duologue does not know is refused.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from duologue.config.agents import config_file
from duologue.private_files import FILE_MODE, user_directory
from duologue.registry.file_reader import read_at_most
from duologue.registry.index import AgentId, Kind, RegistryError, Sha256, Text, Url, Version, Word

LOCK_NAME = "agents.lock"
LOCK_VERSION = 1

MAX_LOCK_BYTES = 64 << 20
"""Size of the largest lock file that is read."""

MAX_LOCKED = 1000
"""Number of agents in the largest lock file that is read."""

EDIT_SECONDS = 30.0
"""Time to wait for another program that changes the same lock file."""

INSTALL_FIELDS = (
    *("id", "version", "kind", "platform", "allow_scripts", "package", "url", "archive_sha256"),
    *("package_lock", "requirements", "python"),
)
"""Fields of a locked agent that decide what is installed."""

START_FIELDS = (*INSTALL_FIELDS, "program", "args", "env", "programs", "tree_sha256")
"""Fields of a locked agent that decide what is started; an approval is for them."""

RelativePath = Annotated[str, Meta(min_length=1, max_length=4000)]
VariableName = Annotated[str, Meta(pattern=r"\A[^\x00=]+\Z", max_length=4000)]
Names = Annotated[list[Word], Meta(max_length=10_000)]


class ProbedAuthMethod(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A method to log in that an agent offered.

    Attributes:
        id: Its id.
        name: Its name.
        type: Its type, such as `agent` or `terminal`.
    """

    id: Word
    name: Word = ""
    type: Word = "agent"


class ProbeResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Description of an agent by itself, from one start.

    Attributes:
        probed_at: When, in UTC (ISO 8601).
        protocol_versions: Versions of the protocol that the agent accepted when they were offered.
        agent_info: Its name, title and version.
        capabilities: Its capabilities, as sent.
        auth_methods: The methods to log in that it offers.
        session: Whether it opened a session: `opened`, `login needed`, or `failed: ` and the reason.
        modes: Ids of the modes of the session.
        models: Ids of its models.
        config_options: Ids of its settings.
        quirks: Known deviations of this agent from the protocol.
        start_seconds: Time until it answered `initialize`.
    """

    probed_at: Word
    protocol_versions: Annotated[list[int], Meta(max_length=100)]
    agent_info: dict[str, Any] | None = None
    capabilities: dict[str, Any] = {}
    auth_methods: Annotated[list[ProbedAuthMethod], Meta(max_length=1000)] = []
    session: Word
    modes: Names = []
    models: Names = []
    config_options: Names = []
    quirks: Names = []
    start_seconds: float


class LockedAgent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An installed agent.

    Attributes:
        id: Id of the agent in its registry.
        version: The installed version; there is one version for each id.
        name: Name of the agent.
        kind: How it is distributed.
        platform: The platform for which it was resolved, such as `linux-x86_64`.
        registry: The registry that had the entry: a URL without credentials and query, or a file.
        resolved_at: When the registry was asked, in UTC (ISO 8601).
        pinned: True: `update` leaves the agent unchanged.
        preview: True: this is the preview version of the entry.
        allow_scripts: True: install scripts of packages may run.
        package: The package of npm or PyPI with its exact version.
        url: URL of the archive.
        archive_sha256: Checksum of the archive.
        package_lock: The `package-lock.json` of an npm package, with the integrity of each package.
        requirements: The requirements of a PyPI package, with the hashes of each.
        python: Version of Python of the environment, such as `3.12`.
        program: Path of the program that is started, relative to the installation.
        args: Its arguments.
        env: Environment variables that it needs.
        programs: Checksums of the files that are compared at each start, by their paths relative to the installation.
        tree_sha256: Checksum of the whole installation.
        probe: The agent's description of itself when it was probed.
    """

    id: AgentId
    version: Version
    name: Text
    kind: Kind
    platform: Annotated[str, Meta(pattern=r"\A[a-z0-9_-]+\Z", max_length=100)]
    registry: Word
    resolved_at: Word
    pinned: bool = False
    preview: bool = False
    allow_scripts: bool = False
    package: Annotated[str, Meta(min_length=1, max_length=300)] | None = None
    url: Url | None = None
    archive_sha256: Sha256 | None = None
    package_lock: dict[str, Any] | None = None
    requirements: Annotated[str, Meta(max_length=4 << 20)] | None = None
    python: Annotated[str, Meta(pattern=r"\A[0-9]+(\.[0-9]+)*\Z", max_length=20)] | None = None
    program: RelativePath
    args: Annotated[list[Word], Meta(max_length=1000)] = []
    env: Annotated[dict[VariableName, Word], Meta(max_length=1000)] = {}
    programs: Annotated[dict[RelativePath, Sha256], Meta(max_length=1000)]
    tree_sha256: Sha256
    probe: ProbeResult | None = None

    def __post_init__(self) -> None:
        required = {"binary": ("url", "archive_sha256"), "npx": ("package", "package_lock")}
        for field in required.get(self.kind, ("package", "requirements")):
            if getattr(self, field) is None:
                raise ValueError(f"the kind {self.kind!r} needs the field `{field}`")
        if self.program not in self.programs:
            raise ValueError("`programs` has no checksum of `program`")
        for path in self.programs:
            _check_path(path)

    def install_digest(self) -> str:
        """Return the SHA-256 of what decides what is installed."""
        return self._digest(INSTALL_FIELDS)

    def start_digest(self) -> str:
        """Return the SHA-256 of what decides what is started; an approval of a project's lock is for it."""
        return self._digest(START_FIELDS)

    def _digest(self, fields: tuple[str, ...]) -> str:
        content = {field: getattr(self, field) for field in fields}
        return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()


def _check_path(path: str) -> None:
    inside = PurePosixPath(path)
    is_plain = not any(character < " " or character in "\x7f\\:" for character in path)
    if not inside.parts or inside.is_absolute() or ".." in inside.parts or not is_plain:
        raise ValueError(f"the path {path[:200]!r} is not a relative path inside of the installation")


class AgentsLock(Struct, frozen=True, kw_only=True):
    """The content of a lock file.

    Attributes:
        version: Version of the format.
        agents: The installed agents by their ids.
    """

    version: int = LOCK_VERSION
    agents: Annotated[dict[AgentId, LockedAgent], Meta(max_length=MAX_LOCKED)] = {}

    def __post_init__(self) -> None:
        for key, agent in self.agents.items():
            if key != agent.id:
                raise ValueError(f"the agent {agent.id!r} is listed as {key!r}")


class _Versioned(Struct):
    version: int


def user_lock() -> Path:
    """Return the path of the user's own lock file, next to the configuration file."""
    return config_file().parent / LOCK_NAME


def installation_directory(agent: LockedAgent) -> Path:
    """Return the directory into which an agent is installed."""
    base = user_directory("XDG_DATA_HOME", ".local/share") / "agents"
    return base / agent.id / f"{agent.version}-{agent.install_digest()[:12]}"


def read_lock(path: Path) -> AgentsLock:
    """Return the content of a lock file; empty if there is none.

    Raises:
        RegistryError: It cannot be read, is too large, is not a lock file, or has a newer version.
    """
    try:
        data = read_at_most(path, MAX_LOCK_BYTES)
    except FileNotFoundError:
        return AgentsLock()
    except OSError as error:
        raise RegistryError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > MAX_LOCK_BYTES:
        raise RegistryError(f"{path} has more than {MAX_LOCK_BYTES:,} bytes; a lock file has at most so many")
    try:
        version = msgspec.json.decode(data, type=_Versioned).version
        if version > LOCK_VERSION:
            raise RegistryError(
                f"{path} has version {version}; this duologue reads lock files up to version {LOCK_VERSION}: update "
                "duologue"
            )
        if version < 1:
            raise RegistryError(f"{path} has version {version}; the first version of a lock file is 1")
        return msgspec.json.decode(data, type=AgentsLock)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RegistryError(
            f"{path} is not a valid lock file: {error}; correct it, or remove it and add the agents again"
        ) from None


def write_lock(path: Path, lock: AgentsLock) -> None:
    """Replace a lock file atomically; the old one stays if anything fails.

    Raises:
        RegistryError: It cannot be written.
    """
    # A link to an existing file stays a link; one that leads nowhere may come with a project, and is replaced.
    target = path.resolve() if path.exists() else path
    data = msgspec.json.format(msgspec.json.encode(lock, order="sorted"), indent=2) + b"\n"
    temporary = target.with_name(f".{target.name}-{os.urandom(8).hex()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            temporary.replace(target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        _sync_directory(target.parent)
    except OSError as error:
        raise RegistryError(f"cannot write {path}: {error.strerror}") from None


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class LockEdit:
    """A lock file while it is changed; `lock` is what the block leaves behind."""

    def __init__(self, lock: AgentsLock) -> None:
        self.lock = lock

    def put(self, agent: LockedAgent) -> None:
        """Add an agent, or replace the one with its id."""
        self.lock = msgspec.structs.replace(self.lock, agents={**self.lock.agents, agent.id: agent})

    def remove(self, agent_id: str) -> None:
        """Remove an agent."""
        agents = {key: agent for key, agent in self.lock.agents.items() if key != agent_id}
        self.lock = msgspec.structs.replace(self.lock, agents=agents)


@contextmanager
def edit_lock(path: Path) -> Generator[LockEdit]:
    """Read a lock file, and write what the block made of it; two programs never overwrite each other's changes.

    The block must be short: other programs wait for it. Nothing is written if it raises or changes nothing.

    Raises:
        RegistryError: The file cannot be read or written, or another program holds it for `EDIT_SECONDS`.
    """
    import fcntl

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The directory is locked: the file itself is replaced, and a further file would stay next to a project's lock.
        directory = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise RegistryError(f"cannot write {path}: {error.strerror}") from None
    try:
        end = time.monotonic() + EDIT_SECONDS
        while True:
            try:
                fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise RegistryError(
                        f"another program has been changing {path} for {EDIT_SECONDS:g} s; try again when it has ended"
                    ) from None
                time.sleep(0.02)
        before = read_lock(path)
        edit = LockEdit(before)
        yield edit
        if edit.lock != before:
            write_lock(path, edit.lock)
    finally:
        os.close(directory)
