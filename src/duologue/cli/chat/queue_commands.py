"""Queue prompts, show the queue, and run the commands that change it."""

from __future__ import annotations

from duologue.cli.chat.line_editor import LineEditor
from duologue.cli.chat.queued_prompts import QueuedPrompts
from duologue.cli.console.safe_output import say, terminal_width
from duologue.cli.exit_codes import UsageError

QUEUE_COMMANDS = ("queue", "edit", "drop")
MOST_SHOWN = 5
"""Prompts that are shown above the line that is being typed; `:queue` shows all."""


def enqueue(queue: QueuedPrompts, editor: LineEditor, line: str) -> None:
    """Queue a prompt, and say so where the queue is not in view; one that does not fit can be entered again."""
    try:
        number = queue.add(line)
    except UsageError:
        editor.edit(line)
        raise
    if number and not editor.has_status:
        say(f"queued as {number}; :queue lists, :edit {number} TEXT changes, :drop {number} drops it\n")


def queue_lines(queue: QueuedPrompts, width: int) -> list[str]:
    """Return the first prompts that wait, after a line that says what can be done with them."""
    if not queue:
        return []
    them = "it" if len(queue) == 1 else "them"
    hint = f"on hold: Enter sends {them}, a new prompt goes first" if queue.is_held else ":edit N, :drop N"
    return [f"queued ({hint}):", *queue.lines(width, MOST_SHOWN)]


def run_queue_command(queue: QueuedPrompts, editor: LineEditor, name: str, argument: str) -> None:
    """Run one of the `QUEUE_COMMANDS`.

    Raises:
        UsageError: There is no such prompt.
    """
    match name:
        case "edit":
            _edit(queue, editor, argument)
        case "drop" if argument == "all":
            queue.clear()
        case "drop":
            queue.replace(queue.number_of(argument), "")
        case _:
            say("".join(f"{line}\n" for line in queue.lines(terminal_width())) or "no prompt is queued\n")


def _edit(queue: QueuedPrompts, editor: LineEditor, argument: str) -> None:
    first, _, text = argument.partition(" ")
    number = queue.number_of(first)
    if text.strip():
        queue.replace(number, text.strip())
    elif editor.has_status:
        editor.edit(queue.begin_edit(number))
    else:
        raise UsageError(f"type the new text after it: `:edit {number} TEXT`")
