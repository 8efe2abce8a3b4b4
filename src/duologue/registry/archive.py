"""Extract an agent's archive into an empty directory.

An archive is hostile input. Only files, directories, and symbolic links that stay inside are accepted; names are
relative and have no `..`; sizes are counted while they are written, so that a header cannot lie; modes become 0755 or
0644. The filters of `tarfile` accept more (hard links, any number of bytes), and there are none for zip files.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from msgspec import Struct

from duologue.registry.index import RegistryError

MAX_BYTES = 2 << 30
"""Bytes of all files of an archive together."""

MAX_MEMBERS = 100_000
"""Files and directories of an archive."""

MAX_RATIO = 200
"""Extracted bytes for each byte of the archive, after the first `FREE_BYTES`."""

FREE_BYTES = 64 << 20
"""Bytes that are extracted without regard to the ratio."""

MAX_TRAILING = 1 << 20
"""Bytes behind the last entry of a tar file: padding."""

PIECE = 1 << 20

INSTALLERS = (".dmg", ".pkg", ".deb", ".rpm", ".msi")
"""Suffixes of installers, which the registry does not permit."""


class ArchiveRejected(RegistryError):
    """An archive contains something that is not extracted; the message names it."""


class ArchiveLimits(Struct, frozen=True, kw_only=True):
    """Limits of what is extracted."""

    bytes: int = MAX_BYTES
    members: int = MAX_MEMBERS
    ratio: int = MAX_RATIO
    free_bytes: int = FREE_BYTES


class _Member(Struct, frozen=True):
    """One entry of an archive, whatever its format."""

    name: str
    kind: str
    is_executable: bool
    link: str
    content: IO[bytes] | None


def extract(archive: Path, directory: Path, cmd: str, limits: ArchiveLimits | None = None) -> None:
    """Extract an archive; what is neither a zip nor a tar file becomes the program `cmd` itself.

    Args:
        archive: The file, named as in its URL.
        directory: Existing empty directory; its content is unspecified after an error.
        cmd: Path of the program inside the archive.
        limits: Limits of what is extracted.

    Raises:
        ArchiveRejected: The archive is damaged, or contains something that is not extracted.
        OSError: A file cannot be written.
    """
    if archive.name.lower().endswith(INSTALLERS):
        raise ArchiveRejected(f"{archive.name} is an installer; archives and plain programs can be installed")
    extraction = _Extraction(directory, archive.stat().st_size, limits or ArchiveLimits())
    try:
        with archive.open("rb") as file:
            for member in _members(file, archive.name, cmd):
                extraction.add(member)
        extraction.finish()
    except ArchiveRejected:
        raise
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise ArchiveRejected(f"{archive.name} has a file and a directory of one name: {error.filename}") from None
    except (
        tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError, ValueError,
        NotImplementedError, RuntimeError, OverflowError,
    ) as error:  # fmt: skip
        raise ArchiveRejected(f"{archive.name} is damaged or not readable: {error}") from None


def _members(file: IO[bytes], name: str, cmd: str) -> Iterator[_Member]:
    lower = name.lower()
    if lower.endswith(".zip"):
        yield from _zip_members(file)
    elif (opener := _opener(lower)) is not None:
        with opener(file) as stream:
            yield from _tar_members(stream)
            # The checksum is behind the end of the tar file.
            if len(stream.read(MAX_TRAILING + 1)) > MAX_TRAILING:
                raise ArchiveRejected(f"{name} has more than {MAX_TRAILING:,} bytes behind its last entry")
    else:
        yield _Member(cmd, "file", True, "", file)


def _opener(name: str) -> Callable[[IO[bytes]], IO[bytes]] | None:
    """Return what decompresses a tar file of this name; None if it is none."""
    for suffixes, module in (((".tar.gz", ".tgz"), gzip), ((".tar.bz2", ".tbz2"), bz2), ((".tar.xz", ".txz"), lzma)):
        if name.endswith(suffixes):
            return module.open  # type: ignore[no-any-return]  # three modules of one shape
    return None


def _tar_members(stream: IO[bytes]) -> Iterator[_Member]:
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for info in tar:
            content = tar.extractfile(info) if info.isreg() else None
            kind = "file" if info.isreg() else "directory" if info.isdir() else "link" if info.issym() else "other"
            yield _Member(info.name, kind, bool(info.mode & 0o111), info.linkname, content)


def _zip_members(file: IO[bytes]) -> Iterator[_Member]:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            mode = info.external_attr >> 16
            type_ = stat.S_IFMT(mode)
            if info.is_dir() or type_ == stat.S_IFDIR:
                yield _Member(info.filename, "directory", False, "", None)
            elif type_ in (0, stat.S_IFREG):
                with archive.open(info) as content:
                    yield _Member(info.filename, "file", bool(mode & 0o111), "", content)
            elif type_ == stat.S_IFLNK:
                with archive.open(info) as content:
                    yield _Member(info.filename, "link", False, content.read(4097).decode(), None)
            else:
                yield _Member(info.filename, "other", False, "", None)


class _Extraction:
    """Writes members below a directory, and counts them."""

    def __init__(self, directory: Path, archive_bytes: int, limits: ArchiveLimits) -> None:
        self._directory = directory
        self._limits = limits
        self._most = min(limits.bytes, limits.free_bytes + archive_bytes * limits.ratio)
        self._members = 0
        self._bytes = 0
        self._links: list[tuple[PurePosixPath, str]] = []
        self._names: set[str] = set()

    def add(self, member: _Member) -> None:
        self._members += 1
        if self._members > self._limits.members:
            raise ArchiveRejected(f"the archive has more than {self._limits.members:,} entries")
        path = _safe_path(member.name)
        if member.kind == "directory":
            (self._directory / path).mkdir(mode=0o755, parents=True, exist_ok=True)
            return
        folded = str(path).casefold()
        if folded in self._names or path == PurePosixPath("."):
            raise ArchiveRejected(f"two entries of the archive have the name {member.name!r}")
        self._names.add(folded)
        if member.kind == "link":
            self._links.append((path, member.link))
        elif member.kind == "file" and member.content is not None:
            self._write(path, member)
        else:
            raise ArchiveRejected(f"{member.name!r} is neither a file, a directory nor a symbolic link")

    def finish(self) -> None:
        """Make the symbolic links, last, so that nothing is written through one."""
        for path, target in self._links:
            _check_link(path, target)
            destination = self._directory / path
            destination.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            destination.symlink_to(target)
        root = self._directory.resolve()
        for path, target in self._links:
            if not (self._directory / path).resolve().is_relative_to(root):
                raise ArchiveRejected(f"the link {str(path)!r} leads outside of the archive, to {target!r}")

    def _write(self, path: PurePosixPath, member: _Member) -> None:
        destination = self._directory / path
        destination.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        mode = 0o755 if member.is_executable else 0o644
        descriptor = os.open(destination, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
        assert member.content is not None
        with os.fdopen(descriptor, "wb") as file:
            while piece := member.content.read(PIECE):
                self._bytes += len(piece)
                if self._bytes > self._most:
                    raise ArchiveRejected(f"the archive's files have more than {self._most:,} bytes; it may be a bomb")
                file.write(piece)
            os.fchmod(file.fileno(), mode)


def _safe_path(name: str) -> PurePosixPath:
    """Return the path of an entry below the directory.

    Raises:
        ArchiveRejected: It is absolute, leads upwards, or is not a name on every platform.
    """
    path = PurePosixPath(name)
    unsafe = (
        not name
        or path.is_absolute()
        or ".." in path.parts
        or "\\" in name
        or ":" in name
        or any(character < " " or character == "\x7f" for character in name)
        or len(name) > 4000
        or any(len(part.encode("utf-8", "surrogateescape")) > 255 for part in path.parts)
    )
    if unsafe:
        raise ArchiveRejected(
            f"the archive has an entry with the name {name[:200]!r}, which is not a safe relative path"
        )
    return path


def _check_link(path: PurePosixPath, target: str) -> None:
    """Check that a link's text stays inside; where it leads is checked once all links exist."""
    depth = len(path.parts) - 1
    for part in PurePosixPath(target).parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            break
    if not target or target.startswith("/") or "\\" in target or "\x00" in target or len(target) > 4000 or depth < 0:
        raise ArchiveRejected(f"the link {str(path)!r} leads outside of the archive, to {target[:200]!r}")


def remove_tree(directory: Path) -> None:
    """Remove a directory with everything in it; one that is not there is fine."""
    shutil.rmtree(directory, ignore_errors=True)
