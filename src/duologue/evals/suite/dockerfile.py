"""Read the Dockerfile of a task as far as it only copies files and sets variables; the rest needs a container."""

from __future__ import annotations

import re
import shlex
from pathlib import Path, PurePosixPath

import msgspec
from msgspec import Struct, field

from duologue.evals.suite.case import WorkspaceFile
from duologue.evals.suite.conversion import FieldError
from duologue.evals.suite.source_files import files_below, inside, read_text

WORKDIR = "/app"
"""Directory of the agent if the Dockerfile names none."""

NAME = "environment/Dockerfile"

_NO_EFFECT = (
    "FROM",
    "LABEL",
    "MAINTAINER",
    "CMD",
    "ENTRYPOINT",
    "EXPOSE",
    "STOPSIGNAL",
    "USER",
    "VOLUME",
    "SHELL",
)
"""Instructions of a Dockerfile that a local directory can do without."""

_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
"""Files that `ADD` would unpack."""

_ENV = re.compile(r"[A-Za-z_]\w*")


class Image(Struct, kw_only=True):
    """The working directory of an image, with the files and variables that its Dockerfile puts there.

    Attributes:
        workdir: Its working directory.
        files: Files that are copied there.
        variables: Environment variables.
    """

    workdir: str = WORKDIR
    files: list[WorkspaceFile] = field(default_factory=list[WorkspaceFile])
    variables: dict[str, str] = field(default_factory=dict[str, str])


def read_dockerfile(root: Path) -> Image:
    """Return what the Dockerfile of a task makes; an empty directory if there is none.

    Raises:
        FieldError: It does more than copy files and set variables.
    """
    image, base = Image(), root / "environment"
    if not (base / "Dockerfile").exists():
        return image
    if (base / ".dockerignore").exists():
        raise FieldError("environment/.dockerignore: the task needs a container; run it with Harbor")
    stages = 0
    text = re.sub(r"\\[ \t]*\r?\n", " ", read_text(base / "Dockerfile"))
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, _, rest = line.partition(" ")
        stages += name.upper() == "FROM"
        if stages > 1 or not _apply(image, name.upper(), rest.strip(), root):
            raise FieldError(f"{NAME}: {line[:200]!r} needs a container; run the task with Harbor")
    return image


def _apply(image: Image, name: str, rest: str, root: Path) -> bool:
    """Apply an instruction; return False if it needs a container."""
    if name in _NO_EFFECT:
        return True
    if "$" in rest or "<<" in rest:
        return False
    match name:
        case "WORKDIR":
            image.workdir = str(PurePosixPath(image.workdir, rest))
        case "ENV":
            return _set_variables(image, rest)
        case "COPY" | "ADD":
            return _copy(image, name, rest, root)
        case _:
            return False
    return True


def _set_variables(image: Image, rest: str) -> bool:
    words = _words(rest)
    if words and "=" not in words[0]:
        name, _, value = rest.partition(" ")
        words = [f"{name}={value.strip()}"]
    for word in words:
        name, _, value = word.partition("=")
        if not _ENV.fullmatch(name) or name == "PATH":
            return False
        image.variables[name] = value
    return True


def _copy(image: Image, instruction: str, rest: str, root: Path) -> bool:
    is_executable: bool | None = None
    words = _words(rest)
    while words and words[0].startswith("--"):
        option, _, value = words.pop(0).partition("=")
        if option == "--chmod" and re.fullmatch(r"[0-7]{3,4}", value):
            is_executable = bool(int(value, 8) & 0o100)
        elif option not in ("--chown", "--link"):
            return False
    if len(words) < 2:
        return False
    *names, target = words
    if instruction == "ADD" and any("://" in name or name.endswith(_ARCHIVES) for name in names):
        return False
    sources = [path for name in names for path in _sources(root / "environment", name)]
    for source in sources:
        image.files += _copied(image.workdir, source, target, root, is_executable, is_one=len(sources) == 1)
    return True


def _sources(base: Path, name: str) -> list[Path]:
    """Return the files and directories that a word of `COPY` names, which may be a pattern."""
    relative = name.lstrip("/") or "."
    if not any(each in relative for each in "*?["):
        return [inside(base, relative, f"{NAME}: COPY")]
    if ".." in PurePosixPath(relative).parts:
        raise FieldError(f"{NAME}: COPY: {name!r} leads out of the directory of the suite, {base}")
    found = [inside(base, str(path.relative_to(base)), f"{NAME}: COPY") for path in sorted(base.glob(relative))]
    if not found:
        raise FieldError(f"{NAME}: COPY: there is no {name!r} in {base}")
    return found


def _copied(
    workdir: str, source: Path, target: str, root: Path, is_executable: bool | None, *, is_one: bool
) -> list[WorkspaceFile]:
    directory = PurePosixPath(workdir, target)
    if not directory.is_relative_to(workdir) or ".." in directory.parts:
        raise FieldError(f"{NAME}: COPY to {target!r}, outside of {workdir}, needs a container")
    is_folder = source.is_dir()
    found: list[WorkspaceFile] = []
    for file in files_below(source):
        if file.name == "Dockerfile" and file.parent == root / "environment":
            continue
        if is_folder:
            inner = directory / file.relative_to(source).as_posix()
        else:
            inner = directory / file.name if target.endswith(("/", ".")) or not is_one else directory
        found.append(
            WorkspaceFile(
                path=str(inner.relative_to(workdir)),
                source=file.relative_to(root).as_posix(),
                executable=bool(file.stat().st_mode & 0o100) if is_executable is None else is_executable,
            )
        )
    return found


def _words(rest: str) -> list[str]:
    """Return the words of an instruction, which may be a JSON array."""
    try:
        if rest.startswith("["):
            return msgspec.json.decode(rest, type=list[str])
        return shlex.split(rest)
    except (msgspec.MsgspecError, ValueError):
        return []
