"""Define every command, option and argument of `duologue`, but not what they do.

This module imports almost nothing of the library, so that `--help` and completion are fast.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping, Sequence
from textwrap import fill

import duologue
from duologue.cli.exit_codes import ExitCode
from duologue.cli.options import (
    DIALECTS,
    V2,
    CommandParser,
    add_agent_options,
    add_dialect_option,
    add_lock_option,
    add_permission_options,
    add_remote_options,
    add_repeatable,
    add_seconds,
    add_session_options,
    add_start_options,
    add_stderr_option,
    days,
)
from duologue.cli.parsers.agents import add_agents, add_agents_subcommands
from duologue.cli.parsers.check import add_check, add_check_subcommands
from duologue.cli.parsers.code import add_code
from duologue.cli.parsers.evals import add_eval, add_eval_subcommands
from duologue.cli.parsers.proxy import add_proxy
from duologue.cli.parsers.recordings import add_tap, add_trace, add_trace_subcommands

TYPE_CHECKING = False
if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

SHELLS = ("bash", "zsh", "fish")

WELCOME = """\
Run, serve and talk to agents of the Agent Client Protocol (ACP).

  duologue run /tour                  watch the built-in agent; needs no API key
  duologue run hello -- gemini --acp  send one prompt to any agent
  duologue chat                       chat with an agent in this terminal
  duologue dev agent.py               chat with an agent you write; a save restarts it
  duologue doctor                     check the installation and the agents
"""
WIDTH = 78
"""Columns that fit on every terminal."""
WHICH_AGENT = "The agent is a command after `--`, a name or URL (`--agent`), or the built-in one."


SUBCOMMANDS: Mapping[str, Callable[[argparse.ArgumentParser], None]] = {
    "agents": add_agents_subcommands,
    "check": add_check_subcommands,
    "eval": add_eval_subcommands,
    "trace": add_trace_subcommands,
}
"""Functions that add the subcommands of a command: most of the parser, and needed only if that command is given."""


def make_parser(
    words: Sequence[str] | None = None,
) -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """Return the parser of the whole command line, and that of each command by its name.

    Args:
        words: The command line to parse: subcommands are added to its command only. If `None`, to all.
    """
    parser, commands = _make(SUBCOMMANDS if words is None else words[:1])
    return parser, commands.choices


def each_command() -> dict[str, tuple[str, argparse.ArgumentParser]]:
    """Return each command with its help text and its own parser."""
    return _described(_make(SUBCOMMANDS)[1])


def subcommands(parser: argparse.ArgumentParser) -> dict[str, tuple[str, argparse.ArgumentParser]]:
    """Return each subcommand of a command with its help text and its own parser."""
    found: list[Commands] = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return {name: command for action in found for name, command in _described(action).items()}


def _described(commands: Commands) -> dict[str, tuple[str, argparse.ArgumentParser]]:
    help_texts = {choice.dest: choice.help or "" for choice in commands._choices_actions}
    return {name: (help_texts[name], parser) for name, parser in commands.choices.items()}


def _root() -> argparse.ArgumentParser:
    return CommandParser(
        prog="duologue",
        description=WELCOME,
        epilog="`duologue help COMMAND` explains one command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _make(used: Collection[str]) -> tuple[argparse.ArgumentParser, Commands]:
    parser = _root()
    parser.add_argument("-V", "--version", action="version", version=f"duologue {duologue.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    _add_run(commands)
    _add_chat(commands)
    _add_dev(commands)
    _add_agent(commands)
    add_code(commands)
    _add_serve(commands)
    _add_connect(commands)
    add_tap(commands)
    add_proxy(commands)
    add_check(commands)
    add_eval(commands)
    add_trace(commands)
    _add_sessions(commands)
    add_agents(commands)
    _add_daemon(commands)
    _add_doctor(commands)
    _add_config(commands)
    _add_completion(commands)
    for name, add_subcommands in SUBCOMMANDS.items():
        if name in used:
            add_subcommands(commands.choices[name])
    return parser, commands


def _add_run(commands: Commands) -> None:
    run = commands.add_parser(
        "run",
        usage="duologue run [OPTION ...] PROMPT [-- COMMAND ...]",
        help="send one prompt to an agent; for people and scripts",
        description=fill(
            f"Send one prompt to an agent and show what it does. {WHICH_AGENT} Piped input follows the prompt, or is "
            "the prompt. If stdout is not a terminal, it gets exactly the agent's answer, and everything else goes to "
            "stderr. The exit code says how the turn ended.",
            WIDTH,
        ),
        epilog=f'example: duologue run "fix the test" --file tests/test_it.py -- gemini --acp\n\n{_exit_codes()}',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("prompt", nargs="?", metavar="PROMPT", help="text to send")
    run.add_argument(
        "-f", dest="prompt_file", metavar="FILE", help="read the prompt from a file, or from stdin with `-`"
    )
    add_repeatable(run, "--file", "PATH", "attach a file or directory")
    add_repeatable(run, "--image", "PATH", "attach an image")
    run.add_argument("--json", action="store_true", help="print one JSON event per line, with its frame")
    add_seconds(run, "--timeout", "stop after this time, start-up included")
    run.add_argument(
        "--warm", action="store_true", help="use an agent that the daemon has started before, and start the next one"
    )
    run.add_argument(
        "--no-wait", action="store_true", help="run in the background, and print the id for `duologue daemon status`"
    )
    add_agent_options(run)
    add_session_options(run)
    add_stderr_option(run)
    add_permission_options(run)


def _exit_codes() -> str:
    lines = [f"  {code:>3}  {code.description}" for code in ExitCode]
    return "exit codes:\n" + "\n".join(lines)


def _add_chat(commands: Commands) -> None:
    chat = commands.add_parser(
        "chat",
        usage="duologue chat [OPTION ...] [-- COMMAND ...]",
        help="chat with an agent in this terminal",
        description=f"Chat with an agent, line by line. {WHICH_AGENT} `/` completes the agent's commands, `@` "
        "completes files to attach, `:help` lists the commands of the chat. Ctrl-C cancels a turn, Ctrl-D exits.",
        epilog="example: duologue chat --agent gemini --continue",
    )
    add_agent_options(chat)
    add_session_options(chat)
    add_stderr_option(chat)
    add_permission_options(chat)


def _add_dev(commands: Commands) -> None:
    dev = commands.add_parser(
        "dev",
        usage="duologue dev [OPTION ...] AGENT [-- ARGUMENT ...]\n       duologue dev [OPTION ...] -- COMMAND ...",
        help="run an agent from source, restart it on every save, and chat with it",
        description="Chat with an agent that you are writing. It starts again when a Python file of the project is "
        "saved, after the turn that runs, and the session goes on if the agent stores sessions. What the agent prints "
        "and logs is shown, as is the line of a `print`, of a coroutine that was never awaited, and of code that "
        "blocks the event loop. Without a terminal nothing is watched: each line of stdin is a prompt.",
        epilog="examples: duologue dev agent.py; duologue dev agent.py -- --verbose; "
        "duologue dev package.module:agent; duologue dev -- uv run agent.py",
    )
    dev.add_argument(
        "source",
        nargs="?",
        metavar="AGENT",
        help="a Python file, FILE.py:NAME, a module, or MODULE:NAME; what follows `--` are its arguments, or without "
        "AGENT the command to start",
    )
    dev.add_argument("--prompt", metavar="TEXT", help="send only this prompt, and exit as `duologue run` does")
    watched = "watch this file or directory instead of the Python files below this directory"
    add_repeatable(dev, "--watch", "PATH", watched)
    dev.add_argument("--wire", action="store_true", help="show every message of the connection")
    dev.add_argument("--full-tracebacks", action="store_true", help="show the frames of libraries in tracebacks, too")
    add_start_options(dev.add_argument_group("agent"))
    add_session_options(dev)
    add_permission_options(dev)


def _add_agent(commands: Commands) -> None:
    agent = commands.add_parser(
        "agent",
        help="run the built-in agent on stdio, for editors and client developers",
        description="Run an agent that needs no model and shows every feature of the protocol on demand. Start it from "
        "an editor, or pipe JSON lines into it; the prompt `/help` lists its commands.",
    )
    played = agent.add_mutually_exclusive_group()
    played.add_argument("--scenario", metavar="FILE", help="play a scripted conversation (TOML or YAML)")
    played.add_argument("--profile", metavar="NAME", help="play the habits of a published agent, such as gemini")
    agent.add_argument("--sessions", metavar="DIR", help="store sessions here (default: the user's data directory)")
    agent.add_argument("--login", action="store_true", help="require a login before sessions can be opened")
    agent.add_argument("--v2", action="store_true", help="offer version 2 of the protocol (a draft), too")
    agent.add_argument("--dialect", choices=DIALECTS, help="older dialect of the protocol that the client uses")
    add_seconds(agent, "--pace", "pause this long between the steps of `/tour`, so that a person can follow")
    agent.add_argument("--debug", action="store_true", help="send the text of unexpected errors to the client")


def _add_serve(commands: Commands) -> None:
    serve = commands.add_parser(
        "serve",
        usage="duologue serve [OPTION ...] [-- COMMAND ...]",
        help="serve an agent over WebSocket and HTTP, protected by a token",
        description="Serve an agent over WebSocket and HTTP. The agent is a command after `--`, a name (`--agent`), or "
        "the built-in one. Prints the URL with a new token. By default only this machine can connect; listening on "
        "other addresses requires a token and TLS.",
        epilog="example: duologue serve --port 8765 -- gemini --acp",
    )
    serve.add_argument(
        "--agent", metavar="NAME", help="name of the agent (`duologue agents` lists them), or NAME@VERSION"
    )
    add_lock_option(serve)
    serve.add_argument("--cwd", metavar="DIR", default=".", help="start the agent here (default: this directory)")
    add_repeatable(serve, "--env", "NAME=VALUE", "set an environment variable of the agent")
    add_dialect_option(serve)
    serve.add_argument("--shared", action="store_true", help="share one agent process between all connections")
    serve.add_argument("--record", metavar="DIR", help="record each connection in a new file of this directory")
    address = serve.add_argument_group("address")
    address.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on (default: 127.0.0.1)"
    )
    address.add_argument(
        "--port", type=int, default=0, metavar="PORT", help="port to listen on (default: any free port)"
    )
    address.add_argument("--tls-cert", metavar="FILE", help="TLS certificate (PEM)")
    address.add_argument("--tls-key", metavar="FILE", help="private key of the certificate, if it is in another file")
    address.add_argument("--behind-tls-proxy", action="store_true", help="a proxy in front of the server handles TLS")
    add_repeatable(
        address, "--behind-proxy", "ADDRESS", "trust the client address that a proxy at this address reports"
    )
    access = serve.add_argument_group("access")
    access.add_argument(
        "--token", metavar="TOKEN", help="token that clients must send (or set DUOLOGUE_TOKEN; default: a new one)"
    )
    access.add_argument(
        "--dangerously-without-token", action="store_true", help="accept every client without a token (unsafe)"
    )
    add_repeatable(access, "--allow-host", "NAME", "accept this host name in requests, too")
    add_repeatable(access, "--allow-origin", "ORIGIN", "accept web pages of this origin")
    add_seconds(serve, "--idle-timeout", "close a connection after this many idle seconds", 3600.0)
    add_seconds(serve, "--resume-timeout", "keep a disconnected client's session resumable for this long", 120.0)
    add_seconds(serve, "--drain-timeout", "when stopped, wait this long for running turns to end", 30.0)
    serve.add_argument("--access-log", action="store_true", help="log each request as a line of JSON on stderr")


def _add_connect(commands: Commands) -> None:
    connect = commands.add_parser(
        "connect",
        help="use a remote agent, or one of another protocol version, as a local command",
        description="Relay stdin and stdout to a remote agent, or to a command after `--`. Give this command to an "
        "editor that can only start commands. A broken connection is resumed if the server allows it. With "
        "`--protocol`, messages are translated for an agent that uses another version of the protocol.",
        epilog="examples: duologue connect wss://agents.example.com/acp; duologue connect --protocol v1 -- newer-agent",
    )
    connect.add_argument(
        "url", nargs="?", metavar="URL", help="URL that `duologue serve` printed: ws, wss, http or https"
    )
    connect.add_argument(
        "--protocol",
        dest="protocol",
        choices=("v1", "v2", *DIALECTS),
        help="version or dialect that the editor uses",
    )
    add_dialect_option(connect)
    drain = "when stdin ends, cancel prompts and wait this long for the last responses"
    add_seconds(connect, "--drain-timeout", drain, 10.0)
    add_remote_options(connect)


def _add_sessions(commands: Commands) -> None:
    sessions = commands.add_parser(
        "sessions",
        help="list, show, search, export and delete the sessions that an agent has stored",
        description=f"Read or delete the sessions that an agent has stored. {WHICH_AGENT} (Recordings, made with "
        "`--record`, are read by `duologue trace`.) `search` exits with 1 if it finds nothing. "
        "`delete` and `prune` ask nothing.",
        epilog="examples: duologue sessions search 'import cycle' --this-directory; "
        "duologue sessions prune --older-than 30 --dry-run",
    )
    sessions.add_argument(
        "action",
        nargs="?",
        default="list",
        choices=("list", "show", "search", "export", "delete", "prune"),
        help="default: list",
    )
    sessions.add_argument(
        "what",
        nargs="?",
        metavar="ID|TEXT",
        help="session id (a unique prefix is enough), or the text to search for",
    )
    sessions.add_argument("--recordings", action="store_true", help=argparse.SUPPRESS)
    sessions.add_argument("--older-than", type=days, metavar="DAYS", help="prune: age of what is deleted")
    sessions.add_argument("--dry-run", action="store_true", help="prune: only list what would be deleted")
    sessions.add_argument("--this-directory", action="store_true", help="only sessions of this directory")
    sessions.add_argument("--json", action="store_true", help="print one JSON object per line")
    sessions.add_argument("-o", "--output", metavar="FILE", help="write to this file instead of stdout")
    add_agent_options(sessions)


def _add_daemon(commands: Commands) -> None:
    daemon = commands.add_parser(
        "daemon",
        help="control the process that keeps agents started, and runs prompts in the background",
        description="`duologue run --warm` and `--no-wait` start the daemon when they need it. Only its owner can "
        "reach it, and it ends when it is idle. `status` exits with 1 if it does not run. There is none on Windows.",
        epilog="examples: duologue daemon status; duologue daemon wait 5f2a9c0d13be",
    )
    actions = ("start", "status", "stop", "output", "wait", "cancel")
    daemon.add_argument(
        "action",
        choices=actions,
        help="what to do; `output` prints what a job has printed, `wait` waits for a job and exits with its code",
    )
    daemon.add_argument("job", nargs="?", metavar="JOB", help="id of a job, as `run --no-wait` printed it")
    daemon.add_argument("--json", action="store_true", help="status: print one JSON object per line")
    daemon.add_argument("--follow", action="store_true", help="output: go on until the job ends")
    add_seconds(daemon, "--timeout", "wait, output --follow: exit with 6 if the job has not ended by then")
    daemon.add_argument("--foreground", action="store_true", help="start: be the daemon, instead of starting one")
    add_seconds(daemon, "--idle-timeout", "start --foreground: end after this many idle seconds", 900.0)


def _add_doctor(commands: Commands) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="check the installation and the agents, and say how to fix problems",
        description="Check this installation, the configuration file with its rules, and that each agent starts and "
        "opens a session. The exit code is 1 if there is a problem, and 7 if there is none except a login.",
    )
    doctor.add_argument("--agent", metavar="NAME|URL", help="check only this agent")
    add_lock_option(doctor)
    add_seconds(doctor, "--timeout", "time limit for each agent", 30.0)
    doctor.add_argument("--v2", action="store_true", help=V2)
    add_dialect_option(doctor)
    doctor.add_argument("--json", action="store_true", help="print one JSON object per line")


def _add_config(commands: Commands) -> None:
    config = commands.add_parser(
        "config",
        help="write an example configuration",
        description="Write a configuration file with commented examples and initial permission rules, and print its "
        "path. An existing file is never changed.",
        epilog="example: duologue config init",
    )
    config.add_argument("action", choices=("init",), help="write the file")


def _add_completion(commands: Commands) -> None:
    completion = commands.add_parser(
        "completion",
        help="print a shell completion script",
        description='Print a script that completes commands, options and agents: eval "$(duologue completion bash)".',
    )
    completion.add_argument("shell", choices=SHELLS, help="shell to print the script for")
