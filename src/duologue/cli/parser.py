"""What can be typed: every command, option and argument, and nothing of what they do.

This module imports next to nothing of the library, so that `--help` and completion are there at once.
"""

from __future__ import annotations

import argparse
from textwrap import fill
from typing import TYPE_CHECKING

import duologue
from duologue.cli.exit_codes import DESCRIPTIONS

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

__all__ = ["SHELLS", "each_command", "make_parser"]

SHELLS = ("bash", "zsh", "fish")

WELCOME = """\
The Agent Client Protocol in Python: agents and clients that talk.

  duologue run /tour                  the built-in agent at work: no key needed
  duologue run hello -- gemini --acp  one question to any agent
  duologue chat                       a conversation in this terminal
  duologue doctor                     what is installed, and which agents answer
"""
WIDTH = 78
"""What fits on every terminal."""
V2 = "speak version 2 of the protocol, a draft, if the agent does"
DIALECTS = ("seed-003", "seed-004")
DIALECT = "the older dialect that the agent speaks, if it does"
WHICH_AGENT = "The agent is a command after `--`, a name (`--agent`), or the built-in one."


def make_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    return _make()[0]


def each_command() -> dict[str, tuple[str, argparse.ArgumentParser]]:
    """Each command with what it is for and its own parser."""
    _, commands = _make()
    told = {choice.dest: choice.help or "" for choice in commands._choices_actions}
    return {name: (told[name], parser) for name, parser in commands.choices.items()}


def _make() -> tuple[argparse.ArgumentParser, Commands]:
    parser = argparse.ArgumentParser(
        prog="duologue", description=WELCOME, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"duologue {duologue.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    _add_run(commands)
    _add_chat(commands)
    _add_agent(commands)
    _add_serve(commands)
    _add_connect(commands)
    _add_sessions(commands)
    _add_agents(commands)
    _add_doctor(commands)
    _add_completion(commands)
    return parser, commands


def _add_run(commands: Commands) -> None:
    run = commands.add_parser(
        "run",
        help="one turn with an agent, for people and for scripts",
        description=fill(
            f"Send one prompt to an agent and show what it does. {WHICH_AGENT} Off a terminal, stdout is exactly what "
            "the agent says, everything else goes to stderr, and the exit code says how it ended.",
            WIDTH,
        ),
        epilog=f'example: duologue run "fix the test" --file tests/test_it.py -- gemini --acp\n\n{_exit_codes()}',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("prompt", nargs="?", metavar="PROMPT", help="what to say")
    run.add_argument("-f", dest="prompt_file", metavar="FILE", help="read the prompt from a file; `-` is stdin")
    run.add_argument("--file", action="append", default=[], metavar="PATH", help="attach a file or directory")
    run.add_argument("--image", action="append", default=[], metavar="PATH", help="attach a picture")
    run.add_argument("--json", action="store_true", help="one event per line, with the frame it came in")
    run.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="give up after this, start-up included")
    _add_agent_options(run)
    _add_session_options(run)
    _add_permission_options(run)


def _exit_codes() -> str:
    lines = [f"  {int(code):>3}  {told}" for code, told in DESCRIPTIONS.items()]
    return "exit codes:\n" + "\n".join(lines)


def _add_chat(commands: Commands) -> None:
    chat = commands.add_parser(
        "chat",
        help="talk to an agent in this terminal",
        description=f"A conversation, line by line. {WHICH_AGENT} `/` completes the agent's commands, `@` files to "
        "attach, and `:help` lists what the chat itself can do. Ctrl-C cancels a turn, Ctrl-D leaves.",
        epilog="example: duologue chat --agent gemini --continue",
    )
    _add_agent_options(chat)
    _add_session_options(chat)
    _add_permission_options(chat)


def _add_agent(commands: Commands) -> None:
    agent = commands.add_parser(
        "agent",
        help="the built-in agent on stdio, for editors and client developers",
        description="An agent without a model: every feature of the protocol on demand. Start it from an editor, or "
        "pipe JSON lines into it; `/help` as a prompt lists what it can do.",
    )
    agent.add_argument("--scenario", metavar="FILE", help="play a scripted conversation (TOML or YAML)")
    agent.add_argument("--sessions", metavar="DIR", help="keep sessions here (default: the user's data directory)")
    agent.add_argument("--login", action="store_true", help="refuse sessions until the client has logged in")
    agent.add_argument("--v2", action="store_true", help="serve version 2 of the protocol, a draft, beside version 1")
    agent.add_argument("--dialect", choices=DIALECTS, help="the older dialect that the client speaks, if it does")
    agent.add_argument("--debug", action="store_true", help="put the text of unexpected errors into answers")


def _add_serve(commands: Commands) -> None:
    serve = commands.add_parser(
        "serve",
        help="put an agent on the network, for those who know a token",
        description=f"Serve an agent over WebSocket and HTTP. {WHICH_AGENT} The address is printed once, with a token "
        "that is made for it. Only this machine can reach it, unless you say otherwise; beyond it a token and TLS are "
        "demanded.",
        epilog="example: duologue serve --port 8765 -- gemini --acp",
    )
    serve.add_argument("--agent", metavar="NAME", help="an agent by name; `duologue agents` lists them")
    serve.add_argument("--cwd", metavar="DIR", default=".", help="where the agent is started (default: here)")
    serve.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="set a variable for the agent")
    _add_dialect_option(serve)
    serve.add_argument("--shared", action="store_true", help="one process for all connections, not one for each")
    place = serve.add_argument_group("where")
    place.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="listen here (default: 127.0.0.1)")
    place.add_argument(
        "--port", type=int, default=0, metavar="PORT", help="listen on this port (default: any free one)"
    )
    place.add_argument("--tls-cert", metavar="FILE", help="speak TLS with this certificate (PEM)")
    place.add_argument("--tls-key", metavar="FILE", help="its private key, if that is in a file of its own")
    place.add_argument("--behind-tls-proxy", action="store_true", help="a proxy in front speaks TLS")
    place.add_argument(
        *("--behind-proxy",),
        action="append",
        default=[],
        metavar="ADDRESS",
        help="believe what a proxy at this address says about where requests come from",
    )
    who = serve.add_argument_group("who")
    who.add_argument("--token", metavar="TOKEN", help="the token to ask for (or: the variable DUOLOGUE_TOKEN)")
    who.add_argument(
        "--dangerously-without-token", action="store_true", help="let everybody in who can reach it; never do this"
    )
    who.add_argument("--allow-host", action="append", default=[], metavar="NAME", help="another name of this server")
    who.add_argument(
        "--allow-origin", action="append", default=[], metavar="ORIGIN", help="a web page that may connect"
    )
    for flag, default, meaning in (
        ("--idle-timeout", 3600.0, "close a connection after this many idle seconds (default: 3600)"),
        ("--resume-timeout", 120.0, "keep a disconnected client's session resumable for this long (default: 120)"),
        ("--drain-timeout", 30.0, "let running turns end within this time when stopped (default: 30)"),
    ):
        serve.add_argument(flag, type=_seconds, default=default, metavar="SECONDS", help=meaning)
    serve.add_argument("--access-log", action="store_true", help="a line of JSON on stderr for each request")


def _add_connect(commands: Commands) -> None:
    connect = commands.add_parser(
        "connect",
        help="a remote agent, or one of another version, as a local command for editors",
        description="Pass everything between stdin and stdout here and an agent behind an address, or a command after "
        "`--`. Give this command to an editor that only starts commands. A broken connection is taken up again where "
        "the server allows it. With `--protocol`, an agent that speaks another version of the protocol is translated.",
        epilog="examples: duologue connect wss://agents.example.com/acp; duologue connect --protocol v1 -- newer-agent",
    )
    connect.add_argument(
        "url", nargs="?", metavar="URL", help="ws://, wss://, http:// or https://, as `duologue serve` prints it"
    )
    connect.add_argument(
        "--protocol",
        dest="speaks",
        choices=("v1", "v2", *DIALECTS),
        help="the version or dialect that the editor speaks",
    )
    _add_dialect_option(connect)
    connect.add_argument(
        "--drain-timeout",
        type=_seconds,
        default=10.0,
        metavar="SECONDS",
        help="when stdin ends, wait this long for answers that are due; running prompts are cancelled (default: 10)",
    )
    _add_remote_options(connect)


def _add_sessions(commands: Commands) -> None:
    sessions = commands.add_parser(
        "sessions",
        help="list, show, search and export sessions and recordings",
        description="Look into the sessions an agent keeps, and into recordings made with `--record`; nothing is "
        f"changed. {WHICH_AGENT}",
        epilog="example: duologue sessions search 'import cycle' --this-directory",
    )
    sessions.add_argument(
        "action", nargs="?", default="list", choices=("list", "show", "search", "export"), help="default: list"
    )
    sessions.add_argument(
        "what",
        nargs="?",
        metavar="ID|TEXT",
        help="the session or recording to show or export (its first signs do); the text to find",
    )
    sessions.add_argument("--recordings", action="store_true", help="only recordings; no agent is started")
    sessions.add_argument("--this-directory", action="store_true", help="only sessions of this directory")
    sessions.add_argument("--json", action="store_true", help="JSON, one object per line")
    sessions.add_argument("-o", "--output", metavar="FILE", help="write there instead of stdout")
    _add_agent_options(sessions)


def _add_agents(commands: Commands) -> None:
    agents = commands.add_parser(
        "agents",
        help="the agents that can be called by name",
        description="The agents of the configuration file, known ones found on PATH, and the built-in one. Any of them "
        "can be given to `--agent`.",
    )
    kinds = agents.add_mutually_exclusive_group()
    kinds.add_argument("--json", action="store_true", help="JSON, one object per line")
    kinds.add_argument("--names", action="store_true", help="their names alone, one per line")


def _add_doctor(commands: Commands) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="what is installed, which agents answer, and how to fix what does not",
        description="Check this installation, the configuration file with its rules, and that each agent starts and "
        "answers. The exit code is 1 if something needs fixing.",
    )
    doctor.add_argument("--agent", metavar="NAME|URL", help="check only this agent")
    doctor.add_argument(
        "--timeout", type=_seconds, default=15.0, metavar="SECONDS", help="for each agent (default: 15)"
    )
    doctor.add_argument("--v2", action="store_true", help=V2)
    _add_dialect_option(doctor)
    doctor.add_argument("--json", action="store_true", help="JSON, one finding per line")


def _add_completion(commands: Commands) -> None:
    completion = commands.add_parser(
        "completion",
        help="print a completion script for a shell",
        description='Print a script that completes commands, options and agents: eval "$(duologue completion bash)".',
    )
    completion.add_argument("shell", choices=SHELLS, help="the shell")


# --- options that several commands share


def _add_agent_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the agent")
    group.add_argument("--agent", metavar="NAME|URL", help="an agent by name (`duologue agents` lists them) or address")
    group.add_argument("--v2", action="store_true", help=V2)
    _add_dialect_option(group)
    group.add_argument("--cwd", metavar="DIR", default=".", help="where the agent works (default: here)")
    group.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="set a variable for the agent")
    group.add_argument("--login", metavar="METHOD", help="log in by this method of the agent first")
    _add_remote_options(parser)


def _add_dialect_option(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument("--dialect", choices=DIALECTS, help=DIALECT)


def _add_remote_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the server, if the agent is behind one")
    group.add_argument("--token", metavar="TOKEN", help="who we are (or: DUOLOGUE_TOKEN, or #token=… in the address)")
    group.add_argument("--header", action="append", default=[], metavar="NAME: VALUE", help="send a header")
    trust = group.add_mutually_exclusive_group()
    trust.add_argument("--ca", metavar="FILE", help="trust these certificates (PEM), too")
    trust.add_argument("--insecure", action="store_true", help="believe every server; anybody may listen")


def _add_session_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the session")
    which = group.add_mutually_exclusive_group()
    which.add_argument("--continue", dest="continue_", action="store_true", help="go on with the newest session here")
    which.add_argument("--session", metavar="ID", help="go on with this session")
    group.add_argument(
        "--mode", metavar="MODE", help="switch to this mode first: its id, its name, or the word its id ends with"
    )
    group.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="change a setting first")
    group.add_argument(
        *("--mcp",),
        action="append",
        default=[],
        metavar="SERVER",
        help="give the agent an MCP server: NAME=COMMAND, NAME=URL, a JSON file, or a name of the configuration",
    )
    group.add_argument(
        *("--stall-timeout",),
        type=_seconds,
        metavar="SECONDS",
        help="say when an agent gives no sign of life for so long, and cancel after twice as long",
    )
    _add_record_option(group)


def _add_record_option(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        *("--record",),
        nargs="?",
        const="",
        metavar="FILE",
        help="keep every message in this file, secrets removed; without FILE, where `duologue sessions` finds it",
    )


def _add_permission_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("permissions")
    answers = group.add_mutually_exclusive_group()
    answers.add_argument("--ask", action="store_true", help="ask about everything but reading (default on a terminal)")
    answers.add_argument("--read-only", action="store_true", help="permit reading only (default off a terminal)")
    answers.add_argument("--yes", action="store_true", help="permit all commands, and all changes inside the directory")
    answers.add_argument("--deny", action="store_true", help="permit nothing")
    group.add_argument(
        "--rules", action="append", default=[], metavar="FILE", help="rules from a TOML file; the strictest counts"
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"not a time in seconds: {text}")
    return seconds
