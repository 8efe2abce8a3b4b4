"""Slash commands of the adapter: `/clear`, `/compact` and `/model`."""

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.exceptions import AgentRunError, UserError
from pydantic_ai.usage import RunUsage

from duologue.agent.agent import Agent
from duologue.agent.turn import Turn
from duologue.errors import InvalidParams
from duologue.integrations.pydantic_ai.history import as_text, compacted, load_history, save_history
from duologue.integrations.pydantic_ai.run import RunOptions, report_tokens

SUMMARIZE = (
    "Summarize this conversation between a user and an assistant for the assistant, who continues from the summary "
    "alone: what the user wants, what was decided and done, names of files and values that matter, what is open."
)


def add_commands(served: Agent[Any], agent: PydanticAgent[Any, Any], options: RunOptions) -> None:
    """Register the commands; the author may register others, also of the same names."""

    @served.command("clear", "Start anew: the model no longer sees the conversation so far")
    async def clear(turn: Turn[Any], argument: str) -> None:
        save_history(turn.session, [])
        await turn.say("The model no longer sees the conversation so far.")

    @served.command("compact", "Replace the conversation that the model sees by a summary")
    async def compact(turn: Turn[Any], argument: str) -> None:
        await _compact(agent, options, turn, argument)

    if options.models:

        @served.command("model", "Show or choose the model", hint="name of a model")
        async def model(turn: Turn[Any], argument: str) -> None:
            await _choose_model(turn, argument, list(options.models))


async def _choose_model(turn: Turn[Any], argument: str, models: list[str]) -> None:
    if argument:
        try:
            await turn.set_option(model=argument)
        except InvalidParams as error:
            await turn.say(error.message)
            return
    current = turn.settings.model
    await turn.say(f"The model is {current}. To choose from: {', '.join(models)}.")


async def _compact(agent: PydanticAgent[Any, Any], options: RunOptions, turn: Turn[Any], argument: str) -> None:
    history = load_history(turn.session)
    model = options.model_of(turn) or agent.model
    if not history or model is None:
        await turn.say("There is nothing to compact." if model else "This agent has no model that could compact it.")
        return
    compaction = turn.session.new_id("compaction")
    await turn.report_compaction(compaction, "in_progress")
    writer: PydanticAgent[None, str] = PydanticAgent(model, instructions=f"{SUMMARIZE}\n{argument}".strip())
    usage = RunUsage()
    try:
        async with writer.run_stream(as_text(history), usage=usage) as stream:
            async for piece in stream.stream_text(delta=True):
                await turn.say(piece)
            summary = await stream.get_output()
    except (AgentRunError, UserError) as error:
        await turn.report_compaction(compaction, "failed", error=str(error))
        await turn.say(f"The conversation was not compacted: {error}")
        return
    finally:
        report_tokens(turn, usage)
    save_history(turn.session, compacted(history, summary))
    await turn.report_compaction(compaction, "completed", summary=summary)
    await turn.say(f"\n\nThe model now sees this summary instead of {len(history)} messages.")
