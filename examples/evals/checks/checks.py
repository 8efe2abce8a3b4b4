"""Check the workspace of one of the thirty tasks: `python checks.py CASE`, in the workspace. It fails with a reason."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

SECONDS = 3
"""Time of the processor that a check may take."""
WAIT = 45
"""Seconds that a check may take in all; fewer than the suite gives its graders, and more than a busy machine needs."""


class Failed(Exception):
    """A check failed, for this reason."""


def module(name: str) -> Any:
    """Return a module of the workspace."""
    sys.path.insert(0, str(Path.cwd()))
    return importlib.import_module(name)


def expect(found: object, wanted: object) -> None:
    """Fail unless both are equal."""
    if found != wanted:
        raise Failed(f"expected {wanted!r}, found {found!r}")


def each(function: Callable[..., object], *pairs: tuple[object, object]) -> None:
    """Call a function with the first of each pair; it must return the second."""
    for given, wanted in pairs:
        found = function(*given) if isinstance(given, tuple) else function(given)
        if found != wanted:
            raise Failed(f"{function.__name__}({given!r}) is {found!r}, expected {wanted!r}")


def read(name: str) -> str:
    """Return the text of a file of the workspace."""
    return Path(name).read_text("utf-8")


def fix_range_sum() -> None:
    """Check that both ends are part of the sum."""
    each(module("ranges").sum_between, ((1, 3), 6), ((5, 5), 5), ((4, 3), 0), ((-2, 2), 0))


def fix_mutable_default() -> None:
    """Check that lists are not shared."""
    append_to = module("lists").append_to
    own: list[int] = []
    expect([append_to(1), append_to(2)], [[1], [2]])
    expect(append_to(3, own) is own and own, [3])


def fix_empty_mean() -> None:
    """Check the mean of nothing, and of numbers."""
    each(module("stats").mean, ([], None), ([1, 2], 1.5), ([0], 0))


def fix_leap_year() -> None:
    """Check centuries."""
    each(module("years").is_leap, (1900, False), (2000, True), (2024, True), (2023, False), (2100, False))


def fix_palindrome() -> None:
    """Check upper case, spaces and punctuation."""
    each(module("words").is_palindrome, ("Never odd, or even!", True), ("ab", False), ("", True), ("A1 1a", True))


def fix_binary_search() -> None:
    """Check each value, and values that are missing."""
    values = [1, 3, 5, 8, 13]
    pairs = [((values, value), at) for at, value in enumerate(values)]
    missing = [((values, value), -1) for value in (0, 2, 9, 99)]
    each(module("search").find, *pairs, *missing, ((list[int](), 1), -1))


def fix_money() -> None:
    """Check that amounts are exact."""
    each(module("invoice").total, (["0.1", "0.2"], Decimal("0.3")), ([], Decimal(0)), (["1.10"] * 3, Decimal("3.30")))


def fix_sort() -> None:
    """Check the order of names that differ in case."""
    each(module("names").sorted_names, (["Bob", "alice"], ["alice", "Bob"]), (["b", "B", "A"], ["A", "b", "B"]))


def write_slugify() -> None:
    """Check slugs."""
    each(module("slugs").slugify, ("Hello, World!", "hello-world"), ("--a  B--", "a-b"), ("!", ""), ("x9", "x9"))


def write_roman() -> None:
    """Check Roman numbers."""
    each(module("roman").to_roman, (1994, "MCMXCIV"), (3999, "MMMCMXCIX"), (4, "IV"), (1, "I"), (40, "XL"))


def write_chunks() -> None:
    """Check the pieces of a list."""
    each(module("chunks").chunks, (([1, 2, 3], 2), [[1, 2], [3]]), ((list[int](), 3), []), (([1], 5), [[1]]))


def write_word_count() -> None:
    """Check the words of a text."""
    each(module("counts").count_words, ("A b, a!", {"a": 2, "b": 1}), ("", {}), ("x1y", {"x": 1, "y": 1}))


def write_flatten() -> None:
    """Check lists in lists, also very deep ones."""
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    flatten = module("nested").flatten
    expect(flatten([1, [2, [3, []], 4]]), [1, 2, 3, 4])
    expect(flatten([deep, 1]), [1])


def write_run_length() -> None:
    """Check runs, and that decoding restores the text."""
    runs = module("runs")
    expect([tuple(pair) for pair in runs.encode("aabccc")], [("a", 2), ("b", 1), ("c", 3)])
    for text in ("", "x", "aaaabbb1"):
        expect(runs.decode(runs.encode(text)), text)


def write_lru() -> None:
    """Check what the cache forgets."""
    cache = module("cache").Cache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    expect(cache.get("a"), 1)
    cache.put("c", 3)
    expect([cache.get(key) for key in "abc"], [1, None, 3])
    cache.put("a", 9)
    expect(cache.get("a"), 9)


def write_duration() -> None:
    """Check durations, and texts that are none."""
    seconds = module("durations").seconds
    each(seconds, ("1h30m", 5400), ("45s", 45), ("2h5s", 7205), ("0m", 0))
    for wrong in ("", "1", "5m1h", "1.5h", "h"):
        try:
            seconds(wrong)
        except ValueError:
            continue
        raise Failed(f"seconds({wrong!r}) raised no ValueError")


def rename_function() -> None:
    """Check the new name, and that the old one is gone."""
    expect(module("shop").receipt(100), "total 120")
    expect(module("prices").price_with_tax(50), 60)
    expect("calc" in read("prices.py") + read("shop.py"), False)


def extract_constant() -> None:
    """Check that the number is written once."""
    times = module("times")
    expect((times.days(172801), times.rest(172801), times.SECONDS_OF_DAY), (2, 1, 86400))
    expect(read("times.py").count("86400"), 1)


def split_module() -> None:
    """Check where the function is defined."""
    shapes = module("shapes")
    expect((shapes.area(2, 3), shapes.outline(2, 3)), (6, 10))
    expect(shapes.area.__module__, "areas")


def remove_dead_code() -> None:
    """Check that the program still works without the other functions."""
    ended = subprocess.run([sys.executable, "main.py"], capture_output=True, text=True, check=True, timeout=30)
    expect(ended.stdout, "42\n")
    expect([name for name in ("old_double", "unused") if name in read("tools.py")], [])


def sort_json() -> None:
    """Check the order of the objects."""
    expect([found["name"] for found in json.loads(read("sorted.json"))], ["Bo", "Al", "Cy"])


def csv_totals() -> None:
    """Check the totals."""
    expect(json.loads(read("totals.json")), {"ann": 12, "bob": 2})


def merge_settings() -> None:
    """Check the merged settings."""
    expect(json.loads(read("merged.json")), {"log": {"level": "debug", "file": "app.log"}, "port": 80})


def count_errors() -> None:
    """Check the number, which a search for the word alone gets wrong."""
    expect(read("errors.txt").strip(), "2")


def repair_json() -> None:
    """Check the values."""
    expect(json.loads(read("settings.json")), {"debug": True, "ports": [80, 443]})


def remove_duplicates() -> None:
    """Check the lines."""
    expect(read("hosts.txt").split(), ["a.example", "b.example", "c.example"])


def bump_version() -> None:
    """Check the version, and that the one of the dependency is as before."""
    expect(read("VERSION").strip(), "1.3.0")
    expect('version = "1.3.0"' in read("pyproject.toml") and "cup==1.2.9" in read("pyproject.toml"), True)


def changelog_entry() -> None:
    """Check the order of the sections."""
    text = read("CHANGELOG.md")
    parts = ["# Changelog", "## 1.3.0", "Tea can be iced.", "## 1.2.9", "Cups are larger."]
    positions = [text.find(part) for part in parts]
    expect(positions, sorted(positions))
    expect(-1 in positions, False)


def ignore_files() -> None:
    """Check what Git ignores, if there is Git; else the lines."""
    lines = read(".gitignore").split()
    expect("*.log" in lines and "*.pyc" in lines and bool({"build", "build/", "/build", "/build/"} & set(lines)), True)


def write_script() -> None:
    """Run the script."""
    Path("four.txt").write_text("1\n2\n3\n4\n")
    for name, wanted in (("poem.txt", "3"), ("four.txt", "4")):
        ended = subprocess.run(["sh", "count.sh", name], capture_output=True, text=True, check=False, timeout=30)
        expect(ended.stdout.strip(), wanted)


def main(case: str) -> int:
    """Check a case in a process of its own; return 0 only if that process says that it got to the end of the check.

    A program that ends the check in any way, with whatever exit code, has failed: it has not said so.
    """
    evidence, pipe = os.urandom(16), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(pipe[0])
        check(case)
        os.write(pipe[1], evidence)
        os._exit(0)
    os.close(pipe[1])
    # The check limits itself, unless the program has changed that; this is after its own limits.
    signal.signal(signal.SIGALRM, lambda number, frame: os.kill(pid, signal.SIGKILL))
    signal.alarm(WAIT + 5)
    _, status = os.waitpid(pid, 0)
    os.set_blocking(pipe[0], False)
    try:
        found = os.read(pipe[0], len(evidence))
    except BlockingIOError:  # something that the program has left behind keeps it open
        found = b""
    if found != evidence and os.waitstatus_to_exitcode(status) != 1:
        sys.stderr.write(f"the program ended the check ({os.waitstatus_to_exitcode(status)})\n")
    return 0 if found == evidence else 1


def check(case: str) -> None:
    """Check a case; end this process with the reason if it fails."""
    # Its own time is limited, so that a busy machine changes nothing; a program that only waits uses none.
    signal.signal(signal.SIGVTALRM, lambda number, frame: end(f"it did not end within {SECONDS} s"))
    signal.signal(signal.SIGALRM, lambda number, frame: end(f"it did not end within {WAIT} s"))
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, WAIT)
    try:
        globals()[case.replace("-", "_")]()
    except Failed as failed:
        end(str(failed))
    except SystemExit as ended:
        end(f"the program ended the check ({ended.code})")


def end(reason: str) -> NoReturn:
    """End this process at once, with the reason."""
    os.write(2, f"{reason}\n".encode("utf-8", "backslashreplace"))
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
