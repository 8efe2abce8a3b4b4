"""Build foreign peers with each toolchain, and keep them from run to run."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from scripts.test_matrix import interpreters

LONGEST_SECONDS = 1_800
"""No registry and no compiler takes longer, on a busy machine either."""


class Absent(Exception):
    """A peer cannot be had here; the message says what is missing."""


def cache() -> Path:
    """Return the folder where environments and builds are kept from run to run."""
    if chosen := os.environ.get("DUOLOGUE_BENCH_DIR"):
        return Path(chosen)
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = home / "duologue-bench"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return Path(tempfile.gettempdir()) / "duologue-bench"
    return folder


def python_environment(name: str, *requirements: str) -> str:
    """Return the interpreter of an environment with these requirements, made on first use."""
    folder = cache() / f"{name}-python{sys.version_info.major}.{sys.version_info.minor}"
    runtime = folder / "bin" / "python"
    # Versions are part of the marker: another requirement makes the environment anew.
    with _making(folder, f"ready-{'-'.join(requirements).replace('==', '-')}") as is_needed:
        if is_needed:
            log(f"making an environment for {', '.join(requirements)}")
            subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
            _fetch(
                [str(runtime), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements], folder
            )
    return str(runtime)


def locked_environment(name: str, lock: Path, oldest: tuple[int, int]) -> str:
    """Return the interpreter of an environment with what a lock file names and nothing else, made on first use.

    Args:
        name: Name of the environment; the hash of the lock file is added to it.
        lock: Requirements with their hashes.
        oldest: Oldest version of Python that they run on.

    Raises:
        Absent: If there is no such Python here, or a registry does not answer.
    """
    folder = cache() / f"{name}-{_digest([lock])}"
    runtime = folder / "bin" / "python"
    with _making(folder, "ready") as is_needed:
        if is_needed:
            fitting = [path for version, path in interpreters().items() if version >= oldest]
            if not fitting:
                raise Absent(f"{name} needs Python {oldest[0]}.{oldest[1]} or newer, which is not installed here")
            log(f"making an environment for {lock.parent.name}")
            subprocess.run([fitting[0], "-m", "venv", "--clear", folder], check=True)
            install = ["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
            _fetch([str(runtime), "-m", "pip", *install, "--requirement", str(lock)], folder)
    return str(runtime)


def source_archive(name: str, requirement: str) -> Path:
    """Return the folder of the published sources of a Python package, which has more than what is installed."""
    folder = cache() / name
    with _making(folder, f"ready-{requirement.replace('==', '-')}") as is_needed:
        if is_needed:
            log(f"fetching the sources of {requirement}")
            options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", ":all:"]
            _fetch([sys.executable, "-m", "pip", "download", *options, requirement], folder)
            with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
                archive.extractall(folder, filter="data")
    return next(each for each in folder.iterdir() if each.is_dir())


def node_packages(name: str, *packages: str) -> Path:
    """Return the folder of `node_modules` with these packages, installed on first use."""
    folder = cache() / name
    with _making(folder, f"ready-{'-'.join(packages).replace('/', '-')}") as is_needed:
        if is_needed:
            log(f"installing {', '.join(packages)}")
            install = [tool("npm"), "install", "--no-audit", "--no-fund", "--prefix", str(folder)]
            _fetch([*install, *packages], folder)
    return folder / "node_modules"


def cargo_program(sources: Path, name: str = "peer", *, is_fast: bool = False) -> Path:
    """Return a program of a crate, built on first use and after a change.

    Args:
        sources: The crate.
        name: The program.
        is_fast: With every optimization, and without the crate's optional features.
    """
    folder = cache() / f"rust-{_digest([sources / 'Cargo.pins'])}"
    options = ["--release", "--no-default-features"] if is_fast else []
    with _making(folder, f"{_built(sources)}-{name}") as is_needed:
        if is_needed:
            cargo = tool("cargo")
            log(f"building {sources}")
            crate = folder / "crate"
            shutil.copytree(sources, crate, dirs_exist_ok=True)
            _fetch([cargo, "generate-lockfile", "--quiet"], crate)
            _pin(crate)
            _fetch([cargo, "fetch", "--locked", "--quiet"], crate)
            build = [cargo, "build", "--locked", "--offline", "--quiet", "--bin", name, *options]
            _build(build, crate, {"CARGO_TARGET_DIR": str(folder)})
    return folder / ("release" if is_fast else "debug") / name


def cargo_examples(sources: Path, package: str, features: Sequence[str], names: Sequence[str]) -> Path:
    """Return the folder of the example programs that a pinned crate publishes, built from there on first use.

    Args:
        sources: A crate of ours that depends on it.
        package: Its name.
        features: What the examples need of it.
        names: The examples.
    """
    folder = cargo_program(sources).parent.parent
    with _making(folder, f"built-examples-{'-'.join([*names, *features])}") as is_needed:
        if is_needed:
            cargo = tool("cargo")
            log(f"building the examples of {package}")
            published = _manifest(cargo, folder / "crate", package)
            # The crate has a lock file of its own, and thereby what only its examples need.
            _fetch([cargo, "fetch", "--locked", "--quiet", "--manifest-path", str(published)], folder)
            command = [cargo, "build", "--locked", "--offline", "--quiet", "--manifest-path", str(published)]
            options = ["--features", ",".join(features), *(part for each in names for part in ("--example", each))]
            variables = {"CARGO_TARGET_DIR": str(folder), "CARGO_INCREMENTAL": "0", "CARGO_PROFILE_DEV_DEBUG": "0"}
            _build([*command, *options], folder, variables)
    return folder / "debug" / "examples"


def _manifest(cargo: str, crate: Path, package: str) -> Path:
    """Return the manifest of a package that a crate depends on, in the registry's copy whose checksum is pinned."""
    command = [cargo, "metadata", "--locked", "--offline", "--format-version", "1"]
    known = json.loads(subprocess.run(command, cwd=crate, capture_output=True, check=True).stdout)
    return Path(next(each["manifest_path"] for each in known["packages"] if each["name"] == package))


def _pin(crate: Path) -> None:
    """Write the lock file: versions and checksums of `Cargo.pins`, from the registry that Cargo uses here."""
    lock = crate / "Cargo.lock"
    registry = next(line for line in lock.read_text("utf-8").splitlines() if line.startswith("source = "))
    pins = (crate / "Cargo.pins").read_text("utf-8")
    lock.write_text(pins.replace("\nchecksum = ", f"\n{registry}\nchecksum = "), "utf-8")


def go_program(sources: Path, package: str = ".") -> Path:
    """Return a program of a Go module, built on first use and after a change."""
    folder = cache() / f"go-{_digest([sources / 'go.sum'])}"
    program = folder / (Path(package).name or "peer")
    with _making(folder, f"{_built(sources)}-{program.name}") as is_needed:
        if is_needed:
            go = tool("go")
            log(f"building {sources}")
            _fetch([go, "mod", "download"], sources)
            _build([go, "build", "-o", str(program), package], sources, {"GOTOOLCHAIN": "local"})
    return program


def java_program(sources: Path) -> list[str]:
    """Return the command of a Java program, compiled on first use and after a change."""
    folder = cache() / f"java-{_digest([sources / 'pom.xml'])}"
    java = tool("java")
    with _making(folder, _built(sources)) as is_needed:
        if is_needed:
            javac, maven = tool("javac"), tool("mvn")
            log(f"building {sources}")
            _fetch(_jars(maven, folder / "lib"), sources)
            files = [str(each) for each in sources.glob("*.java")]
            _build(
                [javac, "-nowarn", "-cp", str(folder / "lib" / "*"), "-d", str(folder / "classes"), *files], sources, {}
            )
    return _jvm(java, folder)


def kotlin_program(sources: Path) -> list[str]:
    """Return the command of a Kotlin program, compiled on first use and after a change."""
    folder = cache() / f"kotlin-{_digest([sources / 'pom.xml'])}"
    java = tool("java")
    with _making(folder, _built(sources)) as is_needed:
        if is_needed:
            maven = tool("mvn")
            log(f"building {sources}")
            _fetch(_jars(maven, folder / "lib"), sources)
            jars = os.pathsep.join(str(each) for each in (folder / "lib").glob("*.jar"))
            compiler = [java, "-cp", jars, "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler"]
            options = ["-no-stdlib", "-no-reflect", "-nowarn", "-cp", jars, "-d", str(folder / "classes")]
            _build([*compiler, *options, *(str(each) for each in sources.glob("*.kt"))], sources, {})
    return _jvm(java, folder)


def _jars(maven: str, folder: Path) -> list[str]:
    return [maven, "-B", "-q", "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]


def _jvm(java: str, folder: Path) -> list[str]:
    # What starts fast is what many short runs need.
    flags = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
    return [java, *flags, "-cp", os.pathsep.join([str(folder / "classes"), str(folder / "lib" / "*")]), "Peer"]


def tool(name: str) -> str:
    """Return the path of a tool.

    Raises:
        Absent: If it is not installed.
    """
    if found := shutil.which(name):
        return found
    raise Absent(f"{name} is not installed here")


def log(what: str) -> None:
    """Print progress."""
    print(f"peers: {what}", file=sys.stderr, flush=True)


@contextmanager
def _making(folder: Path, marker: str) -> Generator[bool]:
    """Tell whether the folder has to be filled, and leave the marker after that; one process fills it at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        is_needed = not (folder / marker).exists()
        yield is_needed
        if is_needed:
            (folder / marker).touch()


def _built(sources: Path) -> str:
    return f"built-{_digest(sorted(each for each in sources.rglob('*') if each.is_file()))}"


def _digest(files: Sequence[Path]) -> str:
    content = hashlib.sha256()
    for file in files:
        content.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return content.hexdigest()[:16]


def _fetch(command: Sequence[str], folder: Path) -> None:
    """Bring what a registry has."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=LONGEST_SECONDS)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise Absent(
            f"`{' '.join(command[:3])}` brought nothing from its registry: {lines[-1] if lines else 'no word'}"
        )


def _build(command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> None:
    """Build what is here: a compiler that fails is never a reason to skip."""
    env = {**os.environ, **variables}
    subprocess.run(command, cwd=folder, env=env, check=True, stdout=sys.stderr, timeout=LONGEST_SECONDS)
