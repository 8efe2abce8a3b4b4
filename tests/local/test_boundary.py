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
from tests.local.sandbox import CANARY, Land


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
def test_two_dots_lead_nowhere_outside(land: Land, path: str) -> None:
    assert land.refusal(f"{land.root}/{path}") == OUTSIDE


@pytest.mark.fault("FSB-01")
def test_whether_something_is_outside_cannot_be_found_out_by_going_there_and_back(land: Land) -> None:
    (land.root / "link").symlink_to(land.outside)

    for path in (land.outside, land.root / "link", f"{land.root}/../outside"):
        assert land.refusal(f"{path}/../root/file") == OUTSIDE
        assert land.refusal(f"{path}/sub/../../root/file") == OUTSIDE
        assert land.refusal(f"{path}/missing/../../root/file") == OUTSIDE


def test_two_dots_inside_are_followed(land: Land) -> None:
    assert land.roots.read_text(f"{land.root}/sub/../file") == "inside\n"
    assert land.roots.read_text(f"{land.root}/../root/./sub//file") == "inside sub\n"


@pytest.mark.fault("FSB-02")
def test_a_sibling_that_shares_the_beginning_of_the_name_is_outside(land: Land) -> None:
    evil = land.home / "root-evil"
    evil.mkdir()
    (evil / "x").write_text(CANARY)

    assert land.refusal(evil / "x") == OUTSIDE
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
def test_a_path_that_is_not_absolute_is_rejected(land: Land, path: str, reason: str) -> None:
    assert land.refusal(path) == reason


@pytest.mark.fault("FSB-04")
@pytest.mark.parametrize("is_absolute", [True, False])
def test_a_link_to_a_file_outside_is_not_followed(land: Land, is_absolute: bool) -> None:
    (land.root / "link").symlink_to(land.secret if is_absolute else "../outside/secret")

    assert land.refusal(land.root / "link") == OUTSIDE
    with pytest.raises(InvalidParams):
        land.roots.exists(land.root / "link")
    with pytest.raises(InvalidParams):
        land.roots.stat(land.root / "link")


@pytest.mark.fault("FSB-05")
@pytest.mark.parametrize("is_absolute", [True, False])
def test_a_linked_directory_in_mid_path_is_not_followed_outside(land: Land, is_absolute: bool) -> None:
    (land.root / "link").symlink_to(land.outside if is_absolute else "../outside")

    assert land.refusal(land.root / "link" / "file") == OUTSIDE
    assert land.refusal(land.root / "link" / "sub" / "file") == OUTSIDE
    assert land.writing(land.root / "link" / "new" / "deep") == OUTSIDE


@pytest.mark.fault("FSB-06")
@pytest.mark.parametrize("target", ["../outside/new", "../outside/new/deep", "../nowhere/new", "/nowhere/new"])
def test_nothing_is_created_through_a_dangling_link_outwards(land: Land, target: str) -> None:
    (land.root / "link").symlink_to(target)

    assert land.refusal(land.root / "link") == OUTSIDE
    assert not (land.home / "nowhere").exists()


def test_a_dangling_link_inside_is_written_as_the_kernel_would(land: Land) -> None:
    (land.root / "link").symlink_to("sub/new")

    assert not land.roots.exists(land.root / "link")
    land.roots.write_text(land.root / "link", "text")

    assert (land.root / "sub" / "new").read_text() == "text"
    assert (land.root / "link").is_symlink()


@pytest.mark.fault("FSB-07")
@pytest.mark.parametrize(("links", "is_followed"), [(39, True), (40, True), (41, False), (500, False)])
def test_a_chain_of_links_is_followed_as_far_as_the_kernel_follows(land: Land, links: int, is_followed: bool) -> None:
    target = "file"
    for n in range(links):
        (land.root / f"link{n}").symlink_to(target)
        target = f"link{n}"

    if is_followed:
        assert (land.root / target).read_text() == "inside\n"
        assert land.roots.read_text(land.root / target) == "inside\n"
        land.roots.write_text(land.root / target, "new")
        assert (land.root / "file").read_text() == "new"
    else:
        assert "too many links" in land.refusal(land.root / target)


@pytest.mark.fault("FSB-07")
@pytest.mark.parametrize("target", ["loop", "sub/../loop", "{root}/loop", "./loop/x", "../root/loop"])
def test_a_link_to_itself_is_refused(land: Land, target: str) -> None:
    (land.root / "loop").symlink_to(target.format(root=land.root))

    assert "too many links" in land.refusal(land.root / "loop")
    assert "too many links" in land.refusal(land.root / "loop" / "x")


@pytest.mark.fault("FSB-08")
@pytest.mark.parametrize("target", ["sub", "./sub/", "../root/sub", "{root}/sub", "sub/../sub"])
def test_a_link_that_stays_inside_is_followed_as_the_kernel_does(land: Land, target: str) -> None:
    (land.root / "deep" / "deeper").mkdir(parents=True)
    (land.root / "sub" / "beside").write_text("beside")
    (land.root / "link").symlink_to(target.format(root=land.root))
    (land.root / "up").symlink_to("deep/deeper")
    (land.root / "deep" / "x").write_text("next to deeper, not next to the link")

    assert land.roots.read_text(land.root / "link" / "file") == "inside sub\n"
    assert land.roots.read_text(f"{land.root}/link/../file") == "inside\n"
    assert land.roots.read_text(f"{land.root}/up/../x") == "next to deeper, not next to the link"
    land.roots.write_text(f"{land.root}/link/../link/file", "new")
    assert (land.root / "sub" / "file").read_text() == "new"
    land.roots.write_text(f"{land.root}/up/../x", "new x")
    assert (land.root / "deep" / "x").read_text() == "new x"


def test_two_roots_are_one_world_also_across_links_and_two_dots(land: Land) -> None:
    other = land.home / "other"
    other.mkdir()
    (other / "file").write_text("other")
    (land.root / "absolute").symlink_to(other / "file")
    (land.root / "relative").symlink_to("../other/file")

    with Roots([land.root, other]) as both:
        for way in (other / "file", land.root / "absolute", land.root / "relative", f"{land.root}/../other/file"):
            assert both.read_text(way) == "other"
        both.write_text(f"{land.root}/sub/../../other/new", "made")
        assert land.refusal(f"{land.root}/../outside/secret", both) == OUTSIDE
        assert land.refusal(f"{other}/../root/../outside/secret", both) == OUTSIDE
    assert (other / "new").read_text() == "made"


def test_an_outer_root_contains_files_outside_an_inner_one(land: Land) -> None:
    with Roots([land.root / "sub", land.root]) as nested:
        assert nested.read_text(f"{land.root}/sub/../file") == "inside\n"
        assert land.refusal(f"{land.root}/sub/../../outside/secret", nested) == OUTSIDE


@pytest.mark.fault("FSB-09")
def test_a_root_that_is_a_link_can_be_named_by_the_link_and_by_its_target(land: Land) -> None:
    link = land.home / "link"
    link.symlink_to("root")

    with Roots([link]) as roots:
        assert roots.read_text(link / "file") == "inside\n"
        assert roots.read_text(land.root / "file") == "inside\n"
        assert land.refusal(f"{link}/../outside/secret", roots) == OUTSIDE


@pytest.mark.fault("FSB-09")
def test_a_root_stays_what_it_was_when_it_was_opened(land: Land) -> None:
    moved = land.home / "moved"
    land.root.rename(moved)
    land.root.symlink_to("outside")

    assert land.roots.read_text(land.root / "file") == "inside\n"
    land.roots.write_text(land.root / "file", "still inside")
    land.roots.write_text(land.root / "new" / "file", "new")

    assert (moved / "file").read_text() == "still inside"
    assert (moved / "new" / "file").read_text() == "new"


@pytest.mark.fault("FSB-12")
def test_a_hard_link_is_read_but_not_written(land: Land) -> None:
    os.link(land.secret, land.root / "hard")

    assert land.roots.read_text(land.root / "hard") == CANARY
    assert land.writing(land.root / "hard") == "the file has other names (hard links), which may be outside"


@pytest.mark.fault("FSB-12")
def test_a_hard_link_that_may_be_written_stays_one_file(land: Land) -> None:
    os.link(land.root / "file", land.root / "hard")

    with Roots([land.root], allow_hard_links=True) as roots:
        roots.write_text(land.root / "hard", "for both")

    assert (land.root / "file").read_text() == "for both"
    assert (land.root / "file").stat().st_nlink == 2


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
def test_doors_into_processes_are_no_files_even_if_everything_is_a_root(land: Land, path: str) -> None:
    (land.root / "link").symlink_to("/proc/self")
    with Roots(["/"]) as everything, land.secret.open() as secret:
        name = path.format(pid=os.getpid(), fd=secret.fileno(), secret=land.secret, root=land.root)
        try:
            reason = land.reading(name, everything)
        except ResourceNotFound:
            pytest.skip(f"no {path} on this machine")
        assert reason
        assert land.writing(name, everything)


def test_with_everything_as_root_plain_files_are_read_and_written(land: Land) -> None:
    with Roots(["/"]) as everything:
        assert everything.read_text(land.root / "file") == "inside\n"
        everything.write_text(land.root / "sub" / "new", "new")
    assert (land.root / "sub" / "new").read_text() == "new"


@pytest.mark.fault("FSB-14")
@pytest.mark.timeout(20)
def test_a_file_that_is_not_regular_is_rejected_at_once(land: Land) -> None:
    os.mkfifo(land.root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener, open_directory(land.root) as short_name:
        listener.bind(f"{short_name}/socket")

        assert land.refusal(land.root / "fifo") == "a FIFO, not a text file"
        assert land.refusal(land.root / "socket") == "a socket, not a text file"
        assert land.refusal(land.root / "sub") == "a directory, not a text file"
        assert land.refusal(land.root) == "a directory, not a text file"
    with Roots(["/dev"]) as devices:
        assert land.refusal("/dev/null", devices) == "a device, not a text file"
        assert land.refusal("/dev/zero", devices) == "a device, not a text file"
        for path in Path("/dev").iterdir():
            if stat.S_ISBLK(path.lstat().st_mode):
                assert land.refusal(path, devices) == "a device, not a text file"


@pytest.mark.fault("FSB-17")
def test_a_root_is_known_by_identity_however_its_path_is_written(land: Land) -> None:
    (land.home / "alias").symlink_to(".")
    (land.home / "ROOT").symlink_to("root")

    assert land.roots.read_text(land.home / "alias" / "root" / "file") == "inside\n"
    assert land.roots.read_text(land.home / "ROOT" / "file") == "inside\n"
    land.roots.write_text(land.home / "ROOT" / "new", "new")
    assert (land.root / "new").read_text() == "new"
    assert land.refusal(land.home / "alias" / "outside" / "secret") == OUTSIDE


@pytest.mark.fault("FSB-17")
def test_composed_and_decomposed_letters_are_two_names_if_the_file_system_says_so(land: Land) -> None:
    land.roots.write_text(land.root / "\u00e9", "composed")
    land.roots.write_text(land.root / "e\u0301", "decomposed")

    for name in ("\u00e9", "e\u0301"):
        assert land.roots.read_text(land.root / name) == (land.root / name).read_text()


@pytest.mark.fault("FSB-18")
@pytest.mark.parametrize(
    "name", ["dot.", "space ", " ", "%2e%2e", "%2e%2e%2foutside%2fsecret", "..outside", "...", "a\\..\\b", "\n", "\x1b"]
)
def test_odd_names_are_taken_as_they_are(land: Land, name: str) -> None:
    land.roots.write_text(land.root / name, "odd")

    assert (land.root / name).read_text() == "odd"
    assert land.roots.read_text(land.root / name) == "odd"
    assert name in os.listdir(land.root)


@pytest.mark.fault("FSB-18")
def test_a_slash_at_the_end_asks_for_a_directory(land: Land) -> None:
    assert land.refusal(f"{land.root}/file/") == "a part of the path is not a directory"
    assert land.refusal(f"{land.root}/file/.") == "a part of the path is not a directory"
    assert land.refusal(f"{land.root}/file/..") == "a part of the path is not a directory"
    assert land.refusal(f"{land.root}/sub//") == "a directory, not a text file"
    with pytest.raises(ResourceNotFound):
        land.roots.write_text(f"{land.root}/new/", "text")
    assert not (land.root / "new").exists()


@pytest.mark.fault("FSB-19")
def test_over_long_paths_and_names_are_refused_with_the_reason(land: Land) -> None:
    assert "longer than 4095 bytes" in land.refusal(f"{land.root}/{'x' * 4096}")
    assert "longer than 4095 bytes" in land.refusal(f"{land.root}/{'x/' * 50_000}")
    assert "too long" in land.refusal(f"{land.root}/{'x' * 256}")
    assert "too many parts" in land.writing(f"{land.root}/{'x/' * 300}x")
    assert not (land.root / "x").exists()


def test_only_places_that_are_not_protected_are_written_by_whatever_way(land: Land) -> None:
    (land.root / ".git" / "hooks").mkdir(parents=True)
    (land.root / "link").symlink_to(".git")
    protected = "this path is protected; writing it needs explicit permission"

    with Roots([land.root], protected=[".git/hooks", ".git/config", ".bashrc"]) as roots:
        for path in (
            ".git/hooks/new",
            "link/hooks/new",
            "sub/../link/hooks/a/b",
            ".git/config",
            ".GIT/Config",
            ".bashrc",
        ):
            assert roots.is_protected(f"{land.root}/{path}")
            with pytest.raises(InvalidParams, match=protected):
                roots.write_text(f"{land.root}/{path}", "text")
        assert os.listdir(land.root / ".git" / "hooks") == []
        assert not roots.is_protected(land.root / ".git" / "description")
        roots.write_text(land.root / ".git" / "description", "text")
        roots.write_text(land.root / "link" / "hooks" / "new", "text", even_protected=True)
    assert (land.root / ".git" / "hooks" / "new").read_text() == "text"


def test_a_path_that_was_resolved_is_opened_only_if_it_still_leads_there(land: Land) -> None:
    (land.root / "link").symlink_to("sub")
    resolved = land.roots.resolve(f"{land.root}/link/../link/file")

    assert resolved == str(land.root / "sub" / "file")
    assert land.roots.resolve(land.root / "link" / "new" / "file") == str(land.root / "sub" / "new" / "file")
    assert land.roots.read_text(resolved, is_resolved=True) == "inside sub\n"
    land.roots.write_text(resolved, "judged", is_resolved=True)
    (land.root / "sub").rename(land.root / "moved")
    (land.root / "sub").symlink_to("moved")
    for act in (
        lambda: land.roots.read_text(resolved, is_resolved=True),
        lambda: land.roots.write_text(resolved, "not judged", is_resolved=True),
    ):
        with pytest.raises(InvalidParams, match="leads elsewhere"):
            act()
    assert (land.root / "moved" / "file").read_text() == "judged"


@pytest.mark.parametrize("path", ["relative", "/nowhere/at/all", "/dev/null", "/\0"])
def test_a_root_that_cannot_be_opened_is_refused_and_the_others_are_let_go(land: Land, path: str) -> None:
    with pytest.raises(InvalidParams):
        Roots([land.root, path])


def test_nothing_is_read_or_written_once_the_roots_are_closed(land: Land) -> None:
    land.roots.close()
    land.roots.close()

    assert land.refusal(land.root / "file") == "the directories are closed"
