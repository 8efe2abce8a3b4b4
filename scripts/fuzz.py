"""Coverage-guided fuzzing of everything that reads a peer's bytes.

One rule: bytes become a message or one of our named errors; never another exception, never a hang. `make fuzz` runs
each target for a while; a finding is written to `crash-*` and becomes a fixed case in the tests.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from collections.abc import Callable
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
    """A frame is a message, or malformed."""
    try:
        codec.parse(data)
    except codec.Malformed:
        pass


def receive_frames(data: bytes) -> None:
    """A peer survives any frames, and whatever it answers is JSON."""
    end = peer.Peer(first="initialize", skips_noise=bool(data and data[0] & 1))
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


def _shapes(version: Any) -> list[type[Model]]:
    found: dict[type[Model], None] = {}
    for constant in vars(version).values():
        if isinstance(constant, Method | Notification):
            found[constant.params] = None
        if isinstance(constant, Method):
            found[constant.result] = None
    return list(found)


SHAPES = [*_shapes(v1), *_shapes(v2)]


def read_params(data: bytes) -> None:
    """Raw parameters are a typed value or invalid; a typed value can be written and read again."""
    shape = SHAPES[int.from_bytes(data[:2], "big") % len(SHAPES)]
    try:
        value = decode(shape, data[2:])
    except InvalidParams:
        return
    assert decode(shape, encode(value)) == value


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target for target in (frame_any_slices, parse_frame, receive_frames, read_params)
}


def fuzz_one(name: str, options: list[str]) -> None:
    """Fuzz one target in this process; does not return."""
    atheris = importlib.import_module("atheris")
    atheris.instrument_all()
    atheris.Setup([sys.argv[0], *options], TARGETS[name])
    atheris.Fuzz()


def main() -> int:
    """Every target in a process of its own, one after the other."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=int, default=60, help="for each target")
    arguments.add_argument("--only", choices=TARGETS, help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.only:
        limits = [f"-timeout={SLOWEST_INPUT}", f"-rss_limit_mb={MOST_MEMORY}", "-max_len=4096", "-verbosity=0"]
        fuzz_one(chosen.only, [f"-max_total_time={chosen.seconds}", "-print_final_stats=1", *limits])
    failed: list[str] = []
    for name in TARGETS:
        print(f"== {name}", flush=True)
        again = [sys.executable, "-m", "scripts.fuzz", "--only", name, "--seconds", str(chosen.seconds)]
        if subprocess.run(again, check=False).returncode:
            failed.append(name)
    print("failed: " + ", ".join(failed) if failed else "no findings")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
