"""Write the reference of the command line from its parser and its exit codes: `python -m scripts.cli_reference`.

One page for all commands, and one for each. `tests/cli/test_reference.py` fails when the pages do not match the parser.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from duologue.cli.chat.local_commands import LOCAL_COMMANDS
from duologue.cli.exit_codes import ExitCode
from duologue.cli.parser import each_command, subcommands

FOLDER = Path(__file__).parents[1] / "docs" / "reference"

OTHER_ACTIONS = (argparse._HelpAction, argparse._SubParsersAction)
"""Actions that have no row in a table: the help, and the choice of a subcommand, which has a section."""

NOTE = "<!-- This page is written by `python -m scripts.cli_reference`. -->\n"

HEADER = f"""\
# The command line

{NOTE}
The agent of `run`, `chat` and `sessions` is a command after `--`, a name (`--agent`; `duologue agents` lists them), or
the built-in one. Data goes to stdout, messages go to stderr. Colours and Markdown appear on terminals only; `NO_COLOR`
and `TERM=dumb` switch them off. How-tos: [in scripts and CI](../how-to/scripts-and-ci.md),
[chat](../how-to/chat.md).
"""


def pages() -> dict[Path, str]:
    """Return every page with its text."""
    commands = each_command()
    of_commands = {FOLDER / "cli" / f"{name}.md": _page(name, *command) for name, command in commands.items()}
    return {FOLDER / "cli.md": _overview(commands), **of_commands}


def _overview(commands: dict[str, tuple[str, argparse.ArgumentParser]]) -> str:
    rows = [f"| [`duologue {name}`](cli/{name}.md) | {text} |" for name, (text, _) in commands.items()]
    listed = "| command | what it is for |\n|---|---|\n" + "\n".join(rows) + "\n"
    return "\n".join([HEADER, listed, _local_commands(), _codes()])


def _page(name: str, text: str, parser: argparse.ArgumentParser) -> str:
    parts = [f"# `duologue {name}`\n", NOTE, f"{parser.description or text}\n", *_options(parser)]
    for each, (help_text, subparser) in subcommands(parser).items():
        parts += [f"## `duologue {name} {each}`\n", f"{subparser.description or help_text}\n", *_options(subparser)]
    parts.append("[Exit codes and the other commands](../cli.md#exit-codes)\n")
    return "\n".join(parts)


def _options(parser: argparse.ArgumentParser) -> list[str]:
    """Return a table for each group of options, and the examples."""
    parts: list[str] = []
    for group in parser._action_groups:
        rows = [_row(action) for action in group._group_actions if not isinstance(action, OTHER_ACTIONS)]
        if rows:
            heading = "" if group.title in ("positional arguments", "options") else f" ({group.title})"
            parts.append(f"| option{heading} | what it does |\n|---|---|\n" + "\n".join(rows) + "\n")
    if parser.epilog:
        parts.append(f"```console\n{_examples(parser.epilog)}\n```\n")
    return parts


def _examples(epilog: str) -> str:
    text = epilog.partition("\n")[0].removeprefix("examples: ").removeprefix("example: ")
    return "\n".join(f"$ {example}" for example in text.split("; "))


def _row(action: argparse.Action) -> str:
    value = action.metavar or ("" if action.choices is None else "{" + ",".join(map(str, action.choices)) + "}")
    names = [f"{option} {_optional(action, str(value))}".rstrip() for option in action.option_strings]
    shown = ", ".join(names) or str(value)
    again = " (may be given again)" if isinstance(action, argparse._AppendAction) else ""
    return f"| `{shown.replace('|', chr(92) + '|')}` | {action.help}{again} |"


def _optional(action: argparse.Action, value: str) -> str:
    if action.nargs == 0:
        return ""
    return f"[{value}]" if action.nargs == "?" else value


def _local_commands() -> str:
    rows = [f"| `{f':{name} {argument}'.rstrip()}` | {text} |" for name, (argument, text) in LOCAL_COMMANDS.items()]
    return "## Commands of a chat\n\n| line | what it does |\n|---|---|\n" + "\n".join(rows) + "\n"


def _codes() -> str:
    rows = [f"| {code} | {code.description} |" for code in ExitCode]
    return (
        "## Exit codes\n\nA number never changes its meaning.\n\n| code | meaning |\n|---|---|\n"
        + "\n".join(rows)
        + "\n"
    )


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
