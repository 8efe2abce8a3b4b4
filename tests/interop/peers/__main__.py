"""`python -m tests.interop.peers [NAME...]`: make foreign peers ready; say which cannot be had here, and why."""

from __future__ import annotations

import sys
import time

from tests.interop.peers import (
    ACPX,
    ALL,
    CONDUCTOR,
    HARBOR,
    INSPECT,
    RUST,
    Absent,
    acpx,
    conductor,
    harbor_python,
    inspect_python,
    install,
    rust_examples,
)

PROGRAMS = {ACPX: acpx, CONDUCTOR: conductor, INSPECT: inspect_python, HARBOR: harbor_python}

for name in sys.argv[1:] or (*ALL, *PROGRAMS):
    began = time.monotonic()
    try:
        if name in PROGRAMS:
            PROGRAMS[name]()
        else:
            install(name, is_remote=True)
        if name == RUST:
            rust_examples()
    except Absent as reason:
        print(f"{name}: absent: {reason}")
    else:
        print(f"{name}: ready after {time.monotonic() - began:.0f} s")
