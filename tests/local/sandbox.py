"""A directory to be confined to, and a world outside with something worth stealing."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from duologue.errors import InvalidParams
from duologue.local.files import Roots

UNPRIVILEGED_ID = 65534
CANARY = "this must never be read\n"


class Sandbox:
    """A directory `root`, with `roots` opened on it, next to a directory `outside`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.root = home / "root"
        self.outside = home / "outside"
        self.secret = self.outside / "secret"
        (self.root / "sub").mkdir(parents=True)
        (self.root / "file").write_text("inside\n")
        (self.root / "sub" / "file").write_text("inside sub\n")
        (self.outside / "sub").mkdir(parents=True)
        self.secret.write_text(CANARY)
        (self.outside / "file").write_text(CANARY)
        (self.outside / "sub" / "file").write_text(CANARY)

    def __enter__(self) -> Self:
        self._before = snapshot(self.outside)
        self.roots = Roots([self.root])
        return self

    def __exit__(self, *exc: object) -> None:
        self.roots.close()
        assert snapshot(self.outside) == self._before

    @contextmanager
    def unprivileged(self, except_for: Path | None = None) -> Generator[None]:
        """Run the block as an unprivileged user who owns all files inside."""
        if os.geteuid() != 0:
            yield
            return
        for path in {self.root, *self.root.rglob("*")} - {except_for}:
            os.chown(path, UNPRIVILEGED_ID, UNPRIVILEGED_ID, follow_symlinks=False)
        os.setegid(UNPRIVILEGED_ID)
        os.seteuid(UNPRIVILEGED_ID)
        try:
            yield
        finally:
            os.seteuid(0)
            os.setegid(0)

    def refusal(self, path: str | Path, roots: Roots | None = None) -> str:
        """Why neither reading nor writing there is allowed; both give the same reason."""
        reading, writing = self.reading(path, roots), self.writing(path, roots)
        assert reading == writing
        return reading

    def reading(self, path: str | Path, roots: Roots | None = None) -> str:
        try:
            text = (roots or self.roots).read_text(path)
        except InvalidParams as refused:
            return _reason(path, refused)
        raise AssertionError(f"read {text!r}")

    def writing(self, path: str | Path, roots: Roots | None = None) -> str:
        try:
            (roots or self.roots).write_text(path, "overwritten")
        except InvalidParams as refused:
            return _reason(path, refused)
        raise AssertionError("written")


def _reason(path: str | Path, refused: InvalidParams) -> str:
    """Return the reason in an error message, which must start with the requested path and name no other."""
    name, _, reason = refused.message.partition("': ")
    assert name[:100] == repr(os.fspath(path))[:-1][:100]
    assert "/" not in reason
    return reason


def snapshot(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return mode, change time and content of everything below a directory."""
    found: dict[str, tuple[int, int, bytes]] = {}
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(folder))] = info.st_mode, info.st_mtime_ns, content
    return found
