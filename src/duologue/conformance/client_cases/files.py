"""Cases about files that the client reads and writes for the agent."""

from __future__ import annotations

from pathlib import Path

from duologue.conformance.case import CaseSkipped, CheckCase, case
from duologue.conformance.client_cases.messages import METHOD_NOT_FOUND, describe
from duologue.conformance.client_cases.session_setup import NOT_FOUND
from duologue.conformance.client_side.checked_client import ClientCaseRun
from duologue.conformance.client_side.played_turn import CheckedTurn
from duologue.conformance.raw_peer import ReceivedMessage
from duologue.conformance.verdicts import RuleVerdict

LINES = ["one\n", "two\n", "thrée\n", "four\n", "five\n"]
WINDOWS: tuple[tuple[int | None, int | None], ...] = ((2, 2), (1, 1), (4, None), (None, 3), (5, 9))
CONTENT = "new content\nwith thrée lines\n\N{GRINNING FACE}\n"


@case("files-read", 102, 104, 188, versions=(1,))
async def files_read(run: ClientCaseRun) -> None:
    """Let the client read parts of a file, and a file that does not exist."""
    async with run.turn() as turn:
        if not turn.agent.client_has("fs", "readTextFile"):
            raise CaseSkipped("the client does not advertise fs.readTextFile")
        with turn.directory() as directory:
            path = directory / "lines.txt"
            path.write_text("".join(LINES), "utf-8")
            whole = await _read(turn, path)
            run.expect(
                188, whole.code != METHOD_NOT_FOUND, f"fs/read_text_file is answered with {describe(whole)}", whole
            )
            if whole.error:
                _not_allowed(run, whole, 102, 104)
                return
            for line, limit in WINDOWS:
                await _judge_window(run, turn, path, line, limit)
            with run.judging(104):
                missing = await _read(turn, directory / "missing.txt")
            message = f"a missing file is answered with {describe(missing)}; expected {NOT_FOUND}"
            run.expect(104, missing.code == NOT_FOUND, message, missing)


async def _read(turn: CheckedTurn, path: Path, **window: int) -> ReceivedMessage:
    return await turn.answer("fs/read_text_file", path=str(path), **window)


async def _judge_window(run: ClientCaseRun, turn: CheckedTurn, path: Path, line: int | None, limit: int | None) -> None:
    window = {name: value for name, value in (("line", line), ("limit", limit)) if value is not None}
    with run.judging(102):
        part = await _read(turn, path, **window)
    first = (line or 1) - 1
    expected = "".join(LINES[first : len(LINES) if limit is None else first + limit])
    content = part.result.get("content")
    is_same = isinstance(content, str) and content.removesuffix("\n") == expected.removesuffix("\n")
    run.expect(102, is_same, f"line={line}, limit={limit} gives {describe(part)}; expected {expected!r}", part)


def _not_allowed(run: ClientCaseRun, answer: ReceivedMessage, *rules: int) -> None:
    for rule in rules:
        reason = f"the client refuses it with {describe(answer)}; let it allow reading and writing"
        run.judge(rule, RuleVerdict.NOT_OBSERVED, reason, answer)


@case("files-written", 101, 188, versions=(1,))
async def files_written(run: ClientCaseRun) -> None:
    """Let the client write a file that exists, and one that does not."""
    async with run.turn() as turn:
        if not turn.agent.client_has("fs", "writeTextFile"):
            raise CaseSkipped("the client does not advertise fs.writeTextFile")
        with turn.directory() as directory:
            known, new = directory / "known.txt", directory / "new.txt"
            known.write_text("old\n", "utf-8")
            control = await turn.answer("fs/write_text_file", path=str(known), content=CONTENT)
            message = f"fs/write_text_file is answered with {describe(control)}"
            run.expect(188, control.code != METHOD_NOT_FOUND, message, control)
            if control.error:
                _not_allowed(run, control, 101)
                return
            with run.judging(101):
                answer = await turn.answer("fs/write_text_file", path=str(new), content=CONTENT)
                is_there = not answer.error and await _has(turn, new)
            run.expect(
                101, is_there, f"writing a new file is answered with {describe(answer)}, and it is not there", answer
            )


def _is_on_disk(path: Path) -> bool:
    return path.is_file() and path.read_text("utf-8") == CONTENT


async def _has(turn: CheckedTurn, path: Path) -> bool:
    """Return True if a file has the content that was written, on the disk or in the client's editor."""
    if _is_on_disk(path):
        return True
    if not turn.agent.client_has("fs", "readTextFile"):
        return False
    return (await _read(turn, path)).result.get("content") == CONTENT


CASES: tuple[CheckCase[ClientCaseRun], ...] = (files_read, files_written)
