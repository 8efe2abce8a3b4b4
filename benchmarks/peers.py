"""Who takes part, and the environments they run in: each gets one of its own with nothing else in it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from benchmarks.wire import CHUNK_TEXTS, text
from tests.interop import peers as foreign
from tests.interop.peers.building import python_environment, tool

ROOT = Path(__file__).parents[1]
PROGRAMS = ROOT / "benchmarks" / "programs"

OURS = "duologue"
OURS_PUBLIC = "duologue, public API"
OFFICIAL = f"official {foreign.release(foreign.OFFICIAL)}"
OFFICIAL_NEXT = f"official {foreign.release(foreign.OFFICIAL_NEXT)}"
TYPESCRIPT = f"TypeScript {foreign.release(foreign.TYPESCRIPT)}"
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


def prepare() -> tuple[dict[str, Peer], dict[str, str]]:
    """Everybody who can take part, and why the others cannot."""
    ours = python_environment("duologue", f"msgspec=={version('msgspec')}")
    sources = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    connection = "import duologue.runtime.connection, duologue.schema.v1, duologue.transports.stdio.stdio"
    public = "from duologue import Agent, Settings, Turn, choice; import duologue.agent.hosting.stdio"
    peers = {
        OURS: Peer(OURS, ours, "duologue", env=sources, imports=connection),
        OURS_PUBLIC: Peer(OURS_PUBLIC, ours, "public", env=sources, imports=public),
    }
    path = {"PYTHONPATH": str(ROOT)}
    for name, sdk in ((OFFICIAL, foreign.OFFICIAL), (OFFICIAL_NEXT, foreign.OFFICIAL_NEXT)):
        peers[name] = Peer(name, foreign.official_python(sdk), "official", env=path, imports="import acp")
    absent: dict[str, str] = {}
    try:
        peers[TYPESCRIPT] = _typescript()
    except foreign.Absent as reason:
        absent[TYPESCRIPT] = str(reason)
    peers[BARE] = Peer(BARE, ours, "bare", env=path, imports="import asyncio")
    return peers, absent


def _typescript() -> Peer:
    library = foreign.typescript_sdk()
    env = {
        "BENCH_TYPESCRIPT_SDK": str(library),
        "BENCH_TEXTS": json.dumps({"chunkTexts": CHUNK_TEXTS, "floodText": text(2000)}),
    }
    imports = f"await import({str(library)!r})"
    return Peer(TYPESCRIPT, tool("node"), "typescript", ".mjs", env, imports)


def say(what: str) -> None:
    """Progress, for whoever waits."""
    print(f"bench: {what}", file=sys.stderr, flush=True)
