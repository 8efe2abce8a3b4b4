"""The examples with a scripted model."""

from __future__ import annotations

import asyncio
from pathlib import Path

from duologue.testing import MODEL_FAULTS, ModelServer
from tests.testing.models.clients import openai_client
from tests.testing.test_plugin import ASYNCIO_STRICT, EXAMPLES, run_pytest


def test_the_example_without_a_key_passes(tmp_path: Path) -> None:
    tests = (EXAMPLES / "test_without_a_key.py").read_text("utf-8")
    # Without rewriting the assertions of every package: they import much.
    code, output = run_pytest(tmp_path, tests, ASYNCIO_STRICT, "--assert=plain")

    assert (code, "5 passed" in output) == (0, True), output


async def test_the_example_of_a_file_answers() -> None:
    async with asyncio.timeout(60), ModelServer(EXAMPLES / "model.toml") as server, openai_client(server) as client:
        answers = [
            await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "the weather?"}])
            for _ in range(2)
        ]

    assert {answer.choices[0].message.content for answer in answers} == {"I know nothing about the weather."}


def test_every_fault_is_described_in_the_reference() -> None:
    page = (EXAMPLES.parent / "docs" / "reference" / "model-servers.md").read_text("utf-8")

    assert [name for name, effect in MODEL_FAULTS.items() if f"| `{name}` | {effect} |" not in page] == []
