"""Questions of an agent that are more than a yes or no: forms, field by field, and addresses to visit."""

from __future__ import annotations

from typing import Any

from duologue.cli.console.line_reader import LineReader
from duologue.cli.console.permission_prompt import terminal_width, wrapped
from duologue.cli.console.renderer import Output
from duologue.cli.console.safe_output import say
from duologue.client.services.form_validation import choices_of, field_error
from duologue.conversation.urls import host_of
from duologue.protocol.values import Elicitation, ElicitationAnswer
from duologue.sanitize import escape_line

__all__ = ["FormPrompt", "read_value"]

DECLINED = ElicitationAnswer(action="decline")
CANCELLED = ElicitationAnswer(action="cancel")


class FormPrompt:
    """Fills in forms on a terminal."""

    def __init__(self, reader: LineReader, shown: Output) -> None:
        self._reader = reader
        self._shown = shown

    async def __call__(self, question: Elicitation) -> ElicitationAnswer:
        """Ask for each field; a line that ends the input cancels all."""
        self._shown.pause()
        width = terminal_width()
        say("\n" + "\n".join(wrapped("The agent asks: ", escape_line(question.message, 2000), width)) + "\n")
        self._reader.forget()
        if question.url is not None:
            say("\n".join(wrapped("  Visit this address: ", escape_line(question.url, None), width)) + "\n")
            say(f"  It belongs to: {host_of(question.url)}\n")
            return await self._agree("Agreed?")
        agreed = await self._agree("Answer?")
        if agreed.action != "accept":
            return agreed
        schema = question.schema or {}
        required = schema.get("required", [])
        content: dict[str, Any] = {}
        for name, field in schema.get("properties", {}).items():
            value = await self._field(name, field, name in required)
            if value is CANCELLED:
                return ElicitationAnswer(action="cancel")
            if value is not None:
                content[name] = value
        return ElicitationAnswer(action="accept", content=content)

    async def _agree(self, words: str) -> ElicitationAnswer:
        say(f"{words} (y for yes, enter means no): ")
        said = await self._reader.read()
        if said is None:
            return CANCELLED
        return ElicitationAnswer(action="accept", content={}) if said.strip().lower() in ("y", "yes") else DECLINED

    async def _field(self, name: str, field: dict[str, Any], is_required: bool) -> Any:
        """A value that fits, None for none, or that everything is cancelled."""
        told = escape_line(str(field.get("title") or name))
        if field.get("description"):
            told += f" ({escape_line(str(field['description']))})"
        choices = choices_of(field)
        hint = f" [{', '.join(escape_line(choice) for choice in choices)}]" if choices else ""
        if field.get("pattern"):
            hint += f" [like {escape_line(str(field['pattern']))}]"
        default = f" (enter for {escape_line(str(field['default']))})" if "default" in field else ""
        while True:
            say(f"  {told}{hint}{default}: ")
            said = await self._reader.read()
            if said is None:
                return CANCELLED
            if not said.strip() and not is_required:
                return field.get("default")
            if not said.strip() and "default" in field:
                return field["default"]
            try:
                return read_value(field, said.strip())
            except ValueError as error:
                say(f"    {error}\n")


def read_value(field: dict[str, Any], text: str) -> Any:
    """What a person typed, as the field wants it.

    Raises:
        ValueError: It does not fit; the message says what does.
    """
    value = _parsed(field.get("type"), text)
    wrong = field_error(field, value)
    if wrong is not None:
        raise ValueError(escape_line(wrong))
    return value


def _parsed(kind: str | None, text: str) -> Any:
    match kind:
        case "boolean" if text.lower() in ("y", "yes", "true", "n", "no", "false"):
            return text.lower() in ("y", "yes", "true")
        case "integer":
            return _number(int, text, "a whole number, please")
        case "number":
            return _number(float, text, "a number, please")
        case "array":
            return [each.strip() for each in text.split(",") if each.strip()]
        case _:
            if not text:
                raise ValueError("this is needed")
            return text


def _number(kind: type[int | float], text: str, wanted: str) -> float:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(wanted) from None
