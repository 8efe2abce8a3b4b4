"""The agents that are known by name, and the editors that are described."""

from __future__ import annotations

from pathlib import Path

import pytest

from duologue.config.agents import KNOWN_COMMANDS, KNOWN_VARIABLES, find_agents

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "editors.md"


@pytest.mark.parametrize("name", ["claude-code", "gemini", "goose", "junie", "stakpak", "vtcode"])
def test_every_agent_that_seed_001_names_is_known_by_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, *args = KNOWN_COMMANDS[name]
    program = tmp_path / command
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DUOLOGUE_CONFIG", str(tmp_path / "none.toml"))
    found = find_agents()[name]

    assert (found.source, found.command_line) == ("path", [command, *args])
    assert dict(found.config.get("env", {})) == dict(KNOWN_VARIABLES.get(name, {}))


def test_every_variable_belongs_to_a_known_agent() -> None:
    assert KNOWN_VARIABLES.keys() <= KNOWN_COMMANDS.keys()


@pytest.mark.parametrize("editor", ["Zed", "JetBrains", "Emacs", "marimo", "Neovim"])
def test_every_editor_that_seed_001_names_has_a_section_of_its_own(editor: str) -> None:
    page = PAGE.read_text("utf-8")

    assert f"\n## {editor}\n" in page
    if editor == "Neovim":
        section = page.partition("## Neovim")[2].partition("\n## ")[0]
        assert "codecompanion" in section
        assert "avante" in section
