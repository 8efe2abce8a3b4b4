"""Define `check`, but not what it does."""

from __future__ import annotations

import argparse

from duologue.cli.options import add_lock_option, add_remote_options, add_repeatable, add_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

OUTPUTS = {"junit": "JUnit XML", "sarif": "SARIF", "markdown": "Markdown", "html": "one HTML page"}


def add_check(commands: Commands) -> None:
    """Add `check`, but not its subcommands."""
    commands.add_parser(
        "check",
        help="check an agent or a client against the rules of the protocol",
        description="Check an agent or a client against the rules of the protocol, rule by rule. Exit code 1 means "
        "that it breaks a rule of level MUST, 11 that the checker itself failed.",
    )


def add_check_subcommands(check: argparse.ArgumentParser) -> None:
    """Add the subcommands of `check`."""
    actions = check.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_agent(actions)
    _add_client(actions)
    rules = actions.add_parser("rules", help="list the rules", description="List the rules with their numbers.")
    rules.add_argument("--json", action="store_true", help="print one JSON object per rule")
    rules.set_defaults(function="check:list_rules", agent=None, lock=None)


def _add_agent(actions: Commands) -> None:
    agent = actions.add_parser(
        "agent",
        usage="duologue check agent [OPTION ...] -- COMMAND ...\n"
        "       duologue check agent [OPTION ...] --agent NAME|URL",
        help="check an agent: a command after `--`, a name or a URL",
        description="Start an agent, once for each case, and send it what each rule is about. Without a command or "
        "`--agent` the built-in agent is checked.",
        epilog="examples: duologue check agent -- gemini --acp; duologue check agent --agent ws://127.0.0.1:8765/acp",
    )
    agent.add_argument("--agent", metavar="NAME|URL", help="name or URL of the agent")
    agent.add_argument("--profile", metavar="NAME|FILE", help="how to make the agent call tools, ask for permission, …")
    add_repeatable(
        agent,
        "--ask",
        "TEXT",
        "a prompt for an agent without a profile: the first one takes the place of `answer`, others are sent once",
    )
    _add_common(agent)
    add_lock_option(agent)
    add_repeatable(agent, "--env", "NAME=VALUE", "set an environment variable of the agent")
    add_remote_options(agent)
    agent.set_defaults(function="check:check_agent", dialect=None)


def _add_client(actions: Commands) -> None:
    client = actions.add_parser(
        "client",
        usage="duologue check client [OPTION ...] -- COMMAND ... {agent} ...\n"
        "       duologue check client [OPTION ...]",
        help="check a client: a command in which {agent} stands for the agent to start",
        description="Play an agent for a client, and judge what the client sends. `{agent}` in the command is replaced "
        "by the command of that agent, or by its address with `--url`. Without a command, the command to paste into "
        "the settings of an editor is printed, and the report is written when you press Ctrl-C.",
        epilog="example: duologue check client -- my-client --agent {agent} 'hello'",
    )
    client.add_argument("--url", choices=("ws", "http"), help="serve the agent at a URL instead of as a command")
    client.add_argument(
        "--cancel-command",
        metavar="COMMAND",
        help="a command that sends a prompt and then cancels it; without one, the client gets SIGINT to cancel",
    )
    _add_common(client)
    client.set_defaults(function="check:check_client", agent=None, lock=None)


def _add_common(parser: argparse.ArgumentParser) -> None:
    chosen = parser.add_argument_group("rules")
    add_repeatable(chosen, "--only", "RULES", "judge only these: numbers, ranges, names; separated by commas")
    add_repeatable(chosen, "--skip", "RULES", "do not judge these")
    chosen.add_argument("--rules", metavar="SET", help="a frozen set of rules, such as 1.15 (default: the newest)")
    add_repeatable(chosen, "--protocol", "VERSION", "version of the protocol to check: 1 or 2 (default: all supported)")
    chosen.add_argument("--baseline", metavar="FILE", help="known failures (TOML), which do not fail the check")
    chosen.add_argument("--strict", action="store_true", help="fail if a MUST was not observed, or a SHOULD is broken")
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print the report as JSON")
    for name, title in OUTPUTS.items():
        output.add_argument(f"--{name}", metavar="FILE", help=f"also write the report as {title} to this file")
    output.add_argument("--write-baseline", metavar="FILE", help="write the failures of this check as a baseline")
    output.add_argument("--verbose", action="store_true", help="list every rule, not only the broken ones")
    limits = parser.add_argument_group("limits")
    add_seconds(
        limits,
        "--timeout",
        "limit of any single wait; a case that waits longer is repeated with three times as much (default: 30)",
    )
    limits.add_argument("-j", "--jobs", type=int, default=2, metavar="N", help="cases at the same time (default: 2)")
