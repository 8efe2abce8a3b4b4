"""Reads return exactly the file's text, writes store exactly the given text, and neither is ever partial."""

from __future__ import annotations

import errno
import os
import random
import resource
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from duologue.errors import InternalError, InvalidParams, RequestError, ResourceNotFound
from duologue.local.files import Roots
from tests.local.sandbox import Sandbox
from tests.transports.programs import python

LINES = "one\ntwo\nthree\nfour\nfive"


@pytest.mark.fault("FSC-01")
@pytest.mark.rule(102)
@pytest.mark.parametrize(
    ("line", "limit", "text"),
    [
        (None, None, LINES),
        (0, None, LINES),
        (1, None, LINES),
        (2, 2, "two\nthree\n"),
        (5, None, "five"),
        (5, 1, "five"),
        (6, None, ""),
        (6, 1, ""),
        (2**63, None, ""),
        (2**63, 2**63, ""),
        (None, 0, ""),
        (3, 0, ""),
        (None, 2, "one\ntwo\n"),
        (4, 2**63, "four\nfive"),
        (1, 5, LINES),
    ],
)
def test_lines_are_counted_from_one(sandbox: Sandbox, line: int | None, limit: int | None, text: str) -> None:
    (sandbox.root / "lines").write_text(LINES)

    assert sandbox.roots.read_text(sandbox.root / "lines", line=line, limit=limit) == text


@pytest.mark.fault("FSC-01")
def test_lines_cannot_be_counted_backwards(sandbox: Sandbox) -> None:
    for line, limit in ((-1, None), (None, -1), (-(2**63), -1)):
        with pytest.raises(InvalidParams, match="must not be negative"):
            sandbox.roots.read_text(sandbox.root / "file", line=line, limit=limit)


def test_lines_that_reach_over_many_blocks_are_found(sandbox: Sandbox) -> None:
    lines = [f"{n} {'é' * (n % 97)}\n" for n in range(20_000)]
    (sandbox.root / "long").write_text("".join(lines))

    random.seed(7)
    for _ in range(50):
        line, limit = random.randint(1, 20_100), random.choice([0, 1, 2, 5_000, 30_000])
        assert sandbox.roots.read_text(sandbox.root / "long", line=line, limit=limit) == "".join(
            lines[line - 1 : line - 1 + limit]
        )


@pytest.mark.fault("FSC-02")
def test_a_file_over_the_limit_is_refused_but_some_of_its_lines_can_be_read(sandbox: Sandbox) -> None:
    (sandbox.root / "big").write_text("line\n" * 1000)

    with Roots([sandbox.root], max_read_bytes=100) as roots:
        with pytest.raises(InvalidParams, match="longer than the limit of 100 bytes"):
            roots.read_text(sandbox.root / "big")
        with pytest.raises(InvalidParams, match="longer than the limit of 100 bytes"):
            roots.read_text(sandbox.root / "big", line=2)
        with pytest.raises(InvalidParams, match="longer than the limit of 100 bytes"):
            roots.read_text(sandbox.root / "big", limit=21)
        assert roots.read_text(sandbox.root / "big", limit=20) == "line\n" * 20
        assert roots.read_text(sandbox.root / "big", line=981) == "line\n" * 20
        (sandbox.root / "big").write_text("x" * 100)
        assert roots.read_text(sandbox.root / "big") == "x" * 100


@pytest.mark.fault("FSC-03")
@pytest.mark.timeout(20)
def test_a_sparse_file_of_a_tebibyte_is_refused_without_reading_it(sandbox: Sandbox) -> None:
    with (sandbox.root / "sparse").open("wb") as file:
        file.truncate(2**40)

    assert sandbox.reading(sandbox.root / "sparse").startswith("longer than the limit of 16777216 bytes")
    for line, limit in ((1, 1), (2, None), (2**40, 1)):
        with pytest.raises(InvalidParams, match="not UTF-8 text"):
            sandbox.roots.read_text(sandbox.root / "sparse", line=line, limit=limit)


@pytest.mark.fault("FSC-04")
def test_one_endless_line_costs_no_more_than_the_limit(
    sandbox: Sandbox, chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    mebibytes = min(64 * chaos_factor, 1024)
    record_property("count", f"{mebibytes} MiB")
    with (sandbox.root / "endless").open("wb") as file:
        for _ in range(mebibytes):
            file.write(b"x" * 2**20)

    with Roots([sandbox.root], max_read_bytes=2**20) as roots:
        tracemalloc.start()
        try:
            with pytest.raises(InvalidParams, match="longer than the limit of 1048576 bytes"):
                roots.read_text(sandbox.root / "endless", limit=1)
            assert roots.read_text(sandbox.root / "endless", line=2, limit=1) == ""
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 4 * 2**20


@pytest.mark.fault("FSC-05")
@pytest.mark.parametrize(
    "content",
    [
        b"\x7fELF\x02\x01\x01\x00\x00",
        b"text with a \x00 in it",
        "Straße".encode("latin-1"),
        "text".encode("utf-16"),
        "text".encode("utf-16-le"),
        "text".encode("utf-32"),
        b"\xed\xa0\x80",
        b"\xc0\xaf",
        b"cut \xf0\x9f\x98",
        b"\xff",
    ],
)
def test_reading_a_file_that_is_not_utf8_is_an_error(sandbox: Sandbox, content: bytes) -> None:
    (sandbox.root / "odd").write_bytes(content)

    assert sandbox.reading(sandbox.root / "odd") == "not UTF-8 text"
    with pytest.raises(InvalidParams, match="not UTF-8 text"):
        sandbox.roots.read_text(sandbox.root / "odd", line=1, limit=1)


@pytest.mark.fault("FSC-05")
def test_half_a_character_is_not_written(sandbox: Sandbox) -> None:
    with pytest.raises(InvalidParams, match="lone surrogate"):
        sandbox.roots.write_text(sandbox.root / "file", "\ud83d")

    assert (sandbox.root / "file").read_text() == "inside\n"


@pytest.mark.fault("FSC-06")
@pytest.mark.parametrize(
    "content",
    [
        "\ufefftext\n".encode(),
        b"unix\nwindows\r\nmac\rno end",
        b"\r\n\r\n\n\r",
        b"no final newline",
        b"\n",
        b"",
        "\u2028\u2029\x85\x0b\x0c\x1c 😀\n".encode(),
        b"escape \x1b[31m bell \x07\n",
    ],
)
def test_text_is_read_and_written_back_without_change(sandbox: Sandbox, content: bytes) -> None:
    (sandbox.root / "text").write_bytes(content)

    text = sandbox.roots.read_text(sandbox.root / "text")
    sandbox.roots.write_text(sandbox.root / "copy", text)

    assert (sandbox.root / "copy").read_bytes() == content
    lines = [sandbox.roots.read_text(sandbox.root / "text", line=n, limit=1) for n in range(1, 10)]
    assert "".join(lines).encode() == content


REWRITER = python(
    """
    import os, sys
    contents = [b"a" * 700_000, b"b" * 500_000]
    fd = os.open(sys.argv[1], os.O_RDWR)
    print("ready", flush=True)
    for n, _ in enumerate(sys.stdin):
        os.ftruncate(fd, 0)
        os.pwrite(fd, contents[n % 2], 0)
        print("done", flush=True)
    """
)


@pytest.mark.fault("FSC-07")
def test_a_file_that_changes_while_it_is_read_gives_one_of_its_texts(sandbox: Sandbox, chaos_factor: int) -> None:
    path = sandbox.root / "changing"
    path.write_text("b" * 500_000)
    with subprocess.Popen([*REWRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        for _ in range(100 * chaos_factor):
            writer.stdin.write("\n")
            writer.stdin.flush()
            assert len(set(sandbox.roots.read_text(path))) <= 1
            assert writer.stdout.readline() == "done\n"
        writer.stdin.close()


GROWER = python(
    """
    import sys
    with open(sys.argv[1], "a", buffering=1) as file:
        for _ in range(100_000):
            file.write("é\\n")
    """
)


@pytest.mark.fault("FSC-07")
@pytest.mark.timeout(60)
def test_a_file_that_does_nothing_but_grow_is_read_as_far_as_it_is(sandbox: Sandbox) -> None:
    path = sandbox.root / "log"
    path.write_text("")
    with subprocess.Popen([*GROWER, str(path)]) as grower:
        try:
            length = 0
            while length < 200_000:
                text = sandbox.roots.read_text(path)
                assert ("é\n" * (len(text) // 2 + 1)).startswith(text)  # whole characters, and nothing else
                assert len(text) >= length
                length = len(text)
        finally:
            grower.kill()


@pytest.mark.fault("FSC-08")
@pytest.mark.rule(101)
def test_missing_directories_are_made_inside_the_root(sandbox: Sandbox) -> None:
    (sandbox.root / "link").symlink_to("sub")

    sandbox.roots.write_text(sandbox.root / "a" / "b" / "c", "deep")
    sandbox.roots.write_text(f"{sandbox.root}/./link/new//deep", "through a link")

    assert (sandbox.root / "a" / "b" / "c").read_text() == "deep"
    assert (sandbox.root / "sub" / "new" / "deep").read_text() == "through a link"
    with pytest.raises(ResourceNotFound):
        sandbox.roots.write_text(f"{sandbox.root}/missing/../x", "text")
    assert not (sandbox.root / "missing").exists()


@pytest.mark.fault("FSC-08")
def test_a_file_where_a_directory_is_needed_is_refused(sandbox: Sandbox) -> None:
    assert sandbox.refusal(sandbox.root / "file" / "x" / "y") == "a part of the path is not a directory"


FOREVER = python(
    """
    import sys
    from duologue.local.files import Roots

    texts = ["a" * 2_000_000, "b" * 3_000_000]
    with Roots([sys.argv[1]]) as roots:
        n = 0
        while True:
            roots.write_text(sys.argv[1] + "/file", texts[n % 2])
            n += 1
            print(n, flush=True)
    """
)


@pytest.mark.fault("FSC-09")
def test_a_writer_killed_in_the_midst_leaves_the_old_text_or_the_new(
    sandbox: Sandbox, chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    rounds = 5 * chaos_factor
    record_property("count", rounds)
    (sandbox.root / "file").write_text("a" * 2_000_000)
    for n in range(rounds):
        with subprocess.Popen([*FOREVER, str(sandbox.root)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            for _ in range(1 + n % 3):
                writer.stdout.readline()
            writer.kill()
        text = (sandbox.root / "file").read_text()
        assert (text[0], len(text), len(set(text))) in (("a", 2_000_000, 1), ("b", 3_000_000, 1))


@pytest.mark.fault("FSC-09")
def test_a_write_that_finds_no_room_leaves_the_old_text_and_nothing_else(sandbox: Sandbox) -> None:
    before = sorted(os.listdir(sandbox.root))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, hard))
    try:
        with pytest.raises(InternalError, match="too large"):
            sandbox.roots.write_text(sandbox.root / "file", "x" * 2**21)
        with pytest.raises(InternalError, match="too large"):
            sandbox.roots.write_text(sandbox.root / "new", "x" * 2**21)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert (sandbox.root / "file").read_text() == "inside\n"
    assert sorted(os.listdir(sandbox.root)) == before


@pytest.mark.fault("FSC-10")
@pytest.mark.parametrize("mode", [0o755, 0o600, 0o640, 0o4755, 0o666])
def test_mode_and_owner_survive_a_write(sandbox: Sandbox, mode: int) -> None:
    path = sandbox.root / "file"
    if os.geteuid() == 0:
        os.chown(path, 65534, 12345)
    path.chmod(mode)
    before = path.stat()

    sandbox.roots.write_text(path, "new")

    after = path.stat()
    assert path.read_text() == "new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino


@pytest.mark.fault("FSC-10")
def test_attributes_survive_a_write(sandbox: Sandbox) -> None:
    path = sandbox.root / "file"
    try:
        os.setxattr(path, "user.origin", b"somewhere")
    except OSError:
        pytest.skip("the file system of the temporary directory has no attributes")

    sandbox.roots.write_text(path, "new")

    assert os.getxattr(path, "user.origin") == b"somewhere"


@pytest.mark.fault("FSC-10")
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0, 0o666)])
def test_a_new_file_gets_the_mode_that_the_umask_leaves(sandbox: Sandbox, umask: int, mode: int) -> None:
    previous = os.umask(umask)
    try:
        sandbox.roots.write_text(sandbox.root / "new" / "file", "text")
    finally:
        os.umask(previous)

    assert (sandbox.root / "new" / "file").stat().st_mode & 0o7777 == mode
    assert (sandbox.root / "new").stat().st_mode & 0o777 == 0o777 & ~umask


@pytest.mark.fault("FSC-10")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file that belongs to another user")
def test_a_file_of_another_owner_that_we_may_write_is_written_in_place(sandbox: Sandbox) -> None:
    path = sandbox.root / "file"
    path.chmod(0o666)
    before = path.stat()
    with sandbox.unprivileged(except_for=path):
        sandbox.roots.write_text(path, "by another user")

    after = path.stat()
    assert path.read_text() == "by another user"
    assert (after.st_ino, after.st_mode, after.st_uid) == (before.st_ino, before.st_mode, before.st_uid)
    assert sorted(os.listdir(sandbox.root)) == ["file", "sub"]


@pytest.mark.fault("FSC-11")
@pytest.mark.parametrize("allow_hard_links", [False, True])
def test_one_of_two_concurrent_writes_is_last_and_complete(sandbox: Sandbox, allow_hard_links: bool) -> None:
    path = sandbox.root / "file"
    texts = ["a" * 300_000, "b" * 200_000]
    if allow_hard_links:
        os.link(path, sandbox.root / "other name")
    with Roots([sandbox.root], allow_hard_links=allow_hard_links) as roots:

        def write_often(text: str) -> None:
            for _ in range(20):
                roots.write_text(path, text)

        writers = [threading.Thread(target=write_often, args=(text,)) for text in texts]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert roots.read_text(path) in texts


@pytest.mark.fault("FSC-11")
def test_two_writes_that_need_the_same_directories_both_succeed(sandbox: Sandbox) -> None:
    failures: list[BaseException] = []
    start = threading.Barrier(2)

    def write(name: str) -> None:
        try:
            for n in range(50):
                start.wait(10)
                sandbox.roots.write_text(sandbox.root / f"new{n}" / "deep" / "er" / name, name)
        except BaseException as error:
            failures.append(error)
            start.abort()

    writers = [threading.Thread(target=write, args=(name,)) for name in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert failures == []
    assert sorted(os.listdir(sandbox.root / "new49" / "deep" / "er")) == ["a", "b"]


@pytest.mark.fault("FSC-12")
def test_no_permission_is_said_and_no_other_path(sandbox: Sandbox) -> None:
    for name, mode in (("unreadable", 0o000), ("read-only", 0o444)):
        (sandbox.root / name).write_text("text")
        (sandbox.root / name).chmod(mode)
    (sandbox.root / "closed").mkdir()
    (sandbox.root / "closed" / "file").write_text("text")
    (sandbox.root / "closed").chmod(0o555)
    (sandbox.root / "hidden").mkdir(mode=0o000)
    try:
        with sandbox.unprivileged():
            assert sandbox.reading(sandbox.root / "unreadable") == "no permission"
            assert sandbox.writing(sandbox.root / "unreadable") == "no permission"
            assert sandbox.roots.read_text(sandbox.root / "read-only") == "text"
            assert sandbox.writing(sandbox.root / "read-only") == "no permission"
            assert sandbox.roots.read_text(sandbox.root / "closed" / "file") == "text"
            assert sandbox.writing(sandbox.root / "closed" / "file") == "no permission"
            assert sandbox.writing(sandbox.root / "closed" / "new") == "no permission"
            assert sandbox.writing(sandbox.root / "closed" / "new" / "deep") == "no permission"
            assert sandbox.refusal(sandbox.root / "hidden" / "file") == "no permission"
        assert (sandbox.root / "read-only").read_text() == "text"
        assert os.listdir(sandbox.root / "closed") == ["file"]
    finally:
        (sandbox.root / "closed").chmod(0o755)
        (sandbox.root / "hidden").chmod(0o755)


@pytest.mark.fault("FSC-13")
@pytest.mark.parametrize("text", ["inside\n", "", "x" * 16 * 2**20], ids=["the same", "nothing", "16 MiB"])
def test_the_same_no_and_much_text_is_written(sandbox: Sandbox, text: str) -> None:
    sandbox.roots.write_text(sandbox.root / "file", text)

    assert (sandbox.root / "file").read_text() == text
    assert sandbox.roots.read_text(sandbox.root / "file") == text


@pytest.mark.rule(104)
def test_a_missing_file_is_not_found_and_the_answer_names_it(sandbox: Sandbox) -> None:
    with pytest.raises(ResourceNotFound) as missing:
        sandbox.roots.read_text(sandbox.root / "no such file")

    assert missing.value.data == {"uri": f"file://{sandbox.root}/no%20such%20file"}
    assert missing.value.message == f"{str(sandbox.root / 'no such file')!r}: no such file"
    assert not sandbox.roots.exists(sandbox.root / "no such file")
    with pytest.raises(ResourceNotFound):
        sandbox.roots.stat(sandbox.root / "missing" / "file")


def test_a_missing_file_may_read_as_empty(sandbox: Sandbox) -> None:
    with Roots([sandbox.root], missing="empty") as roots:
        assert roots.read_text(sandbox.root / "missing") == ""
        assert roots.read_text(sandbox.root / "missing" / "deep", line=3) == ""
        assert sandbox.reading(sandbox.outside / "missing", roots) == "outside the directories that may be used"


def test_stat_tells_size_and_kind(sandbox: Sandbox) -> None:
    assert sandbox.roots.stat(sandbox.root / "file").st_size == len("inside\n")
    assert sandbox.roots.stat(sandbox.root / "sub").st_mode == (sandbox.root / "sub").stat().st_mode
    assert sandbox.roots.stat(sandbox.root).st_ino == sandbox.root.stat().st_ino
    assert sandbox.roots.exists(f"{sandbox.root}/")
    assert not sandbox.roots.exists(sandbox.root / "file" / "x")


def test_the_roots_are_let_go_only_when_the_last_thread_has_left(sandbox: Sandbox) -> None:
    """A number closed too early may mean another directory by the time it is used."""
    answers: set[str] = set()

    def read_until_closed(roots: Roots) -> None:
        try:
            while True:
                answers.add(roots.read_text(f"{sandbox.root}/sub/../sub/../file"))
        except RequestError as error:
            answers.add(error.message.rpartition(": ")[2])

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(100):
            roots = Roots([sandbox.root])
            readers = [threading.Thread(target=read_until_closed, args=(roots,)) for _ in range(3)]
            for reader in readers:
                reader.start()
            roots.read_text(sandbox.root / "file")
            roots.close()
            # Whatever is opened now takes the numbers that were let go.
            taken = [os.open(sandbox.outside, os.O_RDONLY) for _ in range(5)]
            for reader in readers:
                reader.join()
            for fd in taken:
                os.close(fd)
    finally:
        sys.setswitchinterval(interval)

    assert answers == {"inside\n", "the directories are closed"}


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> Syncs:
    """Record the files that are synced, with their content at that moment; a sync can be made to fail."""
    syncs = Syncs(os.fsync)
    monkeypatch.setattr(os, "fsync", syncs)
    return syncs


class Syncs(list[tuple[int, bytes]]):
    """The file (its inode) and its content, for each call."""

    def __init__(self, really: Callable[[int], None]) -> None:
        super().__init__()
        self.error: OSError | None = None
        self._really = really

    def __call__(self, descriptor: int) -> None:
        path = f"/proc/self/fd/{descriptor}"
        self.append((os.fstat(descriptor).st_ino, Path(path).read_bytes()))
        if self.error is not None:
            raise self.error
        self._really(descriptor)


@pytest.mark.fault("FSC-15")
@pytest.mark.parametrize("state", ["new", "replaced", "in place"])
def test_a_file_has_its_name_only_once_its_content_is_on_the_disk(sandbox: Sandbox, syncs: Syncs, state: str) -> None:
    """Promise: after a power cut there is the old content or the new one, and never an empty file."""
    path = sandbox.root / "written"
    if state != "new":
        path.write_text("old")
    if state == "in place":
        path.with_name("other name").hardlink_to(path)
    with Roots([sandbox.root], allow_hard_links=True) as roots:
        roots.write_text(path, "all of it")

    assert syncs == [(path.stat().st_ino, b"all of it")]


@pytest.mark.fault("FSC-15")
def test_content_that_did_not_reach_the_disk_takes_no_name(sandbox: Sandbox, syncs: Syncs) -> None:
    path = sandbox.root / "written"
    path.write_text("old")
    syncs.error = OSError(errno.EIO, "the disk failed")
    with pytest.raises(RequestError):
        sandbox.roots.write_text(path, "new")

    assert len(syncs) == 1
    assert path.read_text() == "old"
    assert [each.name for each in sandbox.root.iterdir() if each.name.startswith(".duologue-")] == []
