"""Hostile archives are refused with a reason, and leave nothing outside of their directory."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from duologue.registry.archive import ArchiveLimits, ArchiveRejected, extract

SMALL = ArchiveLimits(bytes=1 << 20, members=50, ratio=20, free_bytes=1 << 16)

Entry = tuple[str, bytes | str, int]
"""Name, content (bytes of a file, or the type and target of something else), mode."""


def tar(*entries: tarfile.TarInfo | tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for entry in entries:
            member, content = entry if isinstance(entry, tuple) else (entry, b"")
            member.size = len(content) if member.isreg() else 0
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def member(name: str, type_: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o755) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = type_, link, mode
    return info


def tgz(*entries: tarfile.TarInfo | tuple[tarfile.TarInfo, bytes]) -> bytes:
    return gzip.compress(tar(*entries))


def zipped(*entries: tuple[str, bytes, int]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in entries:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return buffer.getvalue()


def with_declared_size(data: bytes, size: int) -> bytes:
    """Return a zip file whose directory claims another size for its only entry."""
    changed = bytearray(data)
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = changed.index(signature) + offset
        changed[at : at + 4] = size.to_bytes(4, "little")
    return bytes(changed)


LINK = stat.S_IFLNK | 0o777
FILE = stat.S_IFREG | 0o644
GOOD = (member("agent"), b"#!/bin/sh\n")
ZEROS = bytes(1 << 20)
NOISE = random.Random(1).randbytes(1 << 21)

HOSTILE: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "tar_parent": ("a.tgz", lambda: tgz((member("../evil"), b"x")), "not a safe relative path"),
    "tar_deep_parent": ("a.tgz", lambda: tgz((member("a/../../evil"), b"x")), "not a safe relative path"),
    "tar_absolute": ("a.tgz", lambda: tgz((member("/tmp/evil"), b"x")), "not a safe relative path"),
    "tar_backslash": ("a.tgz", lambda: tgz((member("..\\evil"), b"x")), "not a safe relative path"),
    "tar_drive": ("a.tgz", lambda: tgz((member("C:evil"), b"x")), "not a safe relative path"),
    "tar_newline": ("a.tgz", lambda: tgz((member("a\nb"), b"x")), "not a safe relative path"),
    "tar_escape_sequence": ("a.tgz", lambda: tgz((member("a\x1b[2Jb"), b"x")), "not a safe relative path"),
    "tar_empty_name": ("a.tgz", lambda: tgz((member(""), b"x")), "not a safe relative path"),
    "tar_dot": ("a.tgz", lambda: tgz((member("."), b"x")), "two entries"),
    "tar_long_name": ("a.tgz", lambda: tgz((member("n" * 300), b"x")), "not a safe relative path"),
    "tar_very_long_path": ("a.tgz", lambda: tgz((member("d/" * 2500 + "x"), b"x")), "not a safe relative path"),
    "tar_absolute_link": ("a.tgz", lambda: tgz(GOOD, member("l", tarfile.SYMTYPE, "/etc/passwd")), "leads outside"),
    "tar_parent_link": ("a.tgz", lambda: tgz(GOOD, member("l", tarfile.SYMTYPE, "../x")), "leads outside"),
    "tar_deep_parent_link": ("a.tgz", lambda: tgz(GOOD, member("d/l", tarfile.SYMTYPE, "../../x")), "leads outside"),
    "tar_empty_link": ("a.tgz", lambda: tgz(GOOD, member("l", tarfile.SYMTYPE, "")), "leads outside"),
    "tar_link_through_link": (
        "a.tgz",
        lambda: tgz(member("d/e", tarfile.SYMTYPE, "."), member("l", tarfile.SYMTYPE, "d/e/../../..")),
        "leads outside",
    ),
    "tar_link_through_link_that_looks_inside": (
        "a.tgz",
        lambda: tgz(GOOD, member("d/e", tarfile.SYMTYPE, ".."), member("l", tarfile.SYMTYPE, "d/e/..")),
        "leads outside",
    ),
    "tar_link_that_leaves_and_returns": (
        "a.tgz",
        lambda: tgz(GOOD, member("l", tarfile.SYMTYPE, "../agent/agent")),
        "leads outside",
    ),
    "tar_write_through_link": (
        "a.tgz",
        lambda: tgz(member("l", tarfile.SYMTYPE, "d"), (member("l/x"), b"x")),
        "a file and a directory of one name",
    ),
    "tar_hard_link": ("a.tgz", lambda: tgz(GOOD, member("h", tarfile.LNKTYPE, "/etc/passwd")), "neither a file"),
    "tar_hard_link_inside": ("a.tgz", lambda: tgz(GOOD, member("h", tarfile.LNKTYPE, "agent")), "neither a file"),
    "tar_character_device": ("a.tgz", lambda: tgz(GOOD, member("c", tarfile.CHRTYPE)), "neither a file"),
    "tar_block_device": ("a.tgz", lambda: tgz(GOOD, member("b", tarfile.BLKTYPE)), "neither a file"),
    "tar_fifo": ("a.tgz", lambda: tgz(GOOD, member("f", tarfile.FIFOTYPE)), "neither a file"),
    "tar_same_name_twice": ("a.tgz", lambda: tgz(GOOD, GOOD), "two entries"),
    "tar_same_name_in_another_case": ("a.tgz", lambda: tgz(GOOD, (member("AGENT"), b"x")), "two entries"),
    "tar_too_many": ("a.tgz", lambda: tgz(*((member(f"f{n}"), b"") for n in range(60))), "more than 50 entries"),
    "tar_bomb": ("a.tgz", lambda: tgz((member("zeros"), ZEROS)), "it may be a bomb"),
    "tar_too_large": ("a.tgz", lambda: tgz((member("noise"), NOISE)), "more than 1,048,576 bytes"),
    "tar_bz2_bomb": ("a.tar.bz2", lambda: bz2.compress(tar((member("zeros"), ZEROS))), "it may be a bomb"),
    "tar_xz_bomb": ("a.tar.xz", lambda: lzma.compress(tar((member("zeros"), ZEROS))), "it may be a bomb"),
    "tar_truncated": ("a.tgz", lambda: tgz((member("noise"), NOISE[:9999]))[:5000], "is damaged"),
    "tar_garbage": ("a.tgz", lambda: b"not an archive", "is damaged"),
    "tar_empty": ("a.tgz", lambda: b"", "is damaged"),
    "tar_bad_checksum": ("a.tar.gz", lambda: tgz(GOOD)[:-8] + bytes(8), "is damaged"),
    "zip_parent": ("a.zip", lambda: zipped(("../evil", b"x", FILE)), "not a safe relative path"),
    "zip_absolute": ("a.zip", lambda: zipped(("/tmp/evil", b"x", FILE)), "not a safe relative path"),
    "zip_backslash": ("a.zip", lambda: zipped(("a\\..\\..\\evil", b"x", FILE)), "not a safe relative path"),
    "zip_link": ("a.zip", lambda: zipped(("l", b"/etc/passwd", LINK)), "leads outside"),
    "zip_long_link": ("a.zip", lambda: zipped(("l", b"a" * 5000, LINK)), "leads outside"),
    "zip_link_not_utf8": ("a.zip", lambda: zipped(("l", b"\xff\xfe", LINK)), "is damaged"),
    "zip_fifo": ("a.zip", lambda: zipped(("f", b"", stat.S_IFIFO | 0o644)), "neither a file"),
    "zip_device": ("a.zip", lambda: zipped(("c", b"", stat.S_IFCHR | 0o644)), "neither a file"),
    "zip_same_name_twice": ("a.zip", lambda: zipped(("x", b"1", FILE), ("X", b"2", FILE)), "two entries"),
    "zip_bomb": ("a.zip", lambda: zipped(("zeros", ZEROS, FILE)), "it may be a bomb"),
    "zip_bomb_with_a_false_size": (
        "a.zip",
        lambda: with_declared_size(zipped(("zeros", ZEROS, FILE)), 10),
        "is damaged",
    ),
    "zip_too_many": ("a.zip", lambda: zipped(*((f"f{n}", b"", FILE) for n in range(60))), "more than 50 entries"),
    "zip_truncated": ("a.zip", lambda: zipped(("noise", NOISE[:9999], FILE))[:5000], "is damaged"),
    "zip_garbage": ("a.zip", lambda: b"PK\x05\x06 but no archive", "is damaged"),
    "file_and_directory_of_one_name": (
        "a.tgz",
        lambda: tgz((member("x"), b"x"), (member("x/y"), b"y")),
        "a file and a directory of one name",
    ),
    "plain_program_too_large": ("agent", lambda: NOISE, "more than 1,048,576 bytes"),
    "installer_deb": ("a.deb", lambda: b"!<arch>", "is an installer"),
    "installer_dmg": ("a.dmg", lambda: b"koly", "is an installer"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused_by_name_and_writes_nothing_outside(tmp_path: Path, name: str) -> None:
    file_name, make, reason = HOSTILE[name]
    archive, directory = tmp_path / file_name, tmp_path / "deep" / "agent"
    directory.mkdir(parents=True)
    archive.write_bytes(make())

    with pytest.raises(ArchiveRejected) as caught:
        extract(archive, directory, "./agent", SMALL)

    assert reason in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == sorted([archive, tmp_path / "deep"])
    assert list((tmp_path / "deep").iterdir()) == [directory]


def test_there_are_at_least_forty_hostile_archives() -> None:
    assert len(HOSTILE) >= 40


@pytest.mark.parametrize("suffix", ["tar.gz", "tgz", "tar.bz2", "tbz2", "tar.xz", "zip"])
def test_files_directories_links_and_modes_are_extracted(tmp_path: Path, suffix: str) -> None:
    if suffix == "zip":
        data = zipped(("bin/", b"", stat.S_IFDIR | 0o700), ("bin/agent", b"run", stat.S_IFREG | 0o4755),
                      ("doc/readme", b"read", FILE), ("agent", b"bin/agent", LINK))  # fmt: skip
    else:
        plain = tar(
            member("./bin", tarfile.DIRTYPE),
            (member("./bin/agent", mode=0o4755), b"run"),
            (member("doc/readme", mode=0o666), b"read"),
            member("agent", tarfile.SYMTYPE, "bin/agent"),
        )
        packers: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
        data = packers[suffix.replace("tgz", "gz").replace("tbz2", "bz2").removeprefix("tar.")](plain)
    archive, directory = tmp_path / f"a.{suffix}", tmp_path / "agent"
    directory.mkdir()
    archive.write_bytes(data)

    extract(archive, directory, "./bin/agent")

    assert (directory / "agent").read_bytes() == b"run"
    assert stat.S_IMODE((directory / "bin/agent").stat().st_mode) == 0o755
    assert stat.S_IMODE((directory / "doc/readme").stat().st_mode) == 0o644
    assert (directory / "agent").is_symlink()


def test_a_file_that_is_no_archive_becomes_the_program_itself(tmp_path: Path) -> None:
    archive, directory = tmp_path / "agent-linux-x86_64", tmp_path / "agent"
    directory.mkdir()
    archive.write_bytes(b"\x7fELF")

    extract(archive, directory, "./bin/agent")

    assert (directory / "bin/agent").read_bytes() == b"\x7fELF"
    assert stat.S_IMODE((directory / "bin/agent").stat().st_mode) == 0o755
