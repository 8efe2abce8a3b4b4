"""Start one of the agents that `make conformance` checks, on stdin and stdout: type or paste messages, one per line.

python -m scripts.sdk_agent [NAME]

Without a name, the names are printed.
"""

from __future__ import annotations

import os
import sys

from tests.interop.conformance.agents import AGENTS
from tests.interop.peers import Absent


def main() -> int:
    """Become the agent; return an exit code if that is impossible."""
    found = [each for each in AGENTS if sys.argv[1:] == [each.name]]
    if not found:
        print("\n".join(each.name for each in AGENTS))
        return 0 if len(sys.argv) == 1 else 2
    try:
        process = found[0].start()
    except Absent as reason:
        print(reason, file=sys.stderr)
        return 1
    return os.execvpe(process.command[0], process.command, {**os.environ, **process.variables})


if __name__ == "__main__":
    sys.exit(main())
