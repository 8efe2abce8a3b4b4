"""SQLite's own view of its files, with every write, sync, truncation and removal noted, and failing on order.

SQLite reaches files through a table of functions that a program may replace. This one passes each call on to the
original, so that what is tested is the real thing on a real file system.
"""

from __future__ import annotations

import ctypes
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

import pytest

__all__ = ["FaultyFiles", "Operation", "faulty_files"]

OK = 0

_OPEN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
_DELETE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
_WRITE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64)
_TRUNCATE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)
_SYNC = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)


class _Vfs(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int),
        ("file_size", ctypes.c_int),
        ("max_path", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("app_data", ctypes.c_void_p),
        ("open", ctypes.c_void_p),
        ("delete", ctypes.c_void_p),
        ("others", ctypes.c_void_p * 14),
    )


class _Methods(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int),
        ("close", ctypes.c_void_p),
        ("read", ctypes.c_void_p),
        ("write", ctypes.c_void_p),
        ("truncate", ctypes.c_void_p),
        ("sync", ctypes.c_void_p),
        ("others", ctypes.c_void_p * 13),
    )


class _File(ctypes.Structure):
    _fields_ = (("methods", ctypes.c_void_p),)


class Operation(NamedTuple):
    """Something that happened to a file, or a mark that a test made in between."""

    kind: Literal["create", "write", "truncate", "sync", "delete", "mark"]
    name: str
    offset: int = 0
    data: bytes = b""


class FaultyFiles:
    """Records the operations of SQLite, and injects faults.

    Attributes:
        operations: All of them in order, failed ones left out.
        fault: Asked before each operation; a SQLite error code makes it fail, and of a write only a part arrives.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self.operations: list[Operation] = []
        self.fault: Callable[[Operation], int] = lambda operation: OK
        self._library = library
        library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
        self._original = library.sqlite3_vfs_find(None)
        # The copies and the callbacks must outlive every file that uses them.
        self._vfs = _Vfs.from_buffer_copy(self._original.contents)
        self._callbacks = [_OPEN(self._open), _DELETE(self._delete)]
        self._methods: dict[int, _Methods] = {}
        self._names: dict[int, str] = {}
        self._vfs.name = b"faulty"
        self._vfs.open = ctypes.cast(self._callbacks[0], ctypes.c_void_p).value
        self._vfs.delete = ctypes.cast(self._callbacks[1], ctypes.c_void_p).value

    def register(self) -> None:
        """Put this between SQLite and every file that is opened from now on."""
        assert self._library.sqlite3_vfs_register(ctypes.byref(self._vfs), 1) == OK

    def unregister(self) -> None:
        """Leave; the files must be closed by now."""
        assert self._library.sqlite3_vfs_unregister(ctypes.byref(self._vfs)) == OK
        assert self._library.sqlite3_vfs_register(self._original, 1) == OK

    def mark(self, data: bytes) -> None:
        """Note a moment between two operations."""
        self.operations.append(Operation("mark", "", data=data))

    def _pass_on(self, operation: Operation, call: Callable[[], int]) -> int:
        code = self.fault(operation) or call()
        if code == OK:
            self.operations.append(operation)
        return code

    def _open(self, vfs: int, path: int | None, file: int, flags: int, out_flags: int | None) -> int:
        code: int = _OPEN(self._original.contents.open)(
            ctypes.addressof(self._original.contents), path, file, flags, out_flags
        )
        if code == OK and path is not None:
            name = Path(ctypes.string_at(path).decode()).name
            self._names[file] = name
            if not any(operation.name == name for operation in self.operations):
                self.operations.append(Operation("create", name))
            entry = _File.from_address(file)
            entry.methods = ctypes.addressof(self._methods_like(entry.methods or 0))
        return code

    def _methods_like(self, address: int) -> _Methods:
        """Return the file's functions, with ours in front of three of them."""
        if address not in self._methods:
            methods = _Methods.from_buffer_copy(_Methods.from_address(address))
            callbacks = self._wrapped(
                _WRITE(methods.write or 0), _TRUNCATE(methods.truncate or 0), _SYNC(methods.sync or 0)
            )
            methods.write, methods.truncate, methods.sync = (
                ctypes.cast(callback, ctypes.c_void_p).value for callback in callbacks
            )
            self._callbacks += callbacks
            self._methods[address] = methods
        return self._methods[address]

    def _wrapped(
        self,
        write: Callable[[int, int, int, int], int],
        truncate: Callable[[int, int], int],
        sync: Callable[[int, int], int],
    ) -> list[ctypes._CFunctionType]:
        def noted_write(file: int, data: int, size: int, offset: int) -> int:
            operation = Operation("write", self._names[file], offset, ctypes.string_at(data, size))
            if code := self.fault(operation):
                write(file, data, size // 2, offset)
                return code
            return self._pass_on(operation, lambda: write(file, data, size, offset))

        def noted_truncate(file: int, size: int) -> int:
            return self._pass_on(Operation("truncate", self._names[file], size), lambda: truncate(file, size))

        def noted_sync(file: int, flags: int) -> int:
            return self._pass_on(Operation("sync", self._names[file]), lambda: sync(file, flags))

        return [_WRITE(noted_write), _TRUNCATE(noted_truncate), _SYNC(noted_sync)]

    def _delete(self, vfs: int, path: int, sync_directory: int) -> int:
        def delete() -> int:
            vfs = ctypes.addressof(self._original.contents)
            code: int = _DELETE(self._original.contents.delete)(vfs, path, sync_directory)
            return code

        return self._pass_on(Operation("delete", Path(ctypes.string_at(path).decode()).name), delete)


@contextmanager
def faulty_files() -> Generator[FaultyFiles]:
    """SQLite with faulty files within the block; every store must be opened and closed inside it."""
    import _sqlite3

    library = ctypes.CDLL(_sqlite3.__file__)
    if not hasattr(library, "sqlite3_vfs_register"):
        pytest.skip("this Python hides SQLite's own functions")
    library.sqlite3_libversion.restype = ctypes.c_char_p
    assert library.sqlite3_libversion().decode() == sqlite3.sqlite_version
    files = FaultyFiles(library)
    files.register()
    try:
        yield files
    finally:
        files.unregister()
