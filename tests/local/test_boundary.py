"""No file outside the roots is read or written, whatever the path is and whatever the roots contain."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from duologue.errors import InvalidParams, ResourceNotFound
from duologue.local.files import Roots
from tests.local.sandbox import CANARY, Sandbox


@contextmanager
def open_directory(path: Path) -> Generator[str]:
    """Yield a directory with a path short enough for a socket."""
    fd = os.open(path, os.O_PATH)
    yield f"/proc/self/fd/{fd}"
    os.close(fd)


OUTSIDE = "outside the directories that may be used"


@pytest.mark.fault("FSB-01")
@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret",
        "sub/../../outside/secret",
        "./..//outside/secret",
        "sub/.././../outside/secret",
        "sub/../sub/../../outside/secret",
        "../root/../outside/secret",
        "/../outside/secret",
        "../../../../../../../../../../../../etc/passwd",
    ],
)
def test_two_dots_lead_nowhere_outside(sandbox: Sandbox, path: str) -> None:
    assert sandbox.refusal(f"{sandbox.root}/{path}") == OUTSIDE


@pytest.mark.fault("FSB-01")
def test_whether_something_is_outside_cannot_be_found_out_by_going_there_and_back(sandbox: Sandbox) -> None:
    (sandbox.root / "link").symlink_to(sandbox.outside)

    for path in (sandbox.outside, sandbox.root / "link", f"{sandbox.root}/../outside"):
        assert sandbox.refusal(f"{path}/../root/file") == OUTSIDE
        assert sandbox.refusal(f"{path}/sub/../../root/file") == OUTSIDE
        assert sandbox.refusal(f"{path}/missing/../../root/file") == OUTSIDE


def test_two_dots_inside_are_followed(sandbox: Sandbox) -> None:
    assert sandbox.roots.read_text(f"{sandbox.root}/sub/../file") == "inside\n"
    assert sandbox.roots.read_text(f"{sandbox.root}/../root/./sub//file") == "inside sub\n"


@pytest.mark.fault("FSB-02")
def test_a_sibling_that_shares_the_beginning_of_the_name_is_outside(sandbox: Sandbox) -> None:
    evil = sandbox.home / "root-evil"
    evil.mkdir()
    (evil / "x").write_text(CANARY)

    assert sandbox.refusal(evil / "x") == OUTSIDE
    assert (evil / "x").read_text() == CANARY


@pytest.mark.fault("FSB-03")
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "not an absolute path"),
        (".", "not an absolute path"),
        ("file", "not an absolute path"),
        ("../outside/secret", "not an absolute path"),
        ("~/x", "not an absolute path"),
        ("file:///etc/passwd", "not an absolute path"),
        ("\0/etc/passwd", "not an absolute path"),
        ("/etc/passwd\0.txt", "the path contains NUL"),
        ("/\ud800", "the path cannot be encoded"),
    ],
)
def test_a_path_that_is_not_absolute_is_rejected(sandbox: Sandbox, path: str, reason: str) -> None:
    assert sandbox.refusal(path) == reason


@pytest.mark.fault("FSB-04")
@pytest.mark.parametrize("is_absolute", [True, False])
def test_a_link_to_a_file_outside_is_not_followed(sandbox: Sandbox, is_absolute: bool) -> None:
    (sandbox.root / "link").symlink_to(sandbox.secret if is_absolute else "../outside/secret")

    assert sandbox.refusal(sandbox.root / "link") == OUTSIDE
    with pytest.raises(InvalidParams):
        sandbox.roots.exists(sandbox.root / "link")
    with pytest.raises(InvalidParams):
        sandbox.roots.stat(sandbox.root / "link")


@pytest.mark.fault("FSB-05")
@pytest.mark.parametrize("is_absolute", [True, False])
def test_a_linked_directory_in_mid_path_is_not_followed_outside(sandbox: Sandbox, is_absolute: bool) -> None:
    (sandbox.root / "link").symlink_to(sandbox.outside if is_absolute else "../outside")

    assert sandbox.refusal(sandbox.root / "link" / "file") == OUTSIDE
    assert sandbox.refusal(sandbox.root / "link" / "sub" / "file") == OUTSIDE
    assert sandbox.writing(sandbox.root / "link" / "new" / "deep") == OUTSIDE


@pytest.mark.fault("FSB-06")
@pytest.mark.parametrize("target", ["../outside/new", "../outside/new/deep", "../nowhere/new", "/nowhere/new"])
def test_nothing_is_created_through_a_dangling_link_outwards(sandbox: Sandbox, target: str) -> None:
    (sandbox.root / "link").symlink_to(target)

    assert sandbox.refusal(sandbox.root / "link") == OUTSIDE
    assert not (sandbox.home / "nowhere").exists()


def test_a_dangling_link_inside_is_written_as_the_kernel_would(sandbox: Sandbox) -> None:
    (sandbox.root / "link").symlink_to("sub/new")

    assert not sandbox.roots.exists(sandbox.root / "link")
    sandbox.roots.write_text(sandbox.root / "link", "text")

    assert (sandbox.root / "sub" / "new").read_text() == "text"
    assert (sandbox.root / "link").is_symlink()


@pytest.mark.fault("FSB-07")
@pytest.mark.parametrize(("links", "is_followed"), [(39, True), (40, True), (41, False), (500, False)])
def test_a_chain_of_links_is_followed_as_far_as_the_kernel_follows(
    sandbox: Sandbox, links: int, is_followed: bool
) -> None:
    target = "file"
    for n in range(links):
        (sandbox.root / f"link{n}").symlink_to(target)
        target = f"link{n}"

    if is_followed:
        assert (sandbox.root / target).read_text() == "inside\n"
        assert sandbox.roots.read_text(sandbox.root / target) == "inside\n"
        sandbox.roots.write_text(sandbox.root / target, "new")
        assert (sandbox.root / "file").read_text() == "new"
    else:
        assert "too many links" in sandbox.refusal(sandbox.root / target)


@pytest.mark.fault("FSB-07")
@pytest.mark.parametrize("target", ["loop", "sub/../loop", "{root}/loop", "./loop/x", "../root/loop"])
def test_a_link_to_itself_is_refused(sandbox: Sandbox, target: str) -> None:
    (sandbox.root / "loop").symlink_to(target.format(root=sandbox.root))

    assert "too many links" in sandbox.refusal(sandbox.root / "loop")
    assert "too many links" in sandbox.refusal(sandbox.root / "loop" / "x")


@pytest.mark.fault("FSB-08")
@pytest.mark.parametrize("target", ["sub", "./sub/", "../root/sub", "{root}/sub", "sub/../sub"])
def test_a_link_that_stays_inside_is_followed_as_the_kernel_does(sandbox: Sandbox, target: str) -> None:
    (sandbox.root / "deep" / "deeper").mkdir(parents=True)
    (sandbox.root / "sub" / "beside").write_text("beside")
    (sandbox.root / "link").symlink_to(target.format(root=sandbox.root))
    (sandbox.root / "up").symlink_to("deep/deeper")
    (sandbox.root / "deep" / "x").write_text("next to deeper, not next to the link")

    assert sandbox.roots.read_text(sandbox.root / "link" / "file") == "inside sub\n"
    assert sandbox.roots.read_text(f"{sandbox.root}/link/../file") == "inside\n"
    assert sandbox.roots.read_text(f"{sandbox.root}/up/../x") == "next to deeper, not next to the link"
    sandbox.roots.write_text(f"{sandbox.root}/link/../link/file", "new")
    assert (sandbox.root / "sub" / "file").read_text() == "new"
    sandbox.roots.write_text(f"{sandbox.root}/up/../x", "new x")
    assert (sandbox.root / "deep" / "x").read_text() == "new x"


def test_two_roots_are_one_world_also_across_links_and_two_dots(sandbox: Sandbox) -> None:
    other = sandbox.home / "other"
    other.mkdir()
    (other / "file").write_text("other")
    (sandbox.root / "absolute").symlink_to(other / "file")
    (sandbox.root / "relative").symlink_to("../other/file")

    with Roots([sandbox.root, other]) as both:
        for path in (
            other / "file",
            sandbox.root / "absolute",
            sandbox.root / "relative",
            f"{sandbox.root}/../other/file",
        ):
            assert both.read_text(path) == "other"
        both.write_text(f"{sandbox.root}/sub/../../other/new", "made")
        assert sandbox.refusal(f"{sandbox.root}/../outside/secret", both) == OUTSIDE
        assert sandbox.refusal(f"{other}/../root/../outside/secret", both) == OUTSIDE
    assert (other / "new").read_text() == "made"


def test_an_outer_root_contains_files_outside_an_inner_one(sandbox: Sandbox) -> None:
    with Roots([sandbox.root / "sub", sandbox.root]) as nested:
        assert nested.read_text(f"{sandbox.root}/sub/../file") == "inside\n"
        assert sandbox.refusal(f"{sandbox.root}/sub/../../outside/secret", nested) == OUTSIDE


@pytest.mark.fault("FSB-09")
def test_a_root_that_is_a_link_can_be_named_by_the_link_and_by_its_target(sandbox: Sandbox) -> None:
    link = sandbox.home / "link"
    link.symlink_to("root")

    with Roots([link]) as roots:
        assert roots.read_text(link / "file") == "inside\n"
        assert roots.read_text(sandbox.root / "file") == "inside\n"
        assert sandbox.refusal(f"{link}/../outside/secret", roots) == OUTSIDE


@pytest.mark.fault("FSB-09")
def test_a_root_stays_what_it_was_when_it_was_opened(sandbox: Sandbox) -> None:
    moved = sandbox.home / "moved"
    sandbox.root.rename(moved)
    sandbox.root.symlink_to("outside")

    assert sandbox.roots.read_text(sandbox.root / "file") == "inside\n"
    sandbox.roots.write_text(sandbox.root / "file", "still inside")
    sandbox.roots.write_text(sandbox.root / "new" / "file", "new")

    assert (moved / "file").read_text() == "still inside"
    assert (moved / "new" / "file").read_text() == "new"


@pytest.mark.fault("FSB-12")
def test_a_hard_link_is_read_but_not_written(sandbox: Sandbox) -> None:
    os.link(sandbox.secret, sandbox.root / "hard")

    assert sandbox.roots.read_text(sandbox.root / "hard") == CANARY
    assert sandbox.writing(sandbox.root / "hard") == "the file has other names (hard links), which may be outside"


@pytest.mark.fault("FSB-12")
def test_a_hard_link_that_may_be_written_stays_one_file(sandbox: Sandbox) -> None:
    os.link(sandbox.root / "file", sandbox.root / "hard")

    with Roots([sandbox.root], allow_hard_links=True) as roots:
        roots.write_text(sandbox.root / "hard", "for both")

    assert (sandbox.root / "file").read_text() == "for both"
    assert (sandbox.root / "file").stat().st_nlink == 2


@pytest.mark.fault("FSB-13")
@pytest.mark.parametrize(
    "path",
    [
        "/proc/self/environ",
        "/proc/self/mem",
        "/proc/self/root{secret}",
        "/proc/self/root/proc/self/environ",
        "/proc/{pid}/fd/{fd}",
        "/proc/self/fd/{fd}",
        "/proc/self/cwd/pyproject.toml",
        "/proc/thread-self/environ",
        "/proc/version",
        "/dev/fd/{fd}",
        "/dev/stdin",
        "/sys/devices/system/cpu/online",
        "{root}/link/environ",
    ],
)
def test_doors_into_processes_are_no_files_even_if_everything_is_a_root(sandbox: Sandbox, path: str) -> None:
    (sandbox.root / "link").symlink_to("/proc/self")
    with Roots(["/"]) as everything, sandbox.secret.open() as secret:
        name = path.format(pid=os.getpid(), fd=secret.fileno(), secret=sandbox.secret, root=sandbox.root)
        try:
            reason = sandbox.reading(name, everything)
        except ResourceNotFound:
            pytest.skip(f"no {path} on this machine")
        assert reason
        assert sandbox.writing(name, everything)


def test_with_everything_as_root_plain_files_are_read_and_written(sandbox: Sandbox) -> None:
    with Roots(["/"]) as everything:
        assert everything.read_text(sandbox.root / "file") == "inside\n"
        everything.write_text(sandbox.root / "sub" / "new", "new")
    assert (sandbox.root / "sub" / "new").read_text() == "new"


@pytest.mark.fault("FSB-14")
@pytest.mark.timeout(20)
def test_a_file_that_is_not_regular_is_rejected_at_once(sandbox: Sandbox) -> None:
    os.mkfifo(sandbox.root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener, open_directory(sandbox.root) as short_name:
        listener.bind(f"{short_name}/socket")

        assert sandbox.refusal(sandbox.root / "fifo") == "a FIFO, not a text file"
        assert sandbox.refusal(sandbox.root / "socket") == "a socket, not a text file"
        assert sandbox.refusal(sandbox.root / "sub") == "a directory, not a text file"
        assert sandbox.refusal(sandbox.root) == "a directory, not a text file"
    with Roots(["/dev"]) as devices:
        assert sandbox.refusal("/dev/null", devices) == "a device, not a text file"
        assert sandbox.refusal("/dev/zero", devices) == "a device, not a text file"
        for path in Path("/dev").iterdir():
            if stat.S_ISBLK(path.lstat().st_mode):
                assert sandbox.refusal(path, devices) == "a device, not a text file"


@pytest.mark.fault("FSB-17")
def test_a_root_is_known_by_identity_however_its_path_is_written(sandbox: Sandbox) -> None:
    (sandbox.home / "alias").symlink_to(".")
    (sandbox.home / "ROOT").symlink_to("root")

    assert sandbox.roots.read_text(sandbox.home / "alias" / "root" / "file") == "inside\n"
    assert sandbox.roots.read_text(sandbox.home / "ROOT" / "file") == "inside\n"
    sandbox.roots.write_text(sandbox.home / "ROOT" / "new", "new")
    assert (sandbox.root / "new").read_text() == "new"
    assert sandbox.refusal(sandbox.home / "alias" / "outside" / "secret") == OUTSIDE


@pytest.mark.fault("FSB-17")
def test_composed_and_decomposed_letters_are_two_names_if_the_file_system_says_so(sandbox: Sandbox) -> None:
    sandbox.roots.write_text(sandbox.root / "\u00e9", "composed")
    sandbox.roots.write_text(sandbox.root / "e\u0301", "decomposed")

    for name in ("\u00e9", "e\u0301"):
        assert sandbox.roots.read_text(sandbox.root / name) == (sandbox.root / name).read_text()


@pytest.mark.fault("FSB-18")
@pytest.mark.parametrize(
    "name", ["dot.", "space ", " ", "%2e%2e", "%2e%2e%2foutside%2fsecret", "..outside", "...", "a\\..\\b", "\n", "\x1b"]
)
def test_odd_names_are_taken_as_they_are(sandbox: Sandbox, name: str) -> None:
    sandbox.roots.write_text(sandbox.root / name, "odd")

    assert (sandbox.root / name).read_text() == "odd"
    assert sandbox.roots.read_text(sandbox.root / name) == "odd"
    assert name in os.listdir(sandbox.root)


@pytest.mark.fault("FSB-18")
def test_a_slash_at_the_end_asks_for_a_directory(sandbox: Sandbox) -> None:
    assert sandbox.refusal(f"{sandbox.root}/file/") == "a part of the path is not a directory"
    assert sandbox.refusal(f"{sandbox.root}/file/.") == "a part of the path is not a directory"
    assert sandbox.refusal(f"{sandbox.root}/file/..") == "a part of the path is not a directory"
    assert sandbox.refusal(f"{sandbox.root}/sub//") == "a directory, not a text file"
    with pytest.raises(ResourceNotFound):
        sandbox.roots.write_text(f"{sandbox.root}/new/", "text")
    assert not (sandbox.root / "new").exists()


@pytest.mark.fault("FSB-19")
def test_over_long_paths_and_names_are_refused_with_the_reason(sandbox: Sandbox) -> None:
    assert "longer than 4095 bytes" in sandbox.refusal(f"{sandbox.root}/{'x' * 4096}")
    assert "longer than 4095 bytes" in sandbox.refusal(f"{sandbox.root}/{'x/' * 50_000}")
    assert "too long" in sandbox.refusal(f"{sandbox.root}/{'x' * 256}")
    assert "too many parts" in sandbox.writing(f"{sandbox.root}/{'x/' * 300}x")
    assert not (sandbox.root / "x").exists()


def test_only_places_that_are_not_protected_are_written_by_whatever_way(sandbox: Sandbox) -> None:
    (sandbox.root / ".git" / "hooks").mkdir(parents=True)
    (sandbox.root / "link").symlink_to(".git")
    protected = "this path is protected; writing it needs explicit permission"

    with Roots([sandbox.root], protected=[".git/hooks", ".git/config", ".bashrc"]) as roots:
        for path in (
            ".git/hooks/new",
            "link/hooks/new",
            "sub/../link/hooks/a/b",
            ".git/config",
            ".GIT/Config",
            ".bashrc",
        ):
            assert roots.is_protected(f"{sandbox.root}/{path}")
            with pytest.raises(InvalidParams, match=protected):
                roots.write_text(f"{sandbox.root}/{path}", "text")
        assert os.listdir(sandbox.root / ".git" / "hooks") == []
        assert not roots.is_protected(sandbox.root / ".git" / "description")
        roots.write_text(sandbox.root / ".git" / "description", "text")
        roots.write_text(sandbox.root / "link" / "hooks" / "new", "text", even_protected=True)
    assert (sandbox.root / ".git" / "hooks" / "new").read_text() == "text"


def test_a_path_that_was_resolved_is_opened_only_if_it_still_leads_there(sandbox: Sandbox) -> None:
    (sandbox.root / "link").symlink_to("sub")
    resolved = sandbox.roots.resolve(f"{sandbox.root}/link/../link/file")

    assert resolved == str(sandbox.root / "sub" / "file")
    assert sandbox.roots.resolve(sandbox.root / "link" / "new" / "file") == str(sandbox.root / "sub" / "new" / "file")
    assert sandbox.roots.read_text(resolved, is_resolved=True) == "inside sub\n"
    sandbox.roots.write_text(resolved, "judged", is_resolved=True)
    (sandbox.root / "sub").rename(sandbox.root / "moved")
    (sandbox.root / "sub").symlink_to("moved")
    for act in (
        lambda: sandbox.roots.read_text(resolved, is_resolved=True),
        lambda: sandbox.roots.write_text(resolved, "not judged", is_resolved=True),
    ):
        with pytest.raises(InvalidParams, match="leads elsewhere"):
            act()
    assert (sandbox.root / "moved" / "file").read_text() == "judged"


@pytest.mark.parametrize("path", ["relative", "/nowhere/at/all", "/dev/null", "/\0"])
def test_a_root_that_cannot_be_opened_is_refused_and_the_others_are_let_go(sandbox: Sandbox, path: str) -> None:
    with pytest.raises(InvalidParams):
        Roots([sandbox.root, path])


def test_nothing_is_read_or_written_once_the_roots_are_closed(sandbox: Sandbox) -> None:
    sandbox.roots.close()
    sandbox.roots.close()

    assert sandbox.refusal(sandbox.root / "file") == "the directories are closed"
