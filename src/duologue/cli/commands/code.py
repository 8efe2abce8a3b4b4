"""`duologue code`: the coding agent on stdio."""

from __future__ import annotations

import argparse
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from duologue.agent.hosting.stdio import serve_stdio
from duologue.cli.exit_codes import UsageError
from duologue.cli.mcp_servers import mcp_servers
from duologue.config.permissions import rules_files, state_folder
from duologue.errors import StartError
from duologue.private_files import make_private_directory, user_directory

MISSING = "`duologue code` needs pydantic-ai-harness: pip install 'duologue[coder]'"


def code(arguments: argparse.Namespace) -> int:
    """Serve the coding agent; return the exit code."""
    if find_spec("pydantic_ai_harness") is None:
        raise StartError(MISSING)
    from duologue.coder.agent import CodeOptions, code_agent
    from duologue.coder.models import NO_MODEL, ModelTable, model_names

    try:
        names = model_names(arguments.model, arguments.base_url)
        rules = tuple(rules_files())
    except ValueError as error:
        raise UsageError(str(error)) from None
    if not names:
        sys.stderr.write(f"duologue code: {NO_MODEL}\n")
    data = Path(arguments.sessions) if arguments.sessions else user_directory("XDG_DATA_HOME", ".local/share") / "code"
    make_private_directory(data)
    make_private_directory(state_folder())
    if arguments.sandbox and shutil.which("bwrap") is None:
        raise StartError("--sandbox needs bubblewrap: install the package `bubblewrap`, which has the program `bwrap`")
    agent = code_agent(
        CodeOptions(
            models=ModelTable(names, arguments.base_url),
            data=data,
            rules=rules,
            memory=state_folder() / "code-decisions.jsonl",
            context_window=arguments.context_window,
            model_timeout=arguments.model_timeout,
            mcp_servers=tuple(mcp_servers(arguments.mcp)),
            has_sandbox=arguments.sandbox,
            protocol_versions=(1, 2) if arguments.v2 else (1,),
        )
    )
    serve_stdio(agent)
    return 0
