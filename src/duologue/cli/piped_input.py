"""Read what is piped into a command, as in `git diff | duologue run "review this"`, and never wait for a silent pipe.

A terminal and `/dev/null` are not read. A pipe is read to its end. One that stays silent is read only if a process of a
pipeline can still write to it: under a service or a CI runner, which passes its own stdin on, nothing will arrive.
"""

from __future__ import annotations

import os
import re
import select
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path

from duologue.cli.exit_codes import UsageError

MOST_BYTES = 8 * 1024 * 1024
"""More than any model reads at once; files can be attached with `--file`."""
NOTICE_SECONDS = 2.0
MOST_SECONDS = 600.0
"""Wait for the end of a pipe this long unless `--timeout` says otherwise."""


def read_piped(*, has_prompt: bool, seconds: float | None = None) -> bytes:
    """Return what is piped into stdin or redirected to it; nothing for a terminal, `/dev/null`, or a silent pipe.

    Args:
        has_prompt: There is another prompt, so that nothing may be piped.
        seconds: How long to wait for the end of a pipe.

    Raises:
        UsageError: It is too long.
        TimeoutError: The pipe was not closed in time.
        OSError: It cannot be read.
    """
    descriptor = _stdin()
    mode = 0 if descriptor is None else os.fstat(descriptor).st_mode
    if descriptor is None or not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return b""
    if stat.S_ISREG(mode) and has_prompt and os.lseek(descriptor, 0, os.SEEK_CUR) > 0:
        return b""  # a loop of the shell reads this file line by line: the rest of it is not meant for us
    return _read_to_end(descriptor, has_prompt=has_prompt, seconds=seconds or MOST_SECONDS)


def _stdin() -> int | None:
    try:
        return None if sys.stdin is None else sys.stdin.fileno()
    except (OSError, ValueError):
        return None


def _read_to_end(descriptor: int, *, has_prompt: bool, seconds: float) -> bytes:
    began, is_noticed = time.monotonic(), False
    data = bytearray()
    while True:
        left = began + (seconds if is_noticed else min(NOTICE_SECONDS, seconds)) - time.monotonic()
        if left > 0 and select.select([descriptor], [], [], left)[0]:
            piece = os.read(descriptor, 1 << 16)
            data += piece
            if not piece:
                return bytes(data)
            if len(data) > MOST_BYTES:
                raise UsageError(f"stdin has more than {MOST_BYTES:,} bytes; save it and attach it with --file")
        elif is_noticed or seconds <= NOTICE_SECONDS:
            raise TimeoutError(f"stdin was not closed within {seconds:g} s; add `< /dev/null` to run without it")
        elif has_prompt and not data and not _has_writer_in_pipeline(descriptor):
            sys.stderr.write("nothing arrives on stdin: running without it; `< /dev/null` avoids the wait\n")
            return b""
        elif not is_noticed:
            sys.stderr.write("waiting for the end of stdin; `< /dev/null` runs without it\n")
            sys.stderr.flush()
            is_noticed = True


def _has_writer_in_pipeline(descriptor: int) -> bool:
    """Return True if a process other than our ancestors may write to this pipe, as the left side of a `|` does.

    An ancestor that keeps a pipe open without writing has passed on its own stdin. Without `/proc` this is not known.
    """
    try:
        pipe = Path(f"/proc/self/fd/{descriptor}").readlink()
        others = {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()} - _ancestors()
    except OSError:
        return True
    return any(_may_write(pid, pipe) for pid in others)


def _ancestors() -> set[int]:
    """Return the ids of this process, its parent, and so on."""
    found, pid = set[int](), os.getpid()
    while pid and pid not in found:
        found.add(pid)
        pid = _number(Path(f"/proc/{pid}/status"), "PPid", 10)
    return found


def _may_write(pid: int, pipe: Path) -> bool:
    """Return True if a process has this pipe open for writing, or cannot be examined and belongs to our pipeline."""
    files = Path(f"/proc/{pid}/fd")
    try:
        same = [file.name for file in files.iterdir() if file.readlink() == pipe]
    except PermissionError:  # it belongs to another user: `sudo dmesg | duologue run ...`
        with suppress(OSError):
            return os.getpgid(pid) == os.getpgrp()
        return False
    except OSError:
        return False
    return any(_number(files.with_name("fdinfo") / name, "flags", 8) & (os.O_WRONLY | os.O_RDWR) for name in same)


def _number(file: Path, name: str, base: int) -> int:
    """Return a number in a file of `/proc`; 0 if it is not there."""
    with suppress(OSError):
        found = re.search(rf"^{name}:\s*(\d+)", file.read_text(errors="replace"), re.MULTILINE)
        return int(found[1], base) if found else 0
    return 0
