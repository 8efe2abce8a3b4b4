"""Other file systems inside a root: belonging to it or not, as the setting says, and never by accident."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[2]


def in_a_namespace(code: str, *arguments: str) -> list[str]:
    """Run a program in its own mount namespace; return the lines it prints."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting is not permitted on this machine")
    program = [sys.executable, "-c", dedent(code), *arguments]
    ran = subprocess.run(
        ["unshare", "-rm", *program], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
    )
    if ran.returncode == 77:
        pytest.skip(ran.stdout.strip())
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


MOUNTS = """
    import errno, subprocess, sys
    from pathlib import Path
    from duologue.errors import RequestError
    from duologue.local.files import Roots
    from tests.local.without_openat2 import forbid_openat2

    root, elsewhere = Path(sys.argv[1]) / "root", Path(sys.argv[1]) / "elsewhere"
    for folder in (root / "tmpfs", root / "bind", elsewhere):
        folder.mkdir(parents=True)
    (elsewhere / "file").write_text("elsewhere")
    subprocess.run(["mount", "-t", "tmpfs", "none", root / "tmpfs"], check=True)
    subprocess.run(["mount", "--bind", elsewhere, root / "bind"], check=True)
    (root / "tmpfs" / "file").write_text("tmpfs")
    (root / "link").symlink_to(root / "bind")
    (root / "single").write_text("covered")
    subprocess.run(["mount", "--bind", elsewhere / "file", root / "single"], check=True)
    if sys.argv[3] == "without openat2":
        forbid_openat2(errno.ENOSYS)
    with Roots([root], follow_mounts=sys.argv[2] == "follow") as roots:
        for name in ("tmpfs/file", "bind/file", "link/file", "tmpfs/../bind/file", "single"):
            try:
                print(roots.read_text(root / name))
            except RequestError as error:
                print(error.message.rpartition(": ")[2])
            try:
                roots.write_text(root / name, Path(root / name).read_text())
                print("written")
            except RequestError as error:
                print(error.message.rpartition(": ")[2])
"""
OUTSIDE = "outside the directories that may be used"


@pytest.mark.fault("FSB-16")
@pytest.mark.parametrize("variant", ["with openat2", "without openat2"])
def test_mounts_inside_a_root_belong_to_it_by_default(tmp_path: Path, variant: str) -> None:
    lines = in_a_namespace(MOUNTS, str(tmp_path), "follow", variant)

    assert lines[:8] == ["tmpfs", "written", "elsewhere", "written", "elsewhere", "written", "elsewhere", "written"]
    # A file that something is mounted on cannot be replaced.
    assert lines[8] == "elsewhere"


@pytest.mark.fault("FSB-16")
@pytest.mark.parametrize("variant", ["with openat2", "without openat2"])
def test_mounts_inside_a_root_can_be_left_out(tmp_path: Path, variant: str) -> None:
    lines = in_a_namespace(MOUNTS, str(tmp_path), "refuse", variant)

    assert lines == [OUTSIDE] * 10


@pytest.mark.fault("FSB-17")
def test_on_a_file_system_that_folds_case_another_case_is_the_same_root(tmp_path: Path) -> None:
    lines = in_a_namespace(
        """
        import subprocess, sys
        from pathlib import Path
        from duologue.errors import RequestError
        from duologue.local.files import Roots

        here = Path(sys.argv[1])
        mount = ["mount", "-t", "tmpfs", "-o", "casefold", "none", here]
        if subprocess.run(mount, capture_output=True).returncode or subprocess.run(["chattr", "+F", here]).returncode:
            print("no file system here folds case")
            sys.exit(77)
        (here / "Root").mkdir()
        (here / "Root" / "file").write_text("inside")
        with Roots([here / "Root"], protected=["File"]) as roots:
            print(roots.read_text(here / "root" / "FILE"))
            print(roots.is_protected(here / "ROOT" / "fIlE"))
        """,
        str(tmp_path),
    )

    assert lines == ["inside", "True"]


@pytest.mark.fault("FSC-09")
def test_a_full_disk_leaves_the_old_text_and_nothing_else(tmp_path: Path) -> None:
    lines = in_a_namespace(
        """
        import os, subprocess, sys
        from duologue.errors import RequestError
        from duologue.local.files import Roots

        root = sys.argv[1]
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", root], check=True)
        with Roots([root]) as roots:
            roots.write_text(root + "/file", "old")
            try:
                roots.write_text(root + "/file", "x" * 2**20)
            except RequestError as error:
                print(type(error).__name__, error.message.rpartition(": ")[2])
            print(roots.read_text(root + "/file"), os.listdir(root))
        """,
        str(tmp_path),
    )

    assert lines == ["InternalError No space left on device", "old ['file']"]
