"""`python -m benchmarks [--rounds N] [--only a,b] [--write]`: prints the table, with progress on stderr."""

from __future__ import annotations

import argparse
import sys

from benchmarks import history, report
from benchmarks.cost import cost_table
from benchmarks.growth import growth
from benchmarks.measures import MEASURES, Row
from benchmarks.pair import WIRES
from benchmarks.paths import PATHS, show
from benchmarks.peers import ROOT, log, prepare
from benchmarks.remote import REMOTE_MEASURES
from benchmarks.servers import SERVER_MEASURES
from benchmarks.start import start
from benchmarks.tap import tap

PAGES = {
    report.PIPES: {**MEASURES, "start": start, "tap": tap, "growth": growth},
    report.NETWORK: {**REMOTE_MEASURES, **SERVER_MEASURES},
}
ALL = {name: measure for measures in PAGES.values() for name, measure in measures.items()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Ours, theirs and the floor, in turns.")
    parser.add_argument("--rounds", type=int, default=7, help="runs of each program; medians are taken (default: 7)")
    parser.add_argument("--only", default=",".join(ALL), help=f"some of: {','.join(ALL)}")
    parser.add_argument("--write", action="store_true", help=f"keep the run in {report.PAGES.relative_to(ROOT)}")
    parser.add_argument("--path", choices=PATHS, help="print the calls that one of these crosses, and measure nothing")
    parser.add_argument("--compare", action="store_true", help="compare the last run with the one before")
    parser.add_argument("--costs", action="store_true", help="count calls and kept memory, and measure nothing")
    chosen = parser.parse_args()
    if chosen.path:
        print("\n\n".join(show(chosen.path, wire) for wire in WIRES))
        return 0
    if chosen.compare:
        print(history.compare())
        return 0
    if chosen.costs:
        print(cost_table())
        return 0
    names = chosen.only.split(",")
    if unknown := set(names) - set(ALL):
        parser.error(f"nothing is called {', '.join(sorted(unknown))}")
    if sys.platform != "linux":
        parser.error("the figures come from Linux's /proc")
    peers, absent = prepare()
    machine = report.machine(peers, chosen.rounds)
    print(machine)
    measured: list[Row] = []
    for page, measures in PAGES.items():
        rows: list[Row] = []
        for name in names:
            rows += measures[name](peers, chosen.rounds) if name in measures else []
        if not rows:
            continue
        measured += rows
        print()
        print(report.table(rows, peers, absent))
        if chosen.write:
            log(f"written to {report.write(page, rows, peers, absent, chosen.rounds)}")
    history.append(measured, peers, machine, chosen.rounds)
    return 0


sys.exit(main())
