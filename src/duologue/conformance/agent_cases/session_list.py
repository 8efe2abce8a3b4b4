"""Cases about the list of sessions: filters, cursors, deleted sessions."""

from __future__ import annotations

from pathlib import Path

from duologue.conformance.agent_driver import DrivenAgent
from duologue.conformance.case import CaseSkipped, CheckCase, NotProvoked, case
from duologue.conformance.checked_agent import AgentRun, describe
from duologue.conformance.raw_peer import Json, PeerFailed, ReceivedMessage, objects

UNKNOWN_SESSION = "duologue-check-unknown"
MAX_PAGES = 50


async def _list(agent: DrivenAgent, cwd: Path) -> tuple[list[Json], ReceivedMessage]:
    """Return all sessions of a directory, and the last page."""
    found: list[Json] = []
    params: Json = {"cwd": str(cwd)}
    for _ in range(MAX_PAGES):
        page = await agent.peer.request("session/list", params)
        found += objects(page.result.get("sessions"))
        cursor = page.result.get("nextCursor")
        if not isinstance(cursor, str):
            return found, page
        params = {"cwd": str(cwd), "cursor": cursor}
    raise PeerFailed(f"session/list has more than {MAX_PAGES} pages")


@case("list-sessions", 66, 67, 69)
async def list_sessions(run: AgentRun) -> None:
    """List the sessions of a directory without any, and of one of two similar directories; use a made-up cursor."""
    empty, one, other = (run.directory / name for name in ("empty", "first", "second"))
    for each in (empty, one, other, one / "inner"):
        each.mkdir()
    async with run.connect() as agent:
        agent.require_session_method("list")
        for cwd in (one, other, one / "inner"):
            session = await agent.new_session(cwd=str(cwd))
            await agent.prompt(session, run.prompt("answer"))  # some agents store only sessions with a prompt
        with run.judging(66):
            page = await agent.peer.request("session/list", {"cwd": str(empty)})
        if page.error:
            raise NotProvoked(f"session/list failed: {describe(page)}")
        sessions = page.result.get("sessions")
        message = f"the directory has no sessions: expected `sessions: []`, got {describe(page)}"
        run.expect(66, isinstance(sessions, list), message, page)
        with run.judging(67):
            found, page = await _list(agent, one)
        foreign = sorted({str(each.get("cwd")) for each in found} - {str(one), str(one.resolve())})
        message = f"the list was limited to {one}, and has sessions of {', '.join(foreign)}"
        run.expect(67, not foreign and not sessions, message if foreign else f"{empty} has sessions: {sessions}", page)
        with run.judging(69):
            page = await agent.peer.request("session/list", {"cursor": "duologue-check-no-cursor"})
        run.expect_error(69, page, "session/list with an unknown cursor")


@case("delete-session", 72, 73)
async def delete_session(run: AgentRun) -> None:
    """Delete a session that does not exist, and one twice; look for it in the list."""
    async with run.connect() as agent:
        agent.require_session_method("delete")
        with run.judging(72):
            response = await agent.peer.request("session/delete", {"sessionId": UNKNOWN_SESSION})
        run.expect_result(72, response, "deleting a session that does not exist")
        session = await agent.new_session()
        await agent.prompt(session, run.prompt("answer"))
        response = await agent.peer.request("session/delete", {"sessionId": session})
        if response.error:
            raise CaseSkipped(f"the session cannot be deleted: {describe(response)}")
        if agent.has_session_method("list"):
            with run.judging(73):
                found, page = await _list(agent, run.directory)
            is_gone = session not in [each.get("sessionId") for each in found]
            run.expect(73, is_gone, f"the session {session} was deleted and is listed", page)
        else:
            run.skip(73, "the agent does not advertise session/list")
        with run.judging(72):
            response = await agent.peer.request("session/delete", {"sessionId": session})
        run.expect_result(72, response, "deleting a session a second time")


CASES: tuple[CheckCase[AgentRun], ...] = (list_sessions, delete_session)
