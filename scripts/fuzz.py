"""Coverage-guided fuzzing of everything that reads a peer's bytes.

One rule: bytes become a message or one of our named errors; never another exception, never a hang. `make fuzz` runs
each target for a while; a finding is written to `crash-*` and becomes a fixed case in the tests.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from duologue.errors import InvalidParams, MessageTooLarge
from duologue.jsonrpc import codec, framing, peer
from duologue.schema import v1, v2
from duologue.schema.base import Method, Model, Notification
from duologue.schema.codec import decode, encode

SLOWEST_INPUT = 10
"""Seconds after which one input counts as a hang."""

MOST_MEMORY = 2048
"""MiB; an input of a few KiB has no business near it."""

SMALL_LIMIT = 64
"""So that the fuzzer meets over-long lines long before it has learnt to write long ones."""


def frame_any_slices(data: bytes) -> None:
    """However a stream is sliced, the frames are the same."""
    cut, stream = (data[0], data[1:]) if data else (0, b"")
    whole = _frames(stream, len(stream) or 1)
    assert _frames(stream, cut % 7 + 1) == whole


def _frames(stream: bytes, step: int) -> list[bytes] | None:
    framer = framing.LineFramer(SMALL_LIMIT)
    frames: list[bytes] = []
    try:
        for start in range(0, len(stream), step):
            frames += framer.feed(stream[start : start + step])
        return frames + framer.finish()
    except MessageTooLarge:
        return None


def parse_frame(data: bytes) -> None:
    """Check that every frame is a message or malformed."""
    try:
        codec.parse(data)
    except codec.Malformed:
        pass


def receive_frames(data: bytes) -> None:
    """Check that a peer survives any frames and answers with JSON only."""
    end = peer.Peer(first_method="initialize", ignore_stray_output=bool(data and data[0] & 1))
    pending = [end.request("session/prompt", {}, n)[0] for n in range(3)]
    try:
        for frame in data[1:].split(b"\n"):
            end.receive(frame)
    except MessageTooLarge:
        pass
    for reply in end.frames_to_send():
        assert b"\n" not in reply
        msgspec.json.decode(reply)
    assert end.pending <= len(pending)


CLASSES: list[type[Model]] = [
    thing
    for version in (v1, v2)
    for thing in vars(version).values()
    if isinstance(thing, type) and issubclass(thing, Model)
]
METHODS: list[Method[Any, Any] | Notification[Any]] = [
    thing for version in (v1, v2) for thing in vars(version).values() if isinstance(thing, Method | Notification)
]


def read_params(data: bytes) -> None:
    """Raw parameters are a typed value or invalid; a typed value can be written and read again."""
    shape = CLASSES[int.from_bytes(data[:2], "big") % len(CLASSES)]
    try:
        value = decode(shape, data[2:])
    except InvalidParams:
        return
    assert decode(shape, encode(value)) == value


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target for target in (frame_any_slices, parse_frame, receive_frames, read_params)
}


def write_vocabulary(path: Path) -> None:
    """Write words that a fuzzer would rarely guess: names of fields, methods and variants, and JSON syntax."""
    words = {
        *("{}", "[]", '{"', '":', ",", "null", "true", "false", "1e999", "-0", "\\ud800", '"jsonrpc":"2.0"', '"id":1')
    }
    words |= {f'"{method.name}"' for method in METHODS}
    for shape in CLASSES:
        words |= {f'"{field.encode_name}"' for field in msgspec.structs.fields(shape)}
        words |= {f'"{shape.__struct_config__.tag}"'}
    escaped = (word.replace("\\", "\\\\").replace('"', '\\"') for word in sorted(words))
    path.write_text("".join(f'"{word}"\n' for word in escaped), "utf-8")


def write_seeds(directory: Path) -> None:
    """Write initial inputs for all targets; the first two bytes select a type in one of them."""
    directory.mkdir()
    for n, shape in enumerate(CLASSES):
        fields = {field.encode_name: "x" for field in msgspec.structs.fields(shape) if field.required}
        (directory / f"shape-{n}").write_bytes(n.to_bytes(2, "big") + msgspec.json.encode(fields))
    for n, method in enumerate(METHODS):
        envelope = {"jsonrpc": "2.0", "id": n, "method": method.name, "params": {"sessionId": "s"}}
        (directory / f"method-{n}").write_bytes(msgspec.json.encode(envelope))
        (directory / f"line-{n}").write_bytes(b"\1" + msgspec.json.encode(envelope) + b"\n")


def fuzz_one(name: str, directory: Path, seconds: int) -> None:
    """Fuzz one target in this process, which does not outlive it."""
    atheris = importlib.import_module("atheris")
    atheris.instrument_all()
    limits = [
        f"-max_total_time={seconds}",
        f"-timeout={SLOWEST_INPUT}",
        f"-rss_limit_mb={MOST_MEMORY}",
        "-max_len=4096",
    ]
    flags = ["-verbosity=0", "-print_final_stats=1"]
    corpus = [f"-dict={directory / 'words'}", str(directory / "seeds")]
    atheris.Setup([sys.argv[0], *limits, *flags, *corpus], TARGETS[name])
    atheris.Fuzz()


def fuzz_all(seconds: int) -> list[str]:
    """Fuzz every target in a process of its own; return the names of those that failed."""
    failed: list[str] = []
    for name in TARGETS:
        print(f"== {name}", flush=True)
        with tempfile.TemporaryDirectory() as directory:
            write_vocabulary(Path(directory) / "words")
            write_seeds(Path(directory) / "seeds")
            again = [
                sys.executable,
                "-m",
                "scripts.fuzz",
                "--seconds",
                str(seconds),
                "--only",
                name,
                "--from",
                directory,
            ]
            if subprocess.run(again, check=False).returncode:
                failed.append(name)
    return failed


def main() -> int:
    """Fuzz and say what was found."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=int, default=60, help="for each target")
    arguments.add_argument("--only", choices=TARGETS, help=argparse.SUPPRESS)
    arguments.add_argument("--from", dest="directory", type=Path, help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.only:
        fuzz_one(chosen.only, chosen.directory, chosen.seconds)
    failed = fuzz_all(chosen.seconds)
    print("failed: " + ", ".join(failed) if failed else "no findings")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
