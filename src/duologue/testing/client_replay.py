"""Drive an agent with the client's side of a recording, and compare what it does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from duologue.client.target import AgentTarget, TargetOptions
from duologue.testing.playback import Playback
from duologue.testing.targets import TestTarget, absolute, as_target
from duologue.trace.replay.agent_player import TIMEOUT_SECONDS
from duologue.trace.replay.client_driver import ClientDriver
from duologue.trace.replay.deviation import Comparison, Deviation
from duologue.trace.replay.deviation import compare as deviations_of
from duologue.trace.replay.report import ReplayReport
from duologue.trace.replay.script import ReplayScript, read_script


async def replay_client(
    recording: str | Path,
    target: TestTarget,
    *,
    compare: Comparison = "structure",
    speed: float | None = None,
    timeout: float = TIMEOUT_SECONDS,
    ignore: Sequence[str] = (),
    **options: Unpack[TargetOptions],
) -> ReplayReport:
    """Send an agent what the client of a recording sent, and report what the agent does differently.

    Requests of the agent, such as those for permissions, files and terminals, get the recorded answers: nothing is
    read, written or run here. Ids are adapted to the agent. `(await replay_client("run.acp", agent)).assert_same()` is
    a regression test.

    Args:
        recording: The file, as `tap`, `--record` and `connect(record=...)` write it.
        target: An `Agent`, a function or class as in `duologue.run`, a command, a URL, or another target of `connect`.
        compare: `structure` for kinds of updates, order of tool calls and requests, results, stop reasons and error
            codes; `text` for texts as well. Times are not compared.
        speed: Factor of the recorded speed, such as 1.0. Default: as fast as the agent answers.
        timeout: Seconds to wait for each response of the agent.
        ignore: Members of results, or paths such as `$.result.modes*`, that are not compared.
        options: `cwd` is the working directory in place of the recorded one (default: the current directory); `env`,
            `headers`, `token`, `tls`, `lock` and `on_stderr` are those of `connect`.

    Raises:
        ValueError: The file is not a recording, is too large, or was written by a newer duologue.
        OSError: The file cannot be read.
        StartError: The agent cannot be started or reached.
    """
    script = read_script(recording, is_first_only=True)
    cwd = options["cwd"] = absolute(options.get("cwd"))
    driver = ClientDriver(script, speed=speed, timeout=timeout, cwd=str(cwd))
    reached = AgentTarget(as_target(target), **options)
    try:
        async with reached.open() as transport:
            await Playback(driver, transport).run()
    finally:
        await reached.aclose()
    live = ReplayScript(driver.entries)
    deviations = deviations_of(script, live, level=compare, ignored=ignore, directories=driver.directories)
    if driver.failure:
        deviations.append(Deviation(kind="end", received=driver.failure))
    return ReplayReport(
        recording=str(recording),
        compare=compare,
        requests=sum(call.kind == "request" for call in live.calls),
        deviations=deviations,
        notes=script.notes,
    )
