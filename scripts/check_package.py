"""Build the package and try it as a user would: `python -m scripts.check_package`.

Builds wheel and sdist, checks their metadata with twine, installs the wheel with each extra into a clean environment
outside the repository, and runs the built-in agent, a client and a server from there. The first line of the README runs
on a terminal with `uvx` and the built wheel. With `--release` it also rejects
what must not be published: the placeholder for the repository's address, or a version without its changelog section.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import select
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
UV = Path(sys.executable).parent / "uv"
UVX = Path(sys.executable).parent / "uvx"
TWINE = Path(sys.executable).parent / "twine"

STEP_SECONDS = 300

CLIENT = """
import duologue
answer = duologue.ask("duologue agent", "/echo it works")
assert "it works" in answer, answer
"""

SERVER = """
import re, subprocess, sys
command = [sys.executable, "-m", "duologue.cli.main"]
captured = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
server = subprocess.Popen([*command, "serve", "--port", "0", "--", *command, "agent"], **captured)
try:
    address = next(found[0] for line in server.stdout if (found := re.search(r"ws://\\S+#token=\\S+", line)))
    answer = subprocess.run([*command, "run", "/echo it works", "--agent", address], **captured).stdout
    assert "it works" in answer, answer
finally:
    server.terminate()
    server.wait(20)
"""

# What each extra promises, shown by a program that needs it.
PROGRAMS = {
    "": CLIENT,
    "mcp": "import duologue.mcp.servers",
    "remote": SERVER,
    "http2": "import h2",
    "pydantic-ai": "import duologue.integrations.pydantic_ai",
    "langgraph": "import duologue.integrations.langgraph",
    "cli": CLIENT,
    "agents": "import duologue.registry.installation, uv; uv.find_uv_bin()",
    "evals": "import duologue.evals.statistics.comparison",
    "dask": "import duologue.evals.engines.dask_cluster as it; it.DaskEngine('tcp://127.0.0.1:1')",
    "ray": "import duologue.evals.engines.ray_cluster as it; it.RayEngine('ray://127.0.0.1:1')",
    "coder": "import duologue.coder.agent",
    "all": SERVER,
}


def run(command: Sequence[str | os.PathLike[str]], cwd: Path, env: dict[str, str] | None = None) -> str:
    """Return what a command printed; end with its output if it fails."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        timeout=STEP_SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def build(folder: Path) -> Path:
    """Build sdist and wheel into a folder and check their metadata; return the wheel."""
    run([UV, "build", "--quiet", "--out-dir", folder, ROOT], ROOT)
    built = sorted([*folder.glob("*.whl"), *folder.glob("*.tar.gz")])
    print(run([TWINE, "check", "--strict", *built], folder).strip())
    return next(path for path in built if path.suffix == ".whl")


def try_extra(extra: str, wheel: Path, folder: Path) -> None:
    """Install the wheel with one extra into an empty environment and run what it promises."""
    environment = folder / (extra or "core")
    python = environment / "bin" / "python"
    # The variables of our own environment would lead back into the repository.
    env = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    env |= {"XDG_DATA_HOME": str(folder / "data"), "XDG_CONFIG_HOME": str(folder / "config")}
    run([UV, "venv", "--quiet", "--python", sys.executable, environment], folder, env)
    run([UV, "pip", "install", "--quiet", "--python", python, f"{wheel}[{extra}]" if extra else wheel], folder, env)
    run([python, "-c", PROGRAMS[extra]], folder, env)
    run([environment / "bin" / "duologue", "run", "/tour", "--yes", "--cwd", folder], folder, env)
    print(f"works outside the repository: duologue{f'[{extra}]' if extra else ''}")


def try_first_line(wheel: Path, folder: Path) -> None:
    """Run the first line of the README on a terminal, with the built wheel for the published one."""
    line = re.search(r"^uvx [^#\n]+", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert line is not None, "the README begins with a line for uvx"
    if not UVX.exists():
        print(f"not tried, since uvx is not installed: {line[0].strip()}")
        return
    _, *words = (word.replace("duologue[cli]", f"duologue[cli] @ {wheel.as_uri()}") for word in shlex.split(line[0]))
    shown = run_on_terminal([str(UVX), *words, "--yes", "--cwd", str(folder)], folder)
    if "Agent Client Protocol" not in shown or "**" in shown:
        sys.exit(f"{line[0]}\nrendered no Markdown:\n{shown}")
    print(f"works with the built wheel, on a terminal: {line[0].strip()}")


def run_on_terminal(command: list[str], cwd: Path) -> str:
    """Return what a command shows on a terminal; end with it if the command fails."""
    ours, theirs = pty.openpty()
    shown = b""
    env = {**os.environ, "TERM": "xterm", "XDG_DATA_HOME": str(cwd / "data"), "XDG_STATE_HOME": str(cwd / "state")}
    with subprocess.Popen(command, cwd=cwd, env=env, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        deadline = time.monotonic() + STEP_SECONDS
        while select.select([ours], [], [], max(0.0, deadline - time.monotonic()))[0]:
            try:
                shown += os.read(ours, 65536)
            except OSError:  # the program has ended
                break
        else:
            process.kill()
        os.close(ours)
    if process.returncode:
        sys.exit(f"{shlex.join(command)}\nended with {process.returncode}:\n{shown.decode(errors='replace')}")
    return shown.decode(errors="replace")


def obstacles() -> list[str]:
    """Return what stands between this tree and a release."""
    found: list[str] = []
    hook = (ROOT / "hatch_build.py").read_text("utf-8")
    if re.search(r"^REPOSITORY = PLACEHOLDER$", hook, re.MULTILINE):
        found.append("hatch_build.py: REPOSITORY is still the placeholder; set the address of the repository")
    version = re.search(r'^__version__ = "(.+)"$', (ROOT / "src/duologue/__init__.py").read_text("utf-8"), re.MULTILINE)
    assert version is not None
    if f"## {version[1]}" not in (ROOT / "CHANGELOG.md").read_text("utf-8"):
        found.append(f"CHANGELOG.md: no section for version {version[1]}")
    return found


def main() -> int:
    """Build, check and try the package; return 1 if a release was asked for and something stands in its way."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.check_package", description="Build the package and try it."
    )
    parser.add_argument("--release", action="store_true", help="reject what must not be published")
    parser.add_argument("--out", type=Path, help="keep the built files here")
    given = parser.parse_args()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert set(PROGRAMS) == {"", *extras}, "every extra needs a program that shows it"
    with tempfile.TemporaryDirectory(prefix="duologue-package-") as name:
        folder = Path(name)
        wheel = build(given.out or folder / "dist")
        for extra in PROGRAMS:
            try_extra(extra, wheel.absolute(), folder)
        try_first_line(wheel.absolute(), folder)
    found = obstacles()
    for obstacle in found:
        print(f"not ready to publish: {obstacle}")
    return 1 if given.release and found else 0


if __name__ == "__main__":
    sys.exit(main())
