"""Who takes part, and the environments they run in: each gets one of its own with nothing else in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from benchmarks.wire import CHUNK_TEXTS, text

ROOT = Path(__file__).parents[1]
PROGRAMS = ROOT / "benchmarks" / "programs"

OURS = "duologue"
OURS_PUBLIC = "duologue, public API"
OFFICIAL = "official 0.12.1"
OFFICIAL_NEXT = "official 1.0.0rc3"
TYPESCRIPT = "TypeScript 2.4.0"
BARE = "bare asyncio"


@dataclass(frozen=True)
class Peer:
    """One library, or none: how its programs are started."""

    name: str
    runtime: str
    """The interpreter's path."""
    prefix: str
    """How the names of its programs begin."""
    suffix: str = ".py"
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    imports: str = ""
    """A program that imports what an agent needs and ends."""

    def program(self, role: str) -> list[str]:
        """The command of its `agent`, `client` or `codec`."""
        return [self.runtime, str(PROGRAMS / f"{self.prefix}_{role}{self.suffix}")]

    @property
    def importing(self) -> list[str]:
        """The command that does nothing but import."""
        is_node = self.suffix == ".mjs"
        return [self.runtime, *(["--input-type=module", "-e"] if is_node else ["-c"]), self.imports]


def cache() -> Path:
    """Where the environments are kept from run to run."""
    if chosen := os.environ.get("DUOLOGUE_BENCH_DIR"):
        return Path(chosen)
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = home / "duologue-bench"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return Path(tempfile.gettempdir()) / "duologue-bench"
    return folder


def prepare() -> tuple[dict[str, Peer], dict[str, str]]:
    """Everybody who can take part, and why the others cannot."""
    ours = python_environment("duologue", f"msgspec=={version('msgspec')}")
    sources = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    connection = "import duologue.runtime.connection, duologue.schema.v1, duologue.transports.stdio"
    public = "from duologue import Agent, Settings, Turn, choice; import duologue.agent.stdio"
    peers = {
        OURS: Peer(OURS, ours, "duologue", env=sources, imports=connection),
        OURS_PUBLIC: Peer(OURS_PUBLIC, ours, "public", env=sources, imports=public),
    }
    path = {"PYTHONPATH": str(ROOT)}
    for name in (OFFICIAL, OFFICIAL_NEXT):
        release = name.split()[1]
        peers[name] = Peer(name, official_python(release), "official", env=path, imports="import acp")
    absent: dict[str, str] = {}
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        peers[TYPESCRIPT] = _typescript(node, npm)
    else:
        absent[TYPESCRIPT] = "Node is not installed here"
    peers[BARE] = Peer(BARE, ours, "bare", env=path, imports="import asyncio")
    return peers, absent


def official_python(release: str) -> str:
    """The interpreter of an environment with this release of the official SDK."""
    return python_environment(f"official-{release}", f"agent-client-protocol=={release}")


def official_python_remote(release: str) -> str:
    """The same with what its remote transports need, and the web server that ours stands on, too."""
    requirements = (f"agent-client-protocol[http]=={release}", f"uvicorn=={version('uvicorn')}")
    return python_environment(f"official-remote-{release}", *requirements)


def python_environment(name: str, *requirements: str) -> str:
    """The interpreter of an environment with these requirements, made on first use."""
    folder = cache() / f"{name}-python{sys.version_info.major}.{sys.version_info.minor}"
    runtime = folder / "bin" / "python"
    # Versions are part of the marker: another requirement makes the environment anew.
    marker = folder / f"ready-{'-'.join(requirements).replace('==', '-')}"
    if not marker.exists():
        say(f"making an environment for {', '.join(requirements)}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        install = [str(runtime), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
        subprocess.run(install, check=True, stdout=sys.stderr)
        marker.touch()
    return str(runtime)


def typescript_sdk(npm: str) -> Path:
    """The TypeScript SDK's module for v1, installed on first use."""
    release = TYPESCRIPT.split()[1]
    folder = cache() / f"typescript-{release}"
    marker = folder / "ready-with-ws"
    if not marker.exists():
        say(f"installing the TypeScript SDK {release}")
        folder.mkdir(parents=True, exist_ok=True)
        packages = [f"@agentclientprotocol/sdk@{release}", "zod@4", "ws@8"]
        command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), *packages]
        subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr)
        marker.touch()
    return folder / "node_modules/@agentclientprotocol/sdk/dist/v1/stable/acp.js"


def _typescript(node: str, npm: str) -> Peer:
    library = typescript_sdk(npm)
    env = {
        "BENCH_TYPESCRIPT_SDK": str(library),
        "BENCH_TEXTS": json.dumps({"chunkTexts": CHUNK_TEXTS, "floodText": text(2000)}),
    }
    imports = f"await import({str(library)!r})"
    return Peer(TYPESCRIPT, node, "typescript", ".mjs", env, imports)


def say(what: str) -> None:
    """Progress, for whoever waits."""
    print(f"bench: {what}", file=sys.stderr, flush=True)
