"""Write the reference of the command line from its parser and its exit codes: `python -m scripts.cli_reference`.

`tests/cli/test_reference.py` fails when somebody changed a command and forgot this.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from duologue.cli.chatting import LOCAL_COMMANDS
from duologue.cli.codes import MEANINGS
from duologue.cli.parser import each_command

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"

INTRODUCTION = """\
# The command line

The agent of `run`, `chat` and `sessions` is a command after `--`, a name (`--agent`; `duologue agents` lists them), or
the built-in one. Data goes to stdout and talk to stderr; colours and Markdown are for terminals only, and `NO_COLOR`
and `TERM=dumb` are heard. How-tos: [in scripts and CI](../how-to/scripts-and-ci.md), [chat](../how-to/chat.md).

<!-- This page is written by `python -m scripts.cli_reference`. -->
"""


def reference() -> str:
    """The whole page."""
    sections = [_section(name, told, parser) for name, (told, parser) in each_command().items()]
    return "\n".join([INTRODUCTION, *sections, _local_commands(), _codes()])


def _section(name: str, told: str, parser: argparse.ArgumentParser) -> str:
    parts = [f"## `duologue {name}`\n", f"{parser.description or told}\n"]
    for group in parser._action_groups:
        rows = [_row(action) for action in group._group_actions if not isinstance(action, argparse._HelpAction)]
        if rows:
            heading = "" if group.title in ("positional arguments", "options") else f" ({group.title})"
            parts.append(f"| option{heading} | what it does |\n|---|---|\n" + "\n".join(rows) + "\n")
    if parser.epilog:
        parts.append(f"```console\n$ {parser.epilog.partition(chr(10))[0].removeprefix('example: ')}\n```\n")
    return "\n".join(parts)


def _row(action: argparse.Action) -> str:
    value = action.metavar or ("" if action.choices is None else "{" + ",".join(map(str, action.choices)) + "}")
    names = [f"{option} {value}".rstrip() if action.nargs != 0 else option for option in action.option_strings]
    shown = ", ".join(names) or str(value)
    again = " (may be given again)" if isinstance(action, argparse._AppendAction) else ""
    return f"| `{shown.replace('|', chr(92) + '|')}` | {action.help}{again} |"


def _local_commands() -> str:
    rows = [f"| `{f':{name} {argument}'.rstrip()}` | {told} |" for name, (argument, told) in LOCAL_COMMANDS.items()]
    return "## What can be typed in a chat\n\n| line | what it does |\n|---|---|\n" + "\n".join(rows) + "\n"


def _codes() -> str:
    rows = [f"| {int(code)} | {told} |" for code, told in MEANINGS.items()]
    return (
        "## Exit codes\n\nA number never changes its meaning.\n\n| code | meaning |\n|---|---|\n"
        + "\n".join(rows)
        + "\n"
    )


if __name__ == "__main__":
    PAGE.write_text(reference(), "utf-8")
