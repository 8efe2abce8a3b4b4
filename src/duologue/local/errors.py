"""Errors for files that cannot be read or written; they name only the requested path."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from duologue.errors import InternalError, InvalidParams, RequestError, ResourceNotFound
from duologue.local.root import quote_path

REASONS = {
    errno.EXDEV: "outside the directories that may be used",
    errno.ENOTDIR: "a part of the path is not a directory",
    errno.EISDIR: "a directory, not a text file",
    errno.ELOOP: "too many links, or a link into the kernel",
    errno.ENAMETOOLONG: "a part of the path is too long, or there are too many parts",
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.EROFS: "no permission: the file system is read-only",
    errno.ENXIO: "a FIFO, a socket or a device, not a text file",
    errno.EBUSY: "another process changes it all the time; try again",
    errno.ETXTBSY: "a program that is running",
}
"""Failures of the path, for the peer; any other error is an internal one."""


class AccessDenied(Exception):
    """A file may not be used; reported as `InvalidParams` that names the path."""


def os_error(number: int) -> OSError:
    """Return the `OSError` of an error number, of the subclass that Python has for it."""
    return OSError(number, os.strerror(number))


@contextmanager
def as_request_error(path: str | Path) -> Generator[None]:
    """Convert errors inside the block to request errors about this path."""
    try:
        yield
    except AccessDenied as error:
        raise InvalidParams(f"{quote_path(path)}: {error}") from error
    except OSError as error:
        raise _explain(path, error) from error


@contextmanager
def as_os_error(path: str | Path) -> Generator[None]:
    """Convert errors inside the block to an `OSError` about this path: `PermissionError` for one outside."""
    try:
        yield
    except AccessDenied as error:
        raise PermissionError(errno.EACCES, str(error), os.fspath(path)) from error
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise PermissionError(errno.EACCES, REASONS[errno.EXDEV], os.fspath(path)) from error
        raise (error if error.errno is None else OSError(error.errno, error.strerror, os.fspath(path))) from error


def _explain(path: str | Path, error: OSError) -> RequestError:
    if error.errno == errno.ENOENT:
        return ResourceNotFound(f"{quote_path(path)}: no such file", data={"uri": Path(path).as_uri()})
    if error.errno in REASONS:
        return InvalidParams(f"{quote_path(path)}: {REASONS[error.errno]}")
    return InternalError(f"{quote_path(path)}: {error.strerror}")
