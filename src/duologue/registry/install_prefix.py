"""The directory of installed agents: one installer at a time, whole installations or none, and no garbage.

An agent is installed into a directory with another name and renamed when it is complete. Which installation is used is
decided by the lock file alone, which is replaced atomically: a failure before that leaves the old version usable.
Everything that no lock file names is garbage, and removed by the next installer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from duologue.private_files import FILE_MODE, make_private_directory, user_directory
from duologue.registry.archive import remove_tree
from duologue.registry.index import RegistryError
from duologue.registry.install_recipe import InstallProgress
from duologue.registry.lock_file import LockedAgent, installation_directory, read_lock

WAIT_SECONDS = 900.0
"""How long to wait for another process that installs: large agents take minutes on slow connections."""

POLL_SECONDS = 0.2

INSTALLER_FILE = ".installer"
"""File that the one installer holds locked; it contains the number of its process."""

LOCK_LIST = ".lock-files"
"""File with the paths of the lock files whose agents are installed here."""

PARTIAL = ".partial-"


class InstallPrefix:
    """The directory of installed agents, while this process is the only one that changes it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @contextmanager
    def partial(self) -> Generator[Path]:
        """Make an empty directory for an installation that is not complete; it is removed at the end if still there."""
        path = self._directory / f"{PARTIAL}{os.getpid()}"
        remove_tree(path)
        path.mkdir(mode=0o700)
        try:
            yield path
        finally:
            remove_tree(path)

    def put(self, partial: Path, agent: LockedAgent) -> Path:
        """Give a complete installation its name; one that was there before is removed."""
        final = installation_directory(agent)
        final.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if final.exists():
            final.rename(self._directory / f"{PARTIAL}{os.getpid()}-old")
        partial.rename(final)
        return final

    def remember_lock(self, lock: Path) -> None:
        """Remember a lock file whose agents are installed here, so that they are not garbage."""
        path = str(lock.resolve())
        if path not in self._lock_files():
            descriptor = os.open(
                self._directory / LOCK_LIST, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, FILE_MODE
            )
            with os.fdopen(descriptor, "a", encoding="utf-8", errors="surrogateescape") as file:
                file.write(f"{path}\n")

    def remove_garbage(self) -> None:
        """Remove incomplete installations, and those that no lock file names and no process runs from."""
        needed: set[Path] = set()
        try:
            for lock in self._lock_files():
                needed.update(installation_directory(agent) for agent in read_lock(Path(lock)).agents.values())
        except RegistryError:
            return
        for path in self._directory.iterdir():
            if path.name.startswith(PARTIAL):
                remove_tree(path)
            elif path.is_dir() and not path.is_symlink():
                for installation in path.iterdir():
                    if installation not in needed and not _is_running(installation):
                        remove_tree(installation)
                with suppress(OSError):
                    path.rmdir()

    def _lock_files(self) -> list[str]:
        try:
            text = (self._directory / LOCK_LIST).read_text("utf-8", "surrogateescape")
        except FileNotFoundError:
            return []
        return text.splitlines()


@contextmanager
def open_prefix(progress: InstallProgress, wait_seconds: float = WAIT_SECONDS) -> Generator[InstallPrefix]:
    """Become the one process that installs agents; wait for another one.

    A process that dies releases its lock with it.

    Raises:
        RegistryError: Another process still installs after the wait, or the directory cannot be made.
    """
    import fcntl

    directory = user_directory("XDG_DATA_HOME", ".local/share") / "agents"
    try:
        make_private_directory(directory)
        descriptor = os.open(directory / INSTALLER_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        raise RegistryError(f"cannot use {directory}: {error.strerror}") from None
    try:
        end = time.monotonic() + wait_seconds
        is_waiting = False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                process = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            if time.monotonic() > end:
                raise RegistryError(
                    f"another duologue (process {process}) still installs agents after {wait_seconds:g} s; try again "
                    "when it has ended"
                )
            if not is_waiting:
                progress.notice(f"waiting for another duologue (process {process}) that installs agents")
                is_waiting = True
            time.sleep(POLL_SECONDS)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield InstallPrefix(directory)
    finally:
        os.close(descriptor)


def _is_running(installation: Path) -> bool:
    """Return True if a process was started from a directory, as far as this system tells."""
    name = os.fsencode(installation) + b"/"
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if name in process.read_bytes():
                return True
    return False
