"""Make the workspace of a trial, and take the patch of what the agent changed in it.

Git data of our own, outside of the workspace, remembers what was there. The agent's `.git` is never used after the
agent has run: its configuration could run programs.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from duologue.evals.exceptions import EvalError
from duologue.evals.record.manifest import WorkspaceBase
from duologue.evals.run.scratch import Scratch, make_accessible
from duologue.evals.suite.case import Case, WorkspaceFile
from duologue.transports.process.environment import safe

GIT_SECONDS = 300.0
"""Time for one Git command; a large repository is written in less."""

MOST_PATCH_BYTES = 64 << 20
"""Size of the largest patch that is recorded; a longer one is cut, and says so."""

_AUTHOR = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "duologue"), ("EMAIL", "trial@localhost"), ("DATE", "2000-01-01T00:00:00Z"))
}
_OWN_CONFIG = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_TERMINAL_PROMPT": "0"}


class SandboxError(EvalError):
    """The workspace or the isolation of a trial could not be made."""


class Checkout:
    """The workspace of one attempt.

    Attributes:
        base: What it was made from; filled by `make`.
    """

    def __init__(self, case: Case, scratch: Scratch) -> None:
        self._case = case
        self._scratch = scratch
        self._source = None if case.workspace.source is None else (Path(case.directory) / case.workspace.source)
        self.base = WorkspaceBase()

    def make(self) -> None:
        """Make the workspace and remember its state.

        Raises:
            SandboxError: It cannot be made.
        """
        wanted, source = self._case.workspace, self._source
        try:
            isolation = wanted.isolation or _usual(source)
            commit = ""
            if source is not None and isolation == "copy":
                shutil.copytree(source, self._scratch.workspace, symlinks=True, dirs_exist_ok=True)
                commit = head_of(source)
            elif source is not None and isolation in ("archive", "worktree"):
                commit = git(source, "rev-parse", "--verify", "--quiet", f"{wanted.ref}^{{commit}}").strip()
                write = self._write_tree if isolation == "archive" else self._add_worktree
                write(source, commit)
            write_files(self._case, self._case.files, self._scratch.workspace)
            base = self._remember(is_repository=isolation == "archive")
        except (OSError, shutil.Error) as error:
            raise SandboxError(f"the workspace of {self._case.id} could not be made: {error}") from error
        self.base = WorkspaceBase(
            isolation=isolation, source="" if source is None else str(source.resolve()), commit=commit, base=base
        )

    def patch(self) -> bytes:
        """Return what changed since `make`, as Git writes it; files that are ignored are left out.

        Raises:
            SandboxError: Git failed.
        """
        make_accessible(self._scratch.workspace)
        self._git("add", "--all", "--ignore-errors", ".")
        options = ("--cached", "--binary", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")
        patch = run_git(["diff", *options, self.base.base], self._private(), self._scratch.workspace)
        if len(patch) <= MOST_PATCH_BYTES:
            return patch
        return patch[:MOST_PATCH_BYTES] + b"\n[%d more bytes]\n" % (len(patch) - MOST_PATCH_BYTES)

    def save(self, target: Path) -> None:
        """Move the workspace to a directory of the record; what is no file, directory or link is left out."""
        workspace = self._scratch.workspace
        remove_special_files(workspace)
        if self.base.isolation == "worktree":
            (workspace / ".git").unlink(missing_ok=True)
        shutil.move(workspace, target)

    def forget_worktree(self) -> None:
        """Tell the source that the worktree is gone, after its directory was removed."""
        if self.base.isolation == "worktree" and self._source is not None:
            git(self._source, "worktree", "prune")

    # --- the ways to fill it

    def _write_tree(self, source: Path, commit: str) -> None:
        """Write all files of a commit; unlike `git archive`, those that are marked `export-ignore` too."""
        prefix = git(source, "rev-parse", "--show-prefix").strip()
        index = {"GIT_INDEX_FILE": str(self._scratch.root / "index")}
        git(source, "read-tree", f"{commit}:{prefix}" if prefix else commit, env=index)
        # The working tree is the workspace, so that nothing of the source's own is touched.
        tree = {**index, "GIT_WORK_TREE": str(self._scratch.workspace)}
        tree["GIT_DIR"] = git(source, "rev-parse", "--absolute-git-dir").strip()
        git(self._scratch.workspace, "checkout-index", "--all", "--force", env=tree)

    def _add_worktree(self, source: Path, commit: str) -> None:
        git(source, "worktree", "prune")
        git(source, "worktree", "add", "--quiet", "--detach", str(self._scratch.workspace), commit)

    def _remember(self, *, is_repository: bool) -> str:
        """Commit the workspace in our own Git data; return the commit."""
        run_git(["init", "--quiet", "--template=", "--bare", str(self._scratch.repository)], {}, self._scratch.root)
        self._git("add", "--all", "--force", ".")
        self._git("commit", "--quiet", "--allow-empty", "--no-verify", "--message", "the workspace before the trial")
        base = self._git("rev-parse", "HEAD").strip()
        if is_repository:
            git_directory = self._scratch.workspace / ".git"
            shutil.copytree(self._scratch.repository, git_directory)
            for name, value in (("core.bare", "false"), ("user.name", "duologue"), ("user.email", "trial@localhost")):
                run_git(["config", name, value], {"GIT_DIR": str(git_directory)}, self._scratch.root)
        return base

    def _git(self, *words: str) -> str:
        return run_git(list(words), self._private(), self._scratch.workspace).decode("utf-8", "replace")

    def _private(self) -> dict[str, str]:
        return {"GIT_DIR": str(self._scratch.repository), "GIT_WORK_TREE": str(self._scratch.workspace)}


def git(directory: Path, *words: str, env: Mapping[str, str] | None = None) -> str:
    """Run Git in a directory of the user; return what it prints.

    Raises:
        SandboxError: It failed, or took too long.
    """
    return run_git(list(words), env or {}, directory, is_own=False).decode("utf-8", "replace")


def run_git(words: list[str], env: Mapping[str, str], directory: Path, *, is_own: bool = True) -> bytes:
    """Run Git; return what it prints.

    Args:
        words: Subcommand and arguments.
        env: Variables in addition to a safe minimum.
        directory: Working directory.
        is_own: The repository is ours, so that the configuration of the user does not apply.

    Raises:
        SandboxError: It failed, or took too long.
    """
    variables = safe({**_AUTHOR, **(_OWN_CONFIG if is_own else {}), **env})
    settings = ["-c", "core.autocrlf=false", "-c", "core.fsmonitor=false"] if is_own else []
    try:
        ended = subprocess.run(
            ["git", *settings, *words],
            cwd=directory,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise SandboxError("Git is not installed; trials need it to record what changed in the workspace") from None
    except subprocess.TimeoutExpired:
        raise SandboxError(f"`git {words[0]}` took longer than {GIT_SECONDS:g} s") from None
    # Files that cannot be added, such as sockets, are named and left out.
    is_done = ended.returncode == 0 or (words[0] == "add" and "--ignore-errors" in words)
    if not is_done:
        message = ended.stderr.decode("utf-8", "replace").strip()
        raise SandboxError(f"`git {' '.join(words[:3])}` failed in {directory}: {message or 'no such ref'}")
    return ended.stdout


def write_files(case: Case, files: Sequence[WorkspaceFile], workspace: Path) -> None:
    """Write files of a case into a workspace.

    Raises:
        SandboxError: One of them leads out of the workspace.
        OSError: One cannot be written.
    """
    directory = Path(case.directory)
    for file in files:
        path = workspace / file.path
        # A link of the source must not lead the file out of the workspace.
        if not path.parent.resolve().is_relative_to(workspace.resolve()):
            raise SandboxError(f"{case.id}: the file {file.path!r} leads out of the workspace by a link")
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        if file.source is None:
            path.write_text(file.text or "", encoding="utf-8")
        elif (origin := directory / file.source).is_dir():
            remove_links(origin, path)
            shutil.copytree(origin, path, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copyfile(origin, path)
        if file.executable:
            path.chmod(path.stat().st_mode | 0o111)


def remove_links(origin: Path, target: Path) -> None:
    """Remove the links below a directory that files of another one would be written through."""
    for folder, folders, names in os.walk(origin):  # from the top: below a link there is nothing of ours
        for name in (*folders, *names):
            path = target / Path(folder).relative_to(origin) / name
            if path.is_symlink():
                path.unlink()


def head_of(source: Path) -> str:
    """Return the commit that a directory has checked out; empty if it is not in a Git repository."""
    try:
        return git(source, "rev-parse", "--verify", "--quiet", "HEAD").strip()
    except SandboxError:
        return ""


def remove_special_files(root: Path) -> None:
    """Remove pipes, sockets and devices, which cannot be copied."""
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
                path.unlink(missing_ok=True)


def _usual(source: Path | None) -> str:
    if source is None:
        return "empty"
    return "archive" if (source / ".git").exists() else "copy"
