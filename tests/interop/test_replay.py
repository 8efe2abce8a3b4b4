"""The clients of the official SDKs talk to a recording of themselves, made by the tap."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from tests.interop.sdks import Json, SdkClient

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180, func_only=True)]

PROGRAM = [sys.executable, "-m", "duologue.cli.main"]
FILES: Json = {"fs": {"readTextFile": True, "writeTextFile": True}}


def test_a_client_gets_the_recorded_turns_again(sdk_client: SdkClient) -> None:
    recording = str(sdk_client.folder / "run.acp")
    agent = [*PROGRAM, "agent", "--sessions", str(sdk_client.folder / "store")]
    steps = ["prompt", "/stream 50"], ["prompt", "/permission"], ["prompt", "/read notes.md"]
    answers: Json = {"permission": "allow_once", "files": {str(sdk_client.cwd / "notes.md"): "the text"}}
    tapped = replace(sdk_client, command=[*PROGRAM, "tap", "-o", recording, "--", *agent])
    replayed = replace(sdk_client, command=[*PROGRAM, "trace", "replay", recording, "--as", "agent"])

    first = tapped.play(*steps, capabilities=FILES, answers=answers)
    again = replayed.play(*steps, capabilities=FILES, answers=answers)

    assert [step.error for step in first.steps] == [None] * 5
    assert [(step.result, step.text) for step in again.steps] == [(step.result, step.text) for step in first.steps]
    assert [ask["method"] for ask in again.asked] == [ask["method"] for ask in first.asked]
