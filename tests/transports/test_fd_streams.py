"""Pipes with more room."""

from __future__ import annotations

import os
import sys
import tempfile

import pytest

from duologue.transports.stdio.fd_streams import PIPE_SIZE, enlarge_pipe

if sys.platform == "linux":
    import fcntl


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a program choose")
def test_a_pipe_can_be_given_more_room() -> None:
    reader, writer = os.pipe()
    try:
        enlarge_pipe(writer)

        assert fcntl.fcntl(reader, fcntl.F_GETPIPE_SZ) == PIPE_SIZE
    finally:
        os.close(reader)
        os.close(writer)


def test_a_descriptor_that_is_no_pipe_is_unchanged() -> None:
    with tempfile.TemporaryFile() as file:
        enlarge_pipe(file.fileno())

        assert file.write(b"x") == 1
