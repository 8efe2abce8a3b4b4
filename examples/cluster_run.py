"""Run a suite on a Dask cluster, and print what passed: `python examples/cluster_run.py dask://HOST`."""

import asyncio
import sys

from duologue.evals import EngineError, open_engine, read_run, run_suite


async def main(address: str, suite: str, directory: str) -> None:
    engine = open_engine(address, timeout=120)  # seconds without workers until the run ends
    engine.notice = print  # says when workers are gone
    try:
        end = await run_suite(suite, ["builtin"], directory, trials=3, engine=engine)
    except EngineError as error:
        sys.exit(f"no trial was run: {error}")
    for agent in read_run(end.directory).agents:
        trials = list(agent.trials())
        print(f"{agent.label}: {sum(trial.passed is True for trial in trials)} of {len(trials)} passed")
    if end.problem:
        print(f"not complete: {end.problem}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
