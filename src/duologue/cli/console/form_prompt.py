"""Ask the user for the input an agent requests: forms, field by field, and URLs to visit."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from duologue.cli.console.line_reader import LineReader
from duologue.cli.console.permission_prompt import wrapped
from duologue.cli.console.renderer import Output
from duologue.cli.console.safe_output import say, terminal_width
from duologue.client.services.form_validation import choices_of, field_error
from duologue.conversation.urls import host_of
from duologue.protocol.values import Elicitation, ElicitationAnswer
from duologue.sanitize import escape_line

DECLINED = ElicitationAnswer(action="decline")
CANCELLED = ElicitationAnswer(action="cancel")


class FormPrompt:
    """Answers elicitations on a terminal."""

    def __init__(self, reader: LineReader, shown: Output) -> None:
        self._reader = reader
        self._shown = shown

    async def __call__(self, elicitation: Elicitation) -> ElicitationAnswer:
        """Ask for each field; the end of the input cancels the whole form."""
        async with self._reader.lock:
            return await self._ask(elicitation)

    async def _ask(self, elicitation: Elicitation) -> ElicitationAnswer:
        self._shown.pause()
        width = terminal_width()
        say("\n" + "\n".join(wrapped("The agent asks: ", escape_line(elicitation.message, 2000), width)) + "\n")
        self._reader.set_input_aside()
        if elicitation.url is not None:
            say("\n".join(wrapped("  Open this URL: ", escape_line(elicitation.url, None), width)) + "\n")
            say(f"  Host: {host_of(elicitation.url)}\n")
            return await self._agree("Open it?")
        agreed = await self._agree("Answer?")
        if agreed.action != "accept":
            return agreed
        schema = elicitation.schema or {}
        required = schema.get("required", [])
        content: dict[str, Any] = {}
        for name, field in schema.get("properties", {}).items():
            value = await self._field(name, field, name in required)
            if value is CANCELLED:
                return ElicitationAnswer(action="cancel")
            if value is not None:
                content[name] = value
        return ElicitationAnswer(action="accept", content=content)

    async def _agree(self, text: str) -> ElicitationAnswer:
        say(f"{text} (y for yes, Enter for no): ")
        typed = await self._reader.read()
        if typed is None:
            return CANCELLED
        return ElicitationAnswer(action="accept", content={}) if typed.strip().lower() in ("y", "yes") else DECLINED

    async def _field(self, name: str, field: dict[str, Any], is_required: bool) -> Any:
        """Read a valid value; None for no value, CANCELLED at the end of the input."""
        label = escape_line(str(field.get("title") or name))
        if field.get("description"):
            label += f" ({escape_line(str(field['description']))})"
        choices = choices_of(field)
        hint = f" [{', '.join(escape_line(choice) for choice in choices)}]" if choices else ""
        if field.get("pattern"):
            hint += f" [pattern: {escape_line(str(field['pattern']))}]"
        default = f" (Enter for {escape_line(str(field['default']))})" if "default" in field else ""
        while True:
            say(f"  {label}{hint}{default}: ")
            typed = await self._reader.read()
            if typed is None:
                return CANCELLED
            if not typed.strip() and ("default" in field or not is_required):
                return field.get("default")
            try:
                return read_value(field, typed.strip())
            except ValueError as error:
                say(f"    {error}\n")


def read_value(field: dict[str, Any], text: str) -> Any:
    """Convert typed text to a value of the field.

    Raises:
        ValueError: It is not valid; the message says what is.
    """
    value = _parsed(field.get("type"), text)
    wrong = field_error(field, value) if text else "a value is required"
    if wrong is not None:
        raise ValueError(escape_line(wrong))
    return value


def _parsed(kind: str | None, text: str) -> Any:
    """Return a value of this type; the text itself if it cannot be one."""
    match kind:
        case "boolean" if text.lower() in ("y", "yes", "true", "n", "no", "false"):
            return text.lower() in ("y", "yes", "true")
        case "integer" | "number":
            with suppress(ValueError):
                return int(text) if kind == "integer" else float(text)
        case "array":
            return [each.strip() for each in text.split(",") if each.strip()]
        case _:
            pass
    return text
