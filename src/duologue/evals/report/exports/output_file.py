"""Write a file for its owner only, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from duologue.private_files import FILE_MODE, make_private_directory


@contextmanager
def replaced_file(path: Path) -> Generator[BinaryIO]:
    """Open a new file that replaces one at this path when the block ends without an error; make its directory.

    Raises:
        OSError: It cannot be written.
    """
    make_private_directory(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
