"""Runs tests as on a system that lacks or forbids `openat2`: `python -m tests.local.without_openat2 ENOSYS PYTEST…`.

A filter in the kernel refuses the call to this process and its children, as old kernels and sandboxes do.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

import pytest

PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
LOAD_SYSCALL_NUMBER, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO = 0x7FFF0000, 0x00050000
OPENAT2 = 437


class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def forbid_openat2(number: int) -> None:
    """Make every later `openat2` of this process fail with this error."""
    instructions = b"".join(
        struct.pack("HBBI", *instruction)
        for instruction in (
            (LOAD_SYSCALL_NUMBER, 0, 0, 0),
            (JUMP_IF_EQUAL, 0, 1, OPENAT2),
            (RETURN, 0, 0, SECCOMP_RET_ERRNO | number),
            (RETURN, 0, 0, SECCOMP_RET_ALLOW),
        )
    )
    program = Program(4, instructions)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program))):
        if prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    forbid_openat2(getattr(errno, sys.argv[1]))
    sys.exit(pytest.main(sys.argv[2:]))
