"""Cases about terminals in which the client runs commands for the agent."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator
from pathlib import Path

from duologue.conformance.case import CaseEnded, CaseSkipped, CheckCase, case
from duologue.conformance.client_cases.messages import METHOD_NOT_FOUND, describe
from duologue.conformance.client_cases.session_setup import NOT_FOUND
from duologue.conformance.client_side.checked_client import ClientCaseRun
from duologue.conformance.client_side.played_turn import CheckedTurn
from duologue.conformance.raw_peer import PeerFailed, ReceivedMessage
from duologue.conformance.verdicts import RuleVerdict
from duologue.conformance.wait_limit import WaitLimit

EXIT_CODE = 3
BYTE_LIMIT = 51
LETTERS = 100
"""Letters of two bytes that a command prints; an odd limit cuts one of them."""
POLL_SECONDS = 0.02
WAITING = 'echo $$ > "$0/pid"; echo begun; until [ -e "$0/go" ]; do sleep 0.05; done; echo done; exit 3'
"""Runs until the checker makes a file, so that no result depends on time."""
PRINTING = f"i=0; while [ $i -lt {LETTERS} ]; do printf '\\303\\251'; i=$((i+1)); done"


class PlayedTerminal:
    """A terminal that the client made.

    Args:
        turn: The turn in which it was made.
        id_: Its id.
        directory: Directory of its command.
    """

    def __init__(self, turn: CheckedTurn, id_: str, directory: Path) -> None:
        self._turn = turn
        self.id = id_
        self._directory = directory

    @property
    def pid(self) -> int:
        """Process id of the command, once it has printed something."""
        return int((self._directory / "pid").read_text("utf-8"))

    def let_end(self) -> None:
        """Let the command end by itself."""
        (self._directory / "go").touch()

    def start_request(self, method: str) -> int:
        """Send a request about the terminal and return its id."""
        params = {"sessionId": self._turn.session, "terminalId": self.id}
        return self._turn.peer.start_request(f"terminal/{method}", params)

    async def ask(self, method: str) -> ReceivedMessage:
        """Send a request about the terminal and return the response."""
        return await self._turn.answer(f"terminal/{method}", terminalId=self.id)

    async def output(self, text: str) -> ReceivedMessage:
        """Return the first output with this text.

        Raises:
            PeerFailed: There is none in time.
        """
        try:
            async with self._turn.peer.limit.bound():
                while True:
                    answer = await self.ask("output")
                    if answer.error or text in str(answer.result.get("output")):
                        return answer
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise PeerFailed(f"the output of the command, {text!r}, does not appear") from None


@contextlib.asynccontextmanager
async def _terminal(
    run: ClientCaseRun, turn: CheckedTurn, script: str, **params: object
) -> AsyncGenerator[PlayedTerminal]:
    """Let the client run a script, in a directory of its own; what is judged is that it can be started at all."""
    if not turn.agent.client_has("terminal"):
        raise CaseSkipped("the client does not advertise terminal")
    with turn.directory() as directory:
        with run.judging(*([106] if 106 in run.rules else [188])):
            request = {"command": "sh", "args": ["-c", script, str(directory)], "cwd": str(directory), **params}
            made = await turn.answer("terminal/create", **request)
        run.expect(188, made.code != METHOD_NOT_FOUND, f"terminal/create is answered with {describe(made)}", made)
        if made.error:
            reason = f"the client refuses to run a command with {describe(made)}; let it allow that"
            run.conclude(RuleVerdict.NOT_OBSERVED, reason)
            raise CaseEnded
        terminal = PlayedTerminal(turn, str(made.result.get("terminalId", "")), directory)
        try:
            yield terminal
        finally:
            terminal.let_end()


@case("terminal-runs", 106, 108, 109, 188, versions=(1,))
async def terminal_runs(run: ClientCaseRun) -> None:
    """Let the client run a command, and ask for its output before and after its end."""
    async with run.turn() as turn, _terminal(run, turn, WAITING) as terminal:
        run.expect(106, True, "")
        with run.judging(108):
            begun = await terminal.output("begun")
            message = f"while the command runs, terminal/output is answered with {describe(begun)}"
            run.expect(108, not begun.error and begun.result.get("exitStatus") is None, message, begun)
        waiting = terminal.start_request("wait_for_exit")
        terminal.let_end()
        with run.judging(109):
            status = await turn.peer.response(waiting, "terminal/wait_for_exit")
        expected = {"exitCode": EXIT_CODE, "signal": None}
        got = {name: status.result.get(name) for name in expected}
        run.expect(109, got == expected, f"`exit 3` is reported as {describe(status)}", status)
        with run.judging(108):
            done = await terminal.output("done")
        run.expect(108, isinstance(done.result.get("exitStatus"), dict), "exitStatus is missing after the exit", done)
        await terminal.ask("release")


@case("terminal-truncation", 107, 188, versions=(1,))
async def terminal_truncation(run: ClientCaseRun) -> None:
    """Limit the output of a command so that the limit cuts a character."""
    async with run.turn() as turn, _terminal(run, turn, PRINTING, outputByteLimit=BYTE_LIMIT) as terminal:
        with run.judging(107):
            await terminal.ask("wait_for_exit")
            answer = await terminal.output("é")
        output, is_truncated = str(answer.result.get("output")), answer.result.get("truncated")
        received = output.encode("utf-8", "replace")
        message = (
            f"with the limit {BYTE_LIMIT} the output has {len(received)} bytes, is {output!r}, truncated={is_truncated}"
        )
        is_right = is_truncated is True and len(received) <= BYTE_LIMIT and output == "é" * len(output) and output
        run.expect(107, is_right, message, answer)
        await terminal.ask("release")


@case("terminal-ended", 109, 110, 111, 188, versions=(1,))
async def terminal_ended(run: ClientCaseRun) -> None:
    """Kill a command and use its terminal, then release the terminal of a command that runs."""
    async with run.turn() as turn:
        async with _terminal(run, turn, WAITING) as terminal:
            await _judge_killed(run, terminal)
            await _judge_released(run, terminal)
        async with _terminal(run, turn, WAITING) as terminal:
            await terminal.output("begun")
            pid = terminal.pid
            await _judge_released(run, terminal)
            run.expect(111, await _is_gone(pid, run.limit), "the command still runs after terminal/release")


async def _judge_killed(run: ClientCaseRun, terminal: PlayedTerminal) -> None:
    with run.judging(110):
        await terminal.output("begun")
        await terminal.ask("kill")
        answers = [await terminal.ask("wait_for_exit"), await terminal.ask("output"), await terminal.ask("kill")]
    failed = [each for each in answers if each.error]
    run.expect(110, not failed, f"after terminal/kill the terminal is gone: {describe(*failed)}", *failed)
    if not answers[0].error:
        code, signal = (answers[0].result.get(name) for name in ("exitCode", "signal"))
        message = f"a killed command is reported with exitCode {code!r} and signal {signal!r}"
        run.expect(109, (code is None) != (signal is None), message, answers[0])


async def _judge_released(run: ClientCaseRun, terminal: PlayedTerminal) -> None:
    with run.judging(111):
        released, after = await terminal.ask("release"), await terminal.ask("output")
    message = f"after terminal/release, answered with {describe(released)}, terminal/output gives {describe(after)}"
    run.expect(111, not released.error and after.code == NOT_FOUND, message, released, after)


async def _is_gone(pid: int, limit: WaitLimit) -> bool:
    # Polled, because the system tells only its parent about the end of a process.
    with contextlib.suppress(TimeoutError):
        async with limit.bound():
            while _runs(pid):  # noqa: ASYNC110 - not a child of this process
                await asyncio.sleep(POLL_SECONDS)
    return not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    with contextlib.suppress(OSError):  # a process that has ended, but whose parent has not taken notice of it
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    return True


CASES: tuple[CheckCase[ClientCaseRun], ...] = (terminal_runs, terminal_truncation, terminal_ended)
