"""Run an agent from source under `duologue dev`: `python -P -m duologue.agent.hosting.launcher SOURCE [ARGUMENT …]`."""

from __future__ import annotations

import runpy
import sys
from importlib import import_module
from pathlib import Path

from duologue.agent.diagnostics.stderr_output import show_mistakes
from duologue.agent.hosting import stdio
from duologue.suggestion import suggestion


def main() -> None:
    """Run a Python file or a module as a program, or one agent of it (`FILE.py:NAME`, `MODULE:NAME`)."""
    source, arguments = sys.argv[1], sys.argv[2:]
    show_mistakes()
    file_or_module, _, name = source.partition(":")
    is_file = file_or_module.endswith(".py")
    path = Path(file_or_module).absolute()
    if is_file and not path.is_file():
        sys.exit(f"{file_or_module} does not exist")
    # As `python FILE` and `python -m MODULE` do.
    sys.path.insert(0, str(path.parent if is_file else Path.cwd()))
    sys.argv[:] = [str(path) if is_file else file_or_module, *arguments]
    if name:
        _run_agent(path.stem if is_file else file_or_module, name)
    elif is_file:
        runpy.run_path(str(path), run_name="__main__")
    else:
        runpy.run_module(file_or_module, run_name="__main__", alter_sys=True)
    if not stdio.has_served:
        sys.exit(
            f"{file_or_module} ended without serving an agent: end it with `agent.run()` or `duologue.run(…)`, "
            f"or name the agent: `duologue dev {file_or_module}:agent`"
        )


def _run_agent(module: str, name: str) -> None:
    from duologue.agent.hosting.function_agent import run

    loaded = import_module(module)
    if not hasattr(loaded, name):
        sys.exit(f"the module {module} has no {name!r}{suggestion(name, vars(loaded))}")
    run(getattr(loaded, name))


if __name__ == "__main__":
    main()
