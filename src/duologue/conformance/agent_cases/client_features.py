"""Cases about features of clients that an agent uses only if they are advertised: files, terminals, some updates."""

from __future__ import annotations

from duologue.conformance.agent_driver import DrivenAgent
from duologue.conformance.case import CaseSkipped, CheckCase, NotProvoked, case
from duologue.conformance.checked_agent import AgentRun
from duologue.conformance.profile import Act
from duologue.conformance.raw_peer import ReceivedMessage

OPTIONAL_UPDATES = ("notice", "compaction_update", "compaction_summary_chunk")


def _requests(agent: DrivenAgent, prefix: str) -> list[ReceivedMessage]:
    return [each for each in agent.peer.received if each.method.startswith(prefix)]


@case("file-access", 100, versions=(1,))
async def file_access(run: AgentRun) -> None:
    """Let the agent read and write a file of a client with files, and of one without."""
    acts: list[Act] = [each for each in ("read_file", "write_file") if run.knows(each)] or ["read_file"]
    await _expect_advertised(run, 100, "fs/", acts, "files")


@case("terminal-use", 105, 112, versions=(1,))
async def terminal_use(run: AgentRun) -> None:
    """Let the agent run a command for a client with terminals, and for one without; it releases each terminal."""
    text = run.prompt("terminal")
    async with run.session() as (agent, session):
        await agent.prompt(session, text)
        if not agent.services.terminals:
            raise NotProvoked("the agent used no terminal of a client that has them")
        if any(agent.services.terminals.values()) and agent.has_session_method("close"):
            await agent.peer.request("session/close", {"sessionId": session})
            await agent.peer.barrier()
        open_ones = ", ".join(name for name, is_open in agent.services.terminals.items() if is_open)
        created = _requests(agent, "terminal/create")
        run.expect(112, not open_ones, f"{open_ones} was not released at the end of the turn", *created)
    await _expect_unused(run, 105, "terminal/", ["terminal"], "terminals")


async def _expect_advertised(run: AgentRun, rule: int, prefix: str, acts: list[Act], what: str) -> None:
    texts = [run.prompt(act) for act in acts]
    async with run.session() as (agent, session):
        for text in texts:
            await agent.prompt(session, text)
        if not _requests(agent, prefix):
            raise NotProvoked(f"the agent used no {what} of a client that has them")
    await _expect_unused(run, rule, prefix, acts, what)


async def _expect_unused(run: AgentRun, rule: int, prefix: str, acts: list[Act], what: str) -> None:
    async with run.session({}) as (agent, session):
        for act in acts:
            with run.judging(rule):
                await agent.prompt(session, run.prompt(act))
        used = _requests(agent, prefix)
        methods = ", ".join(sorted({each.method for each in used}))
        run.expect(rule, not used, f"the client did not advertise {what}, and the agent sent {methods}", *used)


@case("optional-updates", 124, versions=(1,))
async def optional_updates(run: AgentRun) -> None:
    """Provoke notices and compaction with a client that has them, and with one that does not."""
    acts: list[Act] = [each for each in ("notice", "compaction") if run.knows(each)]
    if not acts:
        run.prompt("notice")
    async with run.session() as (agent, session):
        for act in acts:
            await agent.prompt(session, run.prompt(act))
        if not [each for each in agent.peer.received if each.update_kind in OPTIONAL_UPDATES]:
            raise NotProvoked("the agent sent neither a notice nor a compaction to a client that has both")
    async with run.session({}) as (agent, session):
        for act in acts:
            with run.judging(124):
                await agent.prompt(session, run.prompt(act))
        sent = [each for each in agent.peer.received if each.update_kind in OPTIONAL_UPDATES]
        kinds = ", ".join(sorted({each.update_kind for each in sent}))
        run.expect(124, not sent, f"the client did not advertise it, and the agent sent {kinds}", *sent)


@case("boolean-options", 122, versions=(1,))
async def boolean_options(run: AgentRun) -> None:
    """Open a session as a client with boolean options, and as one without."""
    async with run.connect() as agent:
        offered = await agent.open_session()
        if not _booleans(offered):
            raise CaseSkipped("the agent has no boolean options")
    async with run.connect({}) as agent:
        response = await agent.open_session()
        names = ", ".join(_booleans(response))
        run.expect(122, not names, f"the client did not advertise boolean options, and got {names}", response)


def _booleans(response: ReceivedMessage) -> list[str]:
    options = response.objects_in("configOptions")
    return [str(each.get("id")) for each in options if each.get("type") == "boolean"]


CASES: tuple[CheckCase[AgentRun], ...] = (file_access, terminal_use, optional_updates, boolean_options)
