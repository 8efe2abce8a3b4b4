"""Autobahn's fuzzing client against the WebSocket that carries agents: our web server with all its guards.

The application behind it echoes, as the suite demands; above the wire nothing of it differs from an agent's.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from duologue.transports.asgi.guarded import GuardedHttp, GuardedWebSocket

pytestmark = pytest.mark.interop

CASES = ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "10.*"]
"""All but performance (9) and compression (12, 13), which is not offered."""

KNOWN = {"7.1.5"}
"""What the `websockets` library itself fails: it answers a close frame inside of a fragmented message with 1002."""

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "duologue-interop" / "autobahn"
INSTALL_SECONDS = 300
RUN_SECONDS = 300


def python2() -> str | None:
    """The suite never learnt a newer Python."""
    found = shutil.which("python2.7")
    pyenv = sorted(Path.home().glob(".pyenv/versions/2.7.*/bin/python"))
    return str(pyenv[-1]) if pyenv else found


async def install(python: str) -> Path:
    """The suite for that Python, once for all runs."""
    if not (CACHE / "zope" / "__init__.py").exists():
        command = (python, "-m", "pip", "install", "-q", "--target", str(CACHE), "autobahntestsuite==25.10.1")
        async with asyncio.timeout(INSTALL_SECONDS):
            process = await asyncio.create_subprocess_exec(*command, stderr=PIPE)
            _, said = await process.communicate()
        if process.returncode != 0:
            pytest.skip(f"autobahntestsuite cannot be installed: {said.decode()[-200:]}")
        (CACHE / "zope" / "__init__.py").touch()
    return CACHE


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] != "websocket":
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        try:
            await send({**message, "type": "websocket.send"})
        except OSError:
            return


@pytest.mark.fault("WSK-01")
@pytest.mark.timeout(INSTALL_SECONDS + RUN_SECONDS)
async def test_no_case_fails_beyond_those_of_the_library(tmp_path: Path) -> None:
    python = python2()
    if python is None:
        pytest.skip("the suite needs Python 2.7")
    library = await install(python)
    config = uvicorn.Config(
        echo,
        http=GuardedHttp,
        ws=GuardedWebSocket,
        ws_max_size=32 * 1024 * 1024,
        ws_per_message_deflate=False,
        log_config=None,
        log_level="critical",
        lifespan="off",
        port=0,
    )
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    port = server.servers[0].sockets[0].getsockname()[1]
    spec = tmp_path / "spec.json"
    spec.write_text(
        json.dumps(
            {
                "outdir": str(tmp_path / "reports"),
                "servers": [{"agent": "duologue", "url": f"ws://127.0.0.1:{port}"}],
                "cases": CASES,
                "exclude-cases": [],
                "exclude-agent-cases": {},
            }
        )
    )
    code = "from autobahntestsuite.wstest import run; run()"
    try:
        async with asyncio.timeout(RUN_SECONDS):
            process = await asyncio.create_subprocess_exec(
                *(python, "-W", "ignore", "-c", code, "-m", "fuzzingclient", "-s", str(spec)),
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": str(library)},
                stdout=sys.stderr,
            )
            await process.wait()
    finally:
        await server.shutdown()
    results = json.loads((tmp_path / "reports" / "index.json").read_text())["duologue"]
    failed = {
        case
        for case, result in results.items()
        if result["behavior"] == "FAILED" or result["behaviorClose"] not in ("OK", "INFORMATIONAL")
    }

    assert len(results) == 247
    assert failed <= KNOWN
