"""Files of a project that are not what they should be: the agent reads nothing it must not, and goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from duologue.testing import ModelServer, ModelTurn, RequestPattern
from tests.coder.client import coding

ODD: dict[str, Callable[[Path], object]] = {
    "a link to secrets": lambda file: file.symlink_to(".env"),
    "a link to another directory": lambda file: file.symlink_to("../other.txt"),
    "a link to itself": lambda file: file.symlink_to(file.name),
    "a directory": lambda file: file.mkdir(),
    "not text": lambda file: file.write_bytes(b"\xff\xfe\x00"),
}

SKILLS = {
    "no front matter": "Run hunter2.\n",
    "no YAML": "---\n\t: [\n---\n",
    "another type": "---\n- name\n---\n",
    "a name of another directory": "---\nname: ../../other\ndescription: x\n---\n",
}


@pytest.mark.parametrize("odd", ODD)
async def test_instructions_that_are_not_to_be_read_do_not_stop_the_agent(project: Path, odd: str) -> None:
    (project / ".env").write_text("PASSWORD=hunter2\n")
    (project.parent / "other.txt").write_text("hunter2\n")
    ODD[odd](project / "AGENTS.md")
    script = [ModelTurn("Hello.", expect=RequestPattern(absent="hunter2"))]
    async with asyncio.timeout(120), ModelServer(script) as server, coding(project, server) as session:
        assert (await session.prompt("hello")).text == "Hello."
        server.check()


@pytest.mark.filterwarnings("default::UserWarning")  # the library says so on stderr
@pytest.mark.parametrize("damage", SKILLS)
async def test_a_damaged_skill_does_not_stop_the_agent(project: Path, damage: str) -> None:
    skill = project / ".agents/skills/release/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(SKILLS[damage])
    script = [ModelTurn("Hello.", expect=RequestPattern(absent="hunter2"))]
    async with asyncio.timeout(120), ModelServer(script) as server, coding(project, server) as session:
        assert (await session.prompt("hello")).text == "Hello."
        server.check()
