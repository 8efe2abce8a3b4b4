"""Install an agent from an archive for one platform, or from a plain program."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

import msgspec

from duologue.registry.archive import extract
from duologue.registry.download import fetch, shown
from duologue.registry.file_digest import file_sha256
from duologue.registry.index import BinaryTarget, RegistryError
from duologue.registry.install_recipe import FoundProgram, InstallRecipe, InstallSource

MAX_ARCHIVE_BYTES = 1 << 30
"""Size of the largest archive that is downloaded."""

ARCHIVES = "archives"
"""Directory of a mirror that has archives, each named by its SHA-256."""


def choose_version(target: BinaryTarget, known: str, wanted: str) -> BinaryTarget:
    """Return the target of another version than that of the index.

    Raises:
        RegistryError: The URL does not contain the version of the index.
    """
    if known not in target.archive:
        raise RegistryError(
            f"the registry has version {known}, and the URL of its archive does not contain the version, so that the "
            f"archive of version {wanted} is unknown; add version {known}, or use another registry"
        )
    return msgspec.structs.replace(target, archive=target.archive.replace(known, wanted), sha256=None)


def resolve(target: BinaryTarget, work: Path, source: InstallSource) -> InstallRecipe:
    """Download the archive of a target, and return its recipe with the archive's hash."""
    archive = _archive_path(target.archive, work)
    sha256 = _download(target.archive, archive, target.sha256, source)
    if target.sha256 is None:
        source.progress.notice(f"the registry has no checksum of this archive; its SHA-256 {sha256} is now locked")
    return InstallRecipe(kind="binary", url=target.archive, archive_sha256=sha256)


def install(recipe: InstallRecipe, cmd: str, directory: Path, work: Path, source: InstallSource) -> None:
    """Extract the archive of a recipe into a new directory.

    Args:
        recipe: The recipe.
        cmd: Path of the program, which is the name of a program without archive.
        directory: Directory to make.
        work: Directory for the archive; one that `resolve` downloaded there is used.
        source: Where the archive is taken from.
    """
    assert recipe.url is not None
    assert recipe.archive_sha256 is not None
    archive = _archive_path(recipe.url, work)
    if not archive.exists():
        mirrored = None if source.mirror is None else source.mirror / ARCHIVES / recipe.archive_sha256
        if mirrored is not None and mirrored.exists():
            source.progress.step(f"copying {archive.name} from the mirror")
            archive.write_bytes(mirrored.read_bytes())
        else:
            _download(recipe.url, archive, recipe.archive_sha256, source)
    found = file_sha256(archive)
    if found != recipe.archive_sha256:
        raise RegistryError(f"{archive.name} has the SHA-256 {found}, but the lock has {recipe.archive_sha256}")
    source.progress.step(f"extracting {archive.name}")
    directory.mkdir(mode=0o755)
    extract(archive, directory, cmd)


def find_program(directory: Path, cmd: str) -> FoundProgram:
    """Return the program of an extracted archive.

    Raises:
        RegistryError: The archive does not contain it.
    """
    path = PurePosixPath(cmd.replace("\\", "/"))
    program = directory / path
    if path.is_absolute() or ".." in path.parts or not program.resolve().is_relative_to(directory.resolve()):
        raise RegistryError(f"the registry names the program {cmd!r}, which is not inside of the archive")
    if not program.is_file():
        names = sorted(entry.name for entry in directory.iterdir())[:10]
        raise RegistryError(f"the archive has no file {str(path)!r}; it contains {', '.join(names)}")
    return FoundProgram(program=str(path), compared=[str(path)])


def mirror(recipe: InstallRecipe, directory: Path, source: InstallSource) -> None:
    """Put the archive of a recipe into a mirror."""
    assert recipe.url is not None
    assert recipe.archive_sha256 is not None
    path = directory / ARCHIVES / recipe.archive_sha256
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        _download(recipe.url, path, recipe.archive_sha256, source)


def _archive_path(url: str, work: Path) -> Path:
    """Return the file of an archive, whose name decides its format."""
    name = PurePosixPath(unquote(urlsplit(url).path)).name
    return work / (name if name not in ("", ".", "..") and "\x00" not in name else "archive")


def _download(url: str, path: Path, sha256: str | None, source: InstallSource) -> str:
    """Download an archive, and return its SHA-256."""
    if source.is_offline:
        raise source.missing(shown(url))
    source.progress.step(f"downloading {shown(url)}")
    return fetch(url, path, max_bytes=MAX_ARCHIVE_BYTES, sha256=sha256, progress=source.progress.received).sha256
