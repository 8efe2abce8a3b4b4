"""`duologue completion`: shell scripts that complete commands, options and names of agents."""

from __future__ import annotations

import argparse
import sys
from typing import TypeAlias

from duologue.cli.parser import each_command, subcommands

BASH = """\
_duologue() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" word
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        if [[ $word == -- ]]; then COMPREPLY=($(compgen -c -f -- "$current")); return; fi
    done
    case "$previous" in
        --agent) COMPREPLY=($(compgen -W "$(duologue agents --names 2>/dev/null)" -- "$current")); return ;;
        {files}) COMPREPLY=($(compgen -f -- "$current")); return ;;
    esac
    case "${{COMP_WORDS[1]}}" in
{cases}
        *) COMPREPLY=($(compgen -W "{commands}" -- "$current")) ;;
    esac
}}
complete -F _duologue duologue
"""
FILE_METAVARS = ("FILE", "PATH", "DIR", "SERVER")
"""Metavars of the options whose value may be a file or directory."""

Commands: TypeAlias = dict[str, tuple[str, list[argparse.Action]]]
"""Each command with its help text and its arguments."""


def completion(arguments: argparse.Namespace) -> int:
    """Print the script; return the exit code."""
    make = {"bash": _bash, "zsh": _zsh, "fish": _fish}[arguments.shell]
    commands = {name: (help_text, _actions(parser)) for name, (help_text, parser) in each_command().items()}
    sys.stdout.write(make(commands))
    return 0


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the arguments of a command; those of its subcommands follow, each option once."""
    nested = [action for _, subparser in subcommands(parser).values() for action in subparser._actions]
    return list({tuple(action.option_strings) or id(action): action for action in [*parser._actions, *nested]}.values())


def _words(actions: list[argparse.Action]) -> list[str]:
    options = [option for action in actions for option in action.option_strings]
    return options + [str(choice) for action in actions if not action.option_strings for choice in action.choices or ()]


def _bash(commands: Commands) -> str:
    cases = "\n".join(
        f'        {name}) COMPREPLY=($(compgen -W "{" ".join(_words(actions))}" -f -- "$current")) ;;'
        for name, (_, actions) in commands.items()
    )
    names = " ".join([*commands, "--help", "--version"])
    actions = [action for _, actions in commands.values() for action in actions if action.metavar in FILE_METAVARS]
    files = dict.fromkeys(option for action in actions for option in action.option_strings)
    return BASH.format(cases=cases, commands=names, files="|".join(files))


def _zsh(commands: Commands) -> str:
    """Return the bash script in a form that zsh reads."""
    return f"autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n{_bash(commands)}"


def _fish(commands: Commands) -> str:
    lines = ["complete -c duologue -f"]
    for name, (help_text, actions) in commands.items():
        lines.append(f"complete -c duologue -n __fish_use_subcommand -a {name} -d {_quoted(help_text)}")
        for action in actions:
            lines += [_fish_option(name, action)] if action.option_strings else _fish_choices(name, action)
    return "\n".join(lines) + "\n"


def _fish_option(command: str, action: argparse.Action) -> str:
    flags = " ".join(f"-l {each[2:]}" if each.startswith("--") else f"-s {each[1:]}" for each in action.option_strings)
    takes = "" if action.nargs == 0 else " -r"
    if "--agent" in action.option_strings:
        takes = " -x -a '(duologue agents --names 2>/dev/null)'"
    elif action.metavar in FILE_METAVARS:
        takes = " -r -F"
    help_text = _quoted(action.help or "")
    return f"complete -c duologue -n '__fish_seen_subcommand_from {command}' {flags}{takes} -d {help_text}"


def _fish_choices(command: str, action: argparse.Action) -> list[str]:
    when = f"'__fish_seen_subcommand_from {command}'"
    return [f"complete -c duologue -n {when} -a {choice}" for choice in action.choices or ()]


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
