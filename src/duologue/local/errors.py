"""Why a file is not read or written, said about the path that was asked for and about no other."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from duologue.errors import InternalError, InvalidParams, RequestError, ResourceNotFound

__all__ = ["AccessDenied", "as_request_error", "quote_path", "refusal"]

MOST_SHOWN = 256
"""Characters of a path that an error repeats."""

REASONS = {
    errno.EXDEV: "outside the directories that may be used",
    errno.ENOTDIR: "a part of the path is not a directory",
    errno.EISDIR: "a directory, not a file with text",
    errno.ELOOP: "too many links, or a link that only the kernel can follow",
    errno.ENAMETOOLONG: "a part of the path is too long, or there are too many parts",
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.EROFS: "no permission: the file system is read-only",
    errno.ENXIO: "a FIFO, a socket or a device, not a file with text",
    errno.ETXTBSY: "a program that is running",
}
"""What each failure means to whoever asked; any other is trouble of this machine, not of the path."""


class AccessDenied(Exception):
    """A reason not to touch a file; becomes an `InvalidParams` that names the path."""


def refusal(number: int) -> OSError:
    """The error the kernel would give, of the class that Python has for it."""
    return OSError(number, os.strerror(number))


def quote_path(path: str | Path) -> str:
    """The path as an error repeats it."""
    text = os.fspath(path)
    return repr(text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…")


@contextmanager
def as_request_error(path: str | Path) -> Generator[None]:
    """Whatever goes wrong inside becomes an answer about this path."""
    try:
        yield
    except AccessDenied as error:
        raise InvalidParams(f"{quote_path(path)}: {error}") from error
    except OSError as error:
        raise _explain(path, error) from error


def _explain(path: str | Path, error: OSError) -> RequestError:
    if error.errno == errno.ENOENT:
        return ResourceNotFound(f"{quote_path(path)}: no such file", data={"uri": Path(path).as_uri()})
    if error.errno in REASONS:
        return InvalidParams(f"{quote_path(path)}: {REASONS[error.errno]}")
    return InternalError(f"{quote_path(path)}: {error.strerror}")
