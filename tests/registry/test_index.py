"""Indexes of each generation of the registry's format are read; what is not valid is left out by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from duologue.registry.index import MAX_INDEX_BYTES, RegistryError, platform_name, read_index

INDEXES = Path(__file__).parent / "indexes"
GEMINI = {
    "id": "gemini",
    "name": "Gemini CLI",
    "version": "0.61.0",
    "description": "Google's CLI",
    "distribution": {"npx": {"package": "@google/gemini-cli@0.61.0", "args": ["--acp"]}},
}


def index(*agents: Any, **more: Any) -> bytes:
    return json.dumps({"version": "1.0.0", "agents": agents, **more}).encode()


@pytest.mark.parametrize("generation", ["2025", "2026-early", "2026"])
def test_an_index_of_each_generation_is_read_without_problems(generation: str) -> None:
    read = read_index((INDEXES / f"{generation}.json").read_bytes(), generation)

    assert read.problems == []
    assert {"example-binary", "example-npx", "example-uvx"} <= read.agents.keys()


def test_the_former_kind_bunx_is_ignored_and_the_others_are_offered() -> None:
    read = read_index((INDEXES / "2025.json").read_bytes(), "2025")

    assert read.agents["example-npx"].distribution.kinds() == ["npx"]


def test_checksums_commands_and_previews_of_the_newest_generation_are_read() -> None:
    agents = read_index((INDEXES / "2026.json").read_bytes(), "2026").agents

    assert agents["example-binary"].distribution.binary["linux-x86_64"].sha256 == "0" * 64
    assert (agents["example-uvx"].distribution.uvx or 0) != 0
    preview = agents["example-npx"].preview
    assert preview is not None
    assert (preview.version, preview.distribution.kinds()) == ("2.0.0-rc.1", ["npx"])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"id": "../etc"}, "Expected `str` matching"),
        ({"id": "Gemini"}, "Expected `str` matching"),
        ({"version": "latest"}, "Expected `str` matching"),
        ({"distribution": None}, "Expected `object`, got `null` - at `$.distribution`"),
        ({"distribution": {"npx": {"package": ""}}}, "`$.distribution.npx.package`"),
        ({"distribution": {"npx": {"package": "x", "args": ["a\0b"]}}}, "`$.distribution.npx.args[0]`"),
        ({"distribution": {"binary": {"linux-x86_64": {"archive": "http://a/b", "cmd": "x"}}}}, ".archive`"),
        (
            {"distribution": {"binary": {"linux-x86_64": {"archive": "https://a/b", "cmd": "x", "sha256": "1"}}}},
            ".sha256`",
        ),
        ({"name": "n" * 2001}, "length <= 2000 - at `$.name`"),
    ],
)
def test_an_invalid_entry_is_left_out_with_its_reason_and_the_others_stay(change: dict[str, Any], problem: str) -> None:
    read = read_index(index({**GEMINI, **change}, {**GEMINI, "id": "other"}), "test")

    assert list(read.agents) == ["other"]
    assert len(read.problems) == 1
    assert problem in read.problems[0]


def test_of_two_entries_with_one_id_the_first_counts() -> None:
    read = read_index(index(GEMINI, {**GEMINI, "version": "9.9.9"}), "test")

    assert read.agents["gemini"].version == "0.61.0"
    assert read.problems == ["entry 1 ('gemini'): the id is used twice; the first entry counts"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is not an index of agents"),
        (b"<html>", "is not an index of agents"),
        (b"[]", "is not an index of agents"),
        (b'{"version": "1.0.0"}', "it has no list `agents`"),
        (b'{"version": "1.0.0", "agents": [1]}', "is not an index of agents"),
        (b'{"version": "2.0.0", "agents": []}', "this duologue reads version 1: update duologue"),
        (b'{"version": "\xff"}', "is not an index of agents"),
        (b"[" * 100_000, "is not an index of agents"),
        (b" " * (MAX_INDEX_BYTES + 1), "at most 16,777,216 are read"),
    ],
)
def test_a_file_without_an_index_is_refused_in_a_sentence(data: bytes, reason: str) -> None:
    with pytest.raises(RegistryError, match="mirror") as caught:
        read_index(data, "mirror")
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("system", "machine", "name"),
    [
        ("linux", "x86_64", "linux-x86_64"),
        ("darwin", "arm64", "darwin-aarch64"),
        ("win32", "AMD64", "windows-x86_64"),
        ("freebsd14", "riscv64", "freebsd14-riscv64"),
    ],
)
def test_a_platform_has_the_name_that_the_registry_uses(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str, name: str
) -> None:
    monkeypatch.setattr("sys.platform", system)
    monkeypatch.setattr("platform.machine", lambda: machine)

    assert platform_name() == name
