"""Run the command line: `python -m duologue` is `duologue`."""

from __future__ import annotations

import sys

from duologue.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
