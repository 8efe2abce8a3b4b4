"""The peers that are compared, and their environments: each has one of its own with nothing else in it."""

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
OURS_SAME = "duologue, same frames as the public API"
OURS_PUBLIC = "duologue, public API"
OFFICIAL = f"official {foreign.release(foreign.OFFICIAL)}"
OFFICIAL_NEXT = f"official {foreign.release(foreign.OFFICIAL_NEXT)}"
TYPESCRIPT = f"TypeScript {foreign.release(foreign.TYPESCRIPT)}"
RUST = f"Rust {foreign.release(foreign.RUST)}"
RUST_TUNED = f"{RUST}, tuned"
GO = f"Go {foreign.release(foreign.GO)}"
OURS_UVLOOP = "duologue, uvloop"
BARE = "bare asyncio"
BARE_UVLOOP = "bare uvloop"
FLOOR = "asyncio and msgspec"
UVLOOP = "0.23.0"
COMPILED_SCENARIOS = frozenset({"spawn", "stream", "sequential", "in_flight"})


@dataclass(frozen=True)
class Peer:
    """How the programs of one library, or of none, are started."""

    name: str
    runtime: str
    """The interpreter's path."""
    prefix: str
    """The prefix of its programs; empty for one program that gets its role as an argument."""
    suffix: str = ".py"
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    imports: str = ""
    """A program that imports what an agent needs and ends."""
    scenarios: frozenset[str] | None = None
    """The scenarios that its client can play; all if not set."""

    def can_play(self, *scenarios: str) -> bool:
        """Tell whether it takes part in these scenarios."""
        return self.scenarios is None or self.scenarios.issuperset(scenarios)

    def program(self, role: str) -> list[str]:
        """Return the command of its `agent`, `client` or `codec`."""
        if not self.prefix:
            return [self.runtime, role]
        return [self.runtime, str(PROGRAMS / f"{self.prefix}_{role}{self.suffix}")]

    @property
    def importing(self) -> list[str]:
        """Return the command that only imports."""
        is_node = self.suffix == ".mjs"
        return [self.runtime, *(["--input-type=module", "-e"] if is_node else ["-c"]), self.imports]


def prepare() -> tuple[dict[str, Peer], dict[str, str]]:
    """Return the peers that can take part, and why the others cannot."""
    ours = python_environment("duologue", f"msgspec=={version('msgspec')}")
    sources = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    connection = "import duologue.runtime.connection, duologue.schema.v1, duologue.transports.stdio.stdio"
    public = "from duologue import Agent, Settings, Turn, choice; import duologue.agent.hosting.stdio"
    peers = {
        OURS: Peer(OURS, ours, "duologue", env=sources, imports=connection),
        OURS_SAME: Peer(OURS_SAME, ours, "duologue", env={**sources, "BENCH_SAME_FRAMES": "1"}),
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
    try:
        rust = str(foreign.rust_benchmark())
        peers[RUST] = _compiled(RUST, rust)
        peers[RUST_TUNED] = _compiled(RUST_TUNED, rust, BENCH_RUST="tuned")
    except foreign.Absent as reason:
        absent |= {RUST: str(reason), RUST_TUNED: str(reason)}
    try:
        peers[GO] = _compiled(GO, str(foreign.go_benchmark()))
    except foreign.Absent as reason:
        absent[GO] = str(reason)
    one_by_one = frozenset({"sequential"})
    peers[BARE] = Peer(BARE, ours, "bare", env=path, imports="import asyncio", scenarios=one_by_one)
    fast = python_environment("duologue-uvloop", f"msgspec=={version('msgspec')}", f"uvloop=={UVLOOP}")
    played = one_by_one | {"in_flight"}
    peers[FLOOR] = Peer(FLOOR, ours, "floor", env=path, scenarios=played)
    peers[OURS_UVLOOP] = Peer(OURS_UVLOOP, fast, "duologue", env={**sources, "BENCH_UVLOOP": "1"}, scenarios=played)
    peers[BARE_UVLOOP] = Peer(BARE_UVLOOP, fast, "bare", env={**path, "BENCH_UVLOOP": "1"}, scenarios=one_by_one)
    return peers, absent


TEXTS = {"BENCH_TEXTS": json.dumps({"chunkTexts": CHUNK_TEXTS, "floodText": text(2000)})}
"""Constants for programs that cannot import them."""


def _compiled(name: str, program: str, **env: str) -> Peer:
    return Peer(name, program, "", env={**TEXTS, **env}, scenarios=COMPILED_SCENARIOS)


def _typescript() -> Peer:
    library = foreign.typescript_sdk()
    env = {"BENCH_TYPESCRIPT_SDK": str(library), **TEXTS}
    imports = f"await import({str(library)!r})"
    return Peer(TYPESCRIPT, tool("node"), "typescript", ".mjs", env, imports)


def log(what: str) -> None:
    """Print progress to stderr."""
    print(f"bench: {what}", file=sys.stderr, flush=True)
