"""Commands about the session itself: what is known of it, modes, options, compaction."""

from __future__ import annotations

from duologue import Turn
from duologue.builtin.markdown import table
from duologue.builtin.settings import BuiltinSettings
from duologue.builtin.slash_command import command
from duologue.conversation.content import JsonObject, text_of
from duologue.errors import InvalidParams, RequestError

PING = "_duologue.example/ping"


@command("session", "Show what I know of this session and of your client", shows="client capabilities, `systemPrompt`")
async def session(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Show everything that the client sent about the session."""
    here = turn.session
    client, prompt = here.client_info, here.setup.system_prompt
    features = turn.client_capabilities
    rows = [
        ("session", f"`{here.id}`"),
        ("directories", ", ".join(f"`{root}`" for root in here.setup.roots)),
        ("title", here.title or "none"),
        ("system prompt", "none" if prompt is None else f"{prompt.mode}: {text_of(prompt.content)}"),
        ("MCP servers", ", ".join(server.name for server in here.setup.mcp_servers) or "none"),
        ("client", "unknown" if client is None else f"{client.title or client.name} {client.version}"),
        ("it offers", ", ".join(name for name in features.__struct_fields__ if getattr(features, name) is True) or "-"),
    ]
    await turn.say(table(("what", "value"), rows))


@command("mode", "Show or switch the mode", shows="`current_mode_update`", hint="ask, architect or code")
async def mode(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Show the mode, or change it from the agent's side."""
    if argument:
        await _set(turn, "mode", argument.strip())
    await turn.say(f"The mode is `{turn.settings.mode}`.\n")


@command("config", "Show the settings or change one", shows="`config_option_update`", hint="[name value]")
async def config(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Show the settings, or change one from the agent's side."""
    name, _, value = argument.strip().partition(" ")
    if name:
        await _set(turn, name, value == "true" if value in ("true", "false") else value)
    rows = [(f"`{each.setting_id}`", f"`{each.value}`", each.description or "") for each in turn.settings.describe()]
    await turn.say(table(("setting", "value", "meaning"), rows))


@command("compact", "Shorten the context", shows="`compaction_update`, `compaction_summary_chunk`", hint="[fail]")
async def compact(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Send a summary in chunks, then complete; or a failure."""
    name = turn.session.new_id("compaction")
    await turn.report_compaction(name, "in_progress")
    if argument.strip() == "fail":
        await turn.report_compaction(name, "failed", error="You asked for it.")
        await turn.say("The context could not be shortened.\n")
        return
    for piece in ("We talked. ", "It went well."):
        await turn.send_compaction_chunk(name, piece)
    await turn.report_compaction(name, "completed", summary="We talked. It went well.")
    await turn.say("The context was shortened.\n")


@command("extension", "Call a custom method of the client", shows="extension methods and notifications")
async def extension(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Call a custom method; a client without it answers -32601, and the turn goes on."""
    greeting = {"greeting": "hello"}
    await turn.session.notify_extension(PING, greeting)
    try:
        answer: JsonObject = await turn.session.call_extension(PING, greeting)
    except RequestError as error:
        await turn.say(f"Your client does not know `{PING}`: {error.message} ({error.code}).\n")
        return
    await turn.say(f"Your client answered `{PING}`: `{answer}`.\n")


COMMANDS = (session, mode, config, compact, extension)


async def _set(turn: Turn[BuiltinSettings], name: str, value: str | bool) -> None:
    try:
        await turn.set_option(**{name: value})
    except InvalidParams as error:
        await turn.say(f"That cannot be set: {error.message}.\n\n")
