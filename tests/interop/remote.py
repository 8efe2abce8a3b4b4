"""Agents made with the other SDKs behind their own servers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager

from tests.interop.sdks import Sdk

TOKEN = "the-token-of-the-remote-tests"


@contextmanager
def listening(sdk: Sdk) -> Generator[int]:
    """Start an agent made with this SDK behind its own server, a gate and a load balancer; yield its port."""
    command, env = [*sdk.program("agent"), "--listen"], {**os.environ, **sdk.variables, "INTEROP_TOKEN": TOKEN}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()
