"""The page about debugging an agent in an editor: its settings can be parsed, and its commands exist."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from duologue.cli.parser import make_parser
from duologue.cli.parsers.recordings import with_default_subcommand

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
TEXT = (PAGES / "debug-in-an-editor.md").read_text("utf-8")
TAP = ["tap", "--", "/path/to/my-agent", "--acp"]


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_the_settings_of_each_editor_start_the_tap() -> None:
    for block in _blocks("json"):
        (server,) = json.loads(block)["agent_servers"].values()
        assert [server["command"], *server["args"]] == ["/path/to/duologue", *TAP]
    for language, count in {"lua": 2, "elisp": 1}.items():
        blocks = _blocks(language)
        assert len(blocks) == count
        for block in blocks:
            words = re.findall(r'"([^"]+)"', block)
            assert words[words.index("/path/to/duologue") + 1 :] == TAP
            assert [block.count(sign) for sign in "([{"] == [block.count(sign) for sign in ")]}"]


@pytest.mark.parametrize("page", ["debug-in-an-editor.md", "import-logs.md"])
def test_every_command_of_the_page_is_understood(page: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    parser, commands = make_parser()
    text = (PAGES / page).read_text("utf-8")
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]

    assert lines
    for line in lines:
        words = shlex.split(line.partition("|")[0], comments=True)
        own = words[1 : words.index("--")] if "--" in words else words[1:]
        parser.parse_args(with_default_subcommand(own, commands["trace"]))
