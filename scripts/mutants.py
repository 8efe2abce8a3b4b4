"""Show that the tests notice faults: break the source, one text replacement at a time, and run the tests named for it.

    python -m scripts.mutants                    every mutation of tests/mutations/*.toml
    python -m scripts.mutants --count 5          five of them, spread evenly over the list
    python -m scripts.mutants permissions host   only those whose id contains one of these words

A mutation is killed when one of its tests fails; one that survives is a promise that no test guards. Mutation testers
such as mutmut and cosmic-ray generate their mutations and run the whole suite for each. Ours are written by hand: each
breaks one check of a security boundary and names the tests that guard it, so that all of them fit into minutes. Every
run works on a copy of the tree; the checkout is never changed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import venv
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Self

import msgspec

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "mutations"

COPIED = ("src", "tests", "scripts", "examples", "benchmarks", "docs", "pyproject.toml", "README.md", "CHANGELOG.md")
NOT_COPIED = shutil.ignore_patterns("__pycache__", "node_modules", "target", ".venv*")

# A mutation may make a test wait for something that never comes. That counts as killed, but should end soon.
TEST_SECONDS = 60
RUN_SECONDS = 240

REQUIRED_SCORE = 97
"""Percent of the mutations that the tests must kill."""


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """One fault to plant: `old` becomes `new` in `file`, and one of `tests` must fail."""

    id: str
    file: str
    old: str
    new: str
    promise: str
    tests: tuple[str, ...]

    def apply_to(self, text: str) -> str:
        """Return the mutated source.

        Raises:
            ValueError: `old` does not occur exactly once, or replacing it changes nothing.
        """
        found = text.count(self.old)
        if found != 1 or self.old == self.new:
            raise ValueError(f"{self.id}: the text to replace occurs {found} times in {self.file}; it must occur once")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Outcome:
    """How the tests of one mutation ended."""

    mutation: Mutation
    verdict: str
    seconds: float
    output: str

    @property
    def is_killed(self) -> bool:
        """Return True if the tests noticed the fault."""
        return self.verdict == "killed"


def read_mutations(folder: Path = FOLDER) -> list[Mutation]:
    """Read every mutation of the folder's TOML files, in the order of file names and of the files."""
    tables = [
        table for path in sorted(folder.glob("*.toml")) for table in tomllib.loads(path.read_text("utf-8"))["mutation"]
    ]
    return [msgspec.convert(table, Mutation) for table in tables]


def spread(mutations: list[Mutation], count: int) -> list[Mutation]:
    """Return `count` mutations, evenly spaced, so that a small run touches many modules."""
    if count >= len(mutations):
        return mutations
    return [mutations[index * len(mutations) // count] for index in range(count)]


class Workbench:
    """Copies of the tree, one for each worker, in which mutations are tried.

    Args:
        workers: How many mutations are tried at the same time.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._folder = Path(tempfile.mkdtemp(prefix="duologue-mutants-"))
        self._copies: SimpleQueue[Path] = SimpleQueue()

    def __enter__(self) -> Self:
        for number in range(self._workers):
            copy = self._folder / str(number)
            copy.mkdir()
            for name in COPIED:
                source = ROOT / name
                if source.is_dir():
                    shutil.copytree(source, copy / name, ignore=NOT_COPIED, symlinks=True)
                else:
                    shutil.copy2(source, copy / name)
            _make_interpreter(copy)
            self._copies.put(copy)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def try_all(self, mutations: Iterable[Mutation]) -> Iterable[Outcome]:
        """Yield the outcome of each mutation as it is known."""
        with ThreadPoolExecutor(self._workers) as pool:
            yield from pool.map(self._try, mutations)

    def check_baseline(self, mutations: Iterable[Mutation]) -> str | None:
        """Run all named tests on the unchanged source; return their output if they fail, which proves nothing then."""
        copy = self._copies.get()
        try:
            code, output = _run_tests(copy, tuple(dict.fromkeys(test for m in mutations for test in m.tests)), 3600)
        finally:
            self._copies.put(copy)
        return output if code else None

    def _try(self, mutation: Mutation) -> Outcome:
        copy = self._copies.get()
        path = copy / mutation.file
        original = path.read_text("utf-8")
        began = time.monotonic()
        try:
            _write_source(path, mutation.apply_to(original))
            code, output = _run_tests(copy, mutation.tests, RUN_SECONDS)
        finally:
            _write_source(path, original)
            self._copies.put(copy)
        # 1: tests failed; -1: a test hung, which is noticed too. Anything else is a mistake in the list.
        verdict = {0: "survived", 1: "killed", -1: "killed"}.get(code, "unusable")
        return Outcome(mutation, verdict, time.monotonic() - began, output)


def _make_interpreter(copy: Path) -> None:
    """Give a copy an interpreter of its own: programs that tests start without our environment import the copy, too."""
    venv.create(copy / ".venv", symlinks=True)
    [packages] = (copy / ".venv" / "lib").glob("python*/site-packages")
    ours = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    lines = [f"{copy / 'src'}", *(f"import site; site.addsitedir({path!r})" for path in sorted(ours))]
    (packages / "copy.pth").write_text("\n".join(lines), "utf-8")


def _write_source(path: Path, text: str) -> None:
    """Write a module and remove its bytecode, whose time stamp does not tell two changes in one second apart."""
    path.write_text(text, "utf-8")
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        compiled.unlink()


def _run_tests(copy: Path, tests: tuple[str, ...], seconds: float) -> tuple[int, str]:
    command = [
        *(
            str(copy / ".venv" / "bin" / "python"),
            "-m",
            "pytest",
            "-x",
            "-q",
            "--no-header",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
        ),
        *(f"--timeout={TEST_SECONDS}", "--tb=native", *tests),
    ]
    try:
        done = subprocess.run(
            command,
            check=False,
            cwd=copy,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as error:
        return -1, str(error)
    return done.returncode, done.stdout


def main(arguments: list[str] | None = None) -> int:
    """Try the mutations that were asked for and print a line for each; return 1 if too few are killed."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.mutants", description="Plant faults; the tests must notice."
    )
    parser.add_argument("words", nargs="*", help="only mutations whose id contains one of these words")
    parser.add_argument("--count", type=int, help="only so many, spread evenly")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(arguments)

    mutations = [m for m in read_mutations() if not given.words or any(word in m.id for word in given.words)]
    chosen = mutations if given.count is None else spread(mutations, given.count)
    began = time.monotonic()
    with Workbench(given.workers) as bench:
        if (failure := bench.check_baseline(chosen)) is not None:
            print(failure)
            print("the named tests fail without any mutation: nothing can be shown")
            return 1
        outcomes: list[Outcome] = []
        for outcome in bench.try_all(chosen):
            outcomes.append(outcome)
            print(
                f"[{len(outcomes)}/{len(chosen)}] {outcome.verdict:9} {outcome.seconds:5.1f} s  {outcome.mutation.id}",
                flush=True,
            )
            if not outcome.is_killed:
                print(f"    {outcome.mutation.file}: {outcome.mutation.promise}")
                print("    " + "\n    ".join(outcome.output.splitlines()[-6:]))
    return _summary(outcomes, time.monotonic() - began)


def _summary(outcomes: list[Outcome], seconds: float) -> int:
    killed = sum(outcome.is_killed for outcome in outcomes)
    score = 100 * killed / len(outcomes) if outcomes else 0.0
    print(
        f"{killed} of {len(outcomes)} mutations killed ({score:.1f} %, {REQUIRED_SCORE} % required) in {seconds:.0f} s"
    )
    unusable = [outcome for outcome in outcomes if outcome.verdict == "unusable"]
    return 1 if score < REQUIRED_SCORE or unusable else 0


if __name__ == "__main__":
    sys.exit(main())
