"""Agents made with the other SDKs behind their own servers, and what those need to be installed."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from benchmarks.peers import cache, python_environment, typescript_sdk
from tests.interop.sdks import PEERS, TYPESCRIPT, Sdk

START_SECONDS = 30.0


def install_server(name: str) -> Sdk:
    """An SDK by name with what its server needs; skips where Node is needed and missing."""
    if name != TYPESCRIPT:
        release = name.partition("-")[2]
        runtime = python_environment(f"official-{release}-remote", f"agent-client-protocol[http]=={release}")
        marker = Path(runtime).parents[1] / "ready-uvicorn"
        if not marker.exists():
            subprocess.run([runtime, "-m", "pip", "install", "--quiet", "uvicorn"], check=True, stdout=sys.stderr)
            marker.touch()
        return Sdk(name, runtime, ".py", PEERS / "py", {})
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("Node is not installed here")
    folder = cache() / "typescript-ws"
    if not (folder / "ready").exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), "ws@8"]
        subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr)
        (folder / "ready").touch()
    variables = {"INTEROP_SDK": str(typescript_sdk(npm)), "INTEROP_WS": str(folder / "package.json")}
    return Sdk(name, node, ".mjs", PEERS / "ts", variables)


@asynccontextmanager
async def listening(sdk: Sdk) -> AsyncGenerator[int]:
    """The port of an agent made with this SDK, behind its own server."""
    process = await asyncio.create_subprocess_exec(
        *sdk.program("agent"), "--listen", stdout=asyncio.subprocess.PIPE, env={**os.environ, **sdk.variables}
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            port = int(await process.stdout.readline())
        yield port
    finally:
        process.kill()
        await process.wait()
