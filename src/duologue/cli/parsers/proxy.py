"""Define `proxy`, but not what it does."""

from __future__ import annotations

import argparse

from duologue.cli.options import add_lock_option, add_remote_options, add_repeatable, add_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_proxy(commands: Commands) -> None:
    """Add `proxy`."""
    proxy = commands.add_parser(
        "proxy",
        usage="duologue proxy [OPTION ...] RULES -- COMMAND ...\n"
        "       duologue proxy [OPTION ...] RULES --agent NAME|URL\n"
        "       duologue proxy [OPTION ...] RULES",
        help="observe, change, answer or block messages between an editor and an agent, by rules in Python",
        description="Start an agent in place of an editor's own command, and apply rules to each message in both "
        "directions. RULES is a Python file with a `duologue.proxy.Proxy`, `FILE.py:NAME`, `MODULE:NAME`, or one of "
        "ours: `policy` enforces permission rules and keeps the audit log, `logger` logs a line for each message. "
        "Without an agent it is a component of a conductor, which starts it.",
        epilog="examples: duologue proxy rules.py -- gemini --acp; "
        "duologue proxy policy --rules team.toml --audit audit.jsonl -- gemini --acp",
    )
    proxy.add_argument("rules_source", metavar="RULES", help="FILE.py, FILE.py:NAME, MODULE:NAME, policy or logger")
    add_seconds(proxy, "--rule-timeout", "block a message if a rule takes longer than this")
    policy = proxy.add_argument_group("policy")
    add_repeatable(policy, "--rules", "FILE", "permission rules (default: those of your configuration file)")
    policy.add_argument("--audit", metavar="FILE", help="the audit log (default: in the user's state directory)")
    logger = proxy.add_argument_group("logger")
    logger.add_argument("--log", metavar="FILE", help="append a JSON object per message here instead of stderr")
    agent = proxy.add_argument_group("agent")
    agent.add_argument(
        "--agent", metavar="NAME|URL", help="name (`duologue agents` lists them), NAME@VERSION, or URL of the agent"
    )
    add_lock_option(agent)
    add_repeatable(agent, "--env", "NAME=VALUE", "set an environment variable of the agent")
    add_remote_options(proxy)
    proxy.set_defaults(dialect=None)
