"""A process that swaps two names for each other as fast as it can: `python -m tests.local.swapper ONE OTHER`."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

AT_FDCWD = -100
RENAME_EXCHANGE = 2


@contextmanager
def swapping(one: Path, other: Path) -> Generator[None]:
    """Swap them, atomically each time, until the block is left."""
    swapper = subprocess.Popen([sys.executable, "-m", __name__, str(one), str(other)], stdout=subprocess.PIPE)
    assert swapper.stdout is not None
    try:
        assert swapper.stdout.readline() == b"swapping\n"
        yield
        assert swapper.poll() is None
    finally:
        swapper.kill()
        swapper.wait()
        swapper.stdout.close()


def main(one: str, other: str) -> None:
    exchange = ctypes.CDLL(None, use_errno=True).renameat2
    names = AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE
    if exchange(*names) != 0:
        raise OSError(ctypes.get_errno(), "cannot exchange")
    print("swapping", flush=True)
    while exchange(*names) == 0:
        pass


if __name__ == "__main__":
    main(*sys.argv[1:])
