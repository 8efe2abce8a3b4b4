"""Cases about modes and configuration options."""

from __future__ import annotations

from duologue.conformance.agent_driver import DrivenAgent
from duologue.conformance.case import CaseSkipped, CheckCase, case
from duologue.conformance.checked_agent import AgentRun, describe
from duologue.conformance.raw_peer import Json, ReceivedMessage, objects

INVALID_PARAMS = -32602
UNKNOWN = "duologue-check-unknown"


def _modes(response: ReceivedMessage) -> tuple[str, list[str]]:
    """Return the current mode of a new session and all its modes.

    Raises:
        CaseSkipped: It has none.
    """
    found = objects([response.result.get("modes")])
    modes = [str(each.get("id")) for each in objects(found[0].get("availableModes"))] if found else []
    if not modes:
        raise CaseSkipped("the agent has no modes")
    return str(found[0].get("currentModeId")), modes


@case("set-mode", 115, versions=(1,))
async def set_mode(run: AgentRun) -> None:
    """Set each mode, and one that does not exist."""
    async with run.connect() as agent:
        opened = await agent.open_session()
        _, modes = _modes(opened)
        session = opened.result.get("sessionId")
        for mode in modes:
            with run.judging(115):
                response = await agent.peer.request("session/set_mode", {"sessionId": session, "modeId": mode})
            run.expect_result(115, response, f"the mode {mode!r}, which the agent offers")
        with run.judging(115):
            response = await agent.peer.request("session/set_mode", {"sessionId": session, "modeId": UNKNOWN})
        run.expect_error(115, response, "a mode that does not exist", INVALID_PARAMS)


@case("mode-while-running", 159, versions=(1,))
async def mode_while_running(run: AgentRun) -> None:
    """Change the mode while a turn runs."""
    text = run.prompt("long")
    async with run.connect() as agent:
        opened = await agent.open_session()
        current, modes = _modes(opened)
        session = str(opened.result.get("sessionId"))
        started = agent.start_prompt(session, text)
        await started.started()
        other = next((each for each in modes if each != current), current)
        with run.judging(159):
            response = await agent.peer.request("session/set_mode", {"sessionId": session, "modeId": other})
        run.expect_result(159, response, "session/set_mode while a turn runs")
        run.expect(159, not started.has_ended, "session/set_mode was answered only after the turn", response)
        agent.cancel(session)
        await started.end()


def _options(response: ReceivedMessage) -> list[Json]:
    return response.objects_in("configOptions")


class _Options:
    """The configuration options of a session, in the words of one version of the protocol."""

    def __init__(self, agent: DrivenAgent, opened: ReceivedMessage) -> None:
        self.session = str(opened.result.get("sessionId"))
        self._agent = agent
        self._key = "id" if agent.version == 1 else "configId"
        self.all = _options(opened)
        if not self.all:
            raise CaseSkipped("the agent has no configuration options")

    def values(self, options: list[Json]) -> dict[str, object]:
        """Return the current value of each option."""
        return {str(each.get(self._key)): each.get("currentValue") for each in options}

    def select(self) -> Json | None:
        """Return an option with values to select from."""
        return next((each for each in self.all if each.get("type") == "select"), None)

    def params(self, name: object, value: object) -> Json:
        """Return the parameters that set an option."""
        params: Json = {"sessionId": self.session, "configId": name, "value": value}
        if isinstance(value, bool):
            params["type"] = "boolean"
        elif self._agent.version == 2:
            params["type"] = "id"
        return params

    def name(self, option: Json) -> object:
        """Return the id of an option."""
        return option.get(self._key)

    async def set(self, name: object, value: object) -> ReceivedMessage:
        """Set an option and return the response."""
        return await self._agent.peer.request("session/set_config_option", self.params(name, value))


def _selectable(option: Json) -> list[object]:
    """Return the values of an option, in groups or not."""
    found = objects(option.get("options"))
    flat = [each for group in found for each in objects(group.get("options"))] or found
    return [each["value"] for each in flat if isinstance(each.get("value"), str)]


@case("set-option", 119, 120)
async def set_option(run: AgentRun) -> None:
    """Set an option to each of its values, to one that does not exist, and an option that does not exist."""
    async with run.connect() as agent:
        options = _Options(agent, await agent.open_session())
        chosen = options.select() or options.all[0]
        name, values = options.name(chosen), _selectable(chosen) or [chosen.get("currentValue")]
        before: dict[str, object] = {}
        for value in values:
            with run.judging(119):
                response = await options.set(name, value)
            before = options.values(_options(response))
            message = f"expected all options, {', '.join(options.values(options.all))}: got {describe(response)}"
            run.expect(119, set(before) >= set(options.values(options.all)), message, response)
        for wrong in ((UNKNOWN, values[0]), (name, UNKNOWN)):
            with run.judging(120):
                response = await options.set(*wrong)
            run.expect_error(120, response, f"the option {wrong[0]!r} with the value {wrong[1]!r}", INVALID_PARAMS)
        with run.judging(120):
            response = await options.set(name, values[-1])
        after = options.values(_options(response))
        run.expect(120, after == before, f"a refused change changed options: {before} became {after}", response)


CASES: tuple[CheckCase[AgentRun], ...] = (set_mode, mode_while_running, set_option)
