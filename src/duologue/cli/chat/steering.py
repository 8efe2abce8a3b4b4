"""Send text into the running turn, or queue it where that is impossible."""

from __future__ import annotations

from duologue.cli.chat.line_editor import LineEditor
from duologue.cli.chat.queue_commands import enqueue
from duologue.cli.chat.queued_prompts import QueuedPrompts
from duologue.cli.console.renderer import ConsoleOutput
from duologue.cli.console.safe_output import Style, say
from duologue.cli.error_report import explain
from duologue.cli.exit_codes import UsageError
from duologue.client.turn import ClientTurn
from duologue.errors import DuologueError
from duologue.runtime.tasks import TaskScope
from duologue.sanitize import escape_line

NOTES = {
    "started_new_turn": "the agent begins a turn of its own with",
    "prompt_required": "not taken by the turn, so it is queued",
    "not_supported": "queued, as this agent cannot be steered",
}
"""The note for each outcome except that the turn has taken the text, before the text."""


class Steering:
    """Sends text into running turns.

    Args:
        queue: Receives text that the agent did not take, before the others.
        screen: Paused before something is shown.
        editor: Shows text that was sent.

    Attributes:
        pending: Texts that were sent and that the agent has not taken yet.
    """

    def __init__(self, queue: QueuedPrompts, screen: ConsoleOutput, editor: LineEditor) -> None:
        self._queue = queue
        self._screen = screen
        self._editor = editor
        self.pending: list[str] = []
        self._tasks: TaskScope | None = None

    async def settle(self) -> None:
        """Wait until the outcome of every text is known; each turn that ends settles those that it did not take."""
        if self._tasks is not None:
            await self._tasks.settle()

    def start(self, turn: ClientTurn | None, text: str) -> None:
        """Begin to send text into a turn; without one, the text is a prompt.

        Raises:
            UsageError: There is no text, or too many prompts wait.
        """
        if not text:
            raise UsageError("`:steer` needs the text to send into the running turn")
        if turn is None:
            enqueue(self._queue, self._editor, text)
        else:
            if turn.session.agent.capabilities.steering:
                self._screen.pause()
                self._editor.echo(text)
                self._note("sent into the running turn")
            self._tasks = self._tasks or TaskScope()
            self._tasks.start(self._steer(turn, text))

    async def _steer(self, turn: ClientTurn, text: str) -> None:
        """Send text into a turn, show what became of it, and queue it if the agent did not take it."""
        self.pending.append(text)
        self._editor.refresh()
        try:
            result = await turn.steer(text)
            note, is_taken = NOTES.get(result.outcome, ""), result.is_taken
        except DuologueError as error:
            note, is_taken = f"queued, as {explain(error)}", False
        finally:
            self.pending.remove(text)
            self._editor.refresh()
        shown = f"{note}: {escape_line(text, None)}"
        if not is_taken:
            shown = self._enqueue(turn, text, shown)
        if note:
            self._editor.above(lambda: self._note(shown))

    def _enqueue(self, turn: ClientTurn, text: str, note: str) -> str:
        """Queue text that the agent did not take, on hold if the turn was cancelled; return what to show."""
        try:
            self._queue.add(text, is_first=True)
        except UsageError as error:
            return f"{error}; this was not sent: {escape_line(text, None)}"
        if turn.is_cancelling or turn.stop_reason not in (None, "end_turn"):
            self._queue.hold()
        return note

    def _note(self, note: str) -> None:
        self._screen.pause()
        say(f"  {note}\n", Style.DIM)
