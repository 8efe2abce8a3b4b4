"""The kernel's own call where there is one, and the same boundary where there is none."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from duologue.local.openat2 import is_kernel_view, open_beneath
from tests.local.sandbox import Sandbox


def opened(root: Path, path: str) -> str | int | None:
    """Return the text of a file opened below `root`, or the number of the error."""
    fd = os.open(root, os.O_PATH)
    try:
        with os.fdopen(open_beneath(fd, path, os.O_RDONLY)) as file:
            return file.read()
    except OSError as error:
        return error.errno
    finally:
        os.close(fd)


def test_the_kernel_stays_beneath_the_directory(sandbox: Sandbox) -> None:
    (sandbox.root / "in").symlink_to("sub")
    (sandbox.root / "out").symlink_to("../outside")
    (sandbox.root / "absolute").symlink_to(sandbox.root / "file")
    if opened(sandbox.root, "file") == errno.ENOSYS:
        pytest.skip("this system has no openat2")

    assert opened(sandbox.root, "sub/../file") == "inside\n"
    assert opened(sandbox.root, "in/file") == "inside sub\n"
    assert opened(sandbox.root, "../outside/secret") == errno.EXDEV
    assert opened(sandbox.root, "out/secret") == errno.EXDEV
    assert opened(sandbox.root, "absolute") == errno.EXDEV
    assert opened(sandbox.root, "/etc/passwd") == errno.EXDEV
    assert opened(sandbox.root, "missing") == errno.ENOENT
    assert opened(Path("/proc/self"), "cwd/pyproject.toml") == errno.ELOOP


def test_a_kernel_file_is_distinguished_from_a_regular_file(sandbox: Sandbox) -> None:
    with Path("/proc/version").open() as version, (sandbox.root / "file").open() as file:
        assert is_kernel_view(version.fileno())
        assert not is_kernel_view(file.fileno())


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("test_openat2", "ENOSYS"),
        ("test_openat2", "EPERM"),
        ("test_boundary", "EPERM"),
        ("test_generated_paths", "ENOSYS"),
        ("test_races", "ENOSYS"),
    ],
)
def test_the_boundary_is_the_same_without_the_kernels_call(name: str, error: str, tmp_path: Path) -> None:
    """Old kernels do not know it, and some sandboxes forbid it."""
    options = ["-q", "-rs", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'inner'}", "--deselect", THIS]
    # Without the call, absolute and relative links go the same way.
    options += ["-k", "not absolute and not loses"] if name == "test_races" else []
    command = [sys.executable, "-m", "tests.local.without_openat2", error, *options, f"tests/local/{name}.py"]
    env = {**os.environ, "DUOLOGUE_CHAOS_FACTOR": "1"}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=ROOT, env=env)

    assert ran.returncode == 0, ran.stdout
    assert ("has no openat2" in ran.stdout) == (name == "test_openat2")


THIS = f"tests/local/test_openat2.py::{test_the_boundary_is_the_same_without_the_kernels_call.__name__}"
ROOT = Path(__file__).parents[2]
