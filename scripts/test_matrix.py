"""The core tests on every CPython from 3.11 up that this machine has.

Interpreters are looked for on PATH and where pyenv and uv keep theirs. Each minor version gets an environment of its
own under `.venvs/`, made from the lock file, with nothing in it but what these tests need.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
OLDEST = (3, 11)
TEST_NEEDS = (
    "msgspec",
    "pytest",
    "pytest-asyncio",
    "pytest-timeout",
    "pytest-xdist",
    "hypothesis",
    "jsonschema",
    "ruff",
)
CORE = ("jsonrpc", "schema", "transports", "runtime", "conversation", "protocol")
ASK = "import sys; print(sys.implementation.name, *sys.version_info[:3], sys.version_info.releaselevel)"


def candidates() -> Iterator[Path]:
    """Yield every file that may be an interpreter, without running it."""
    folders = [Path(entry) for entry in os.environ.get("PATH", "").split(os.pathsep) if entry]
    folders += Path.home().glob(".pyenv/versions/*/bin")
    folders += Path.home().glob(".local/share/uv/python/*/bin")
    for folder in folders:
        yield from folder.glob("python3.[1-9][0-9]")


def interpreters() -> dict[tuple[int, int], Path]:
    """Return the newest CPython of each minor version from the oldest supported one up."""
    found: dict[tuple[int, int], tuple[int, Path]] = {}
    for path in candidates():
        try:
            answer = subprocess.run([path, "-c", ASK], capture_output=True, text=True, timeout=20, check=True)
        except (OSError, subprocess.SubprocessError):
            continue  # a shim without its version, or not an interpreter
        name, major, minor, micro, level = answer.stdout.split()
        version = (int(major), int(minor))
        if name == "cpython" and level == "final" and version >= OLDEST:
            found[version] = max(found.get(version, (-1, path)), (int(micro), path))
    return {version: found[version][1] for version in sorted(found)}


def environment(version: tuple[int, int], interpreter: Path) -> Path:
    """Make or update the environment for this version; return its Python."""
    home = ROOT / ".venvs" / f"{version[0]}.{version[1]}"
    python = home / "bin" / "python"
    uv = [sys.executable, "-m", "uv"]
    if not python.exists():
        subprocess.run([*uv, "venv", "--quiet", "--python", interpreter, home], check=True)
    install = [*uv, "pip", "install", "--quiet", "--python", str(python)]
    # The transports reach over the network, which the core alone does not.
    ours = ["--editable", ".[remote,http2,mcp]"]
    subprocess.run([*install, "--constraint", "requirements-dev.lock", *TEST_NEEDS, *ours], check=True, cwd=ROOT)
    return python


def main() -> int:
    """Run them all; the exit status says whether every version passed."""
    versions = interpreters()
    own = sys.version_info[:2]
    print(f"CPython {own[0]}.{own[1]} is the one of .venv, where `make test` runs everything")
    print(
        "others found:", ", ".join(f"{major}.{minor}" for major, minor in versions if (major, minor) != own) or "none"
    )
    suites = [f"tests/{package}" for package in CORE if (ROOT / "tests" / package).is_dir()]
    verdicts: dict[str, bool] = {}
    for version, interpreter in versions.items():
        if version == own:
            continue
        name = f"CPython {version[0]}.{version[1]}"
        print(f"== {name} ({interpreter})", flush=True)
        began = time.monotonic()
        tests = [
            str(environment(version, interpreter)),
            "-m",
            "pytest",
            "-q",
            "-n",
            "auto",
            "-m",
            "not interop and not chaos",
            *suites,
        ]
        path = {"PYTHONPATH": str(ROOT / "src")}
        verdicts[name] = subprocess.run(tests, cwd=ROOT, env={**os.environ, **path}, check=False).returncode == 0
        print(f"== {name}: {'passed' if verdicts[name] else 'FAILED'} in {time.monotonic() - began:.0f} s", flush=True)
    return not all(verdicts.values())


if __name__ == "__main__":
    sys.exit(main())
