"""Ask for permission on a plain terminal: everything that would be allowed, then the possible answers.

Lines are wrapped here and not by the terminal: continued text of the agent starts behind a bar, so that it cannot look
like a line of ours. Each answer begins with our own name for its kind, whatever the agent calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from duologue.cli.console.diff import MOST_LINES, styled_diff
from duologue.cli.console.line_reader import LineReader
from duologue.cli.console.menu import Menu
from duologue.cli.console.renderer import Output
from duologue.cli.console.safe_output import WIDTH, Style, say, terminal_width
from duologue.client.permissions.actions import CHANGING
from duologue.client.permissions.request import ALLOWING, REJECTING, PermissionRequest
from duologue.protocol.values import PermissionOption
from duologue.sanitize import escape_line

KINDS = {
    "allow_once": ("Allow once", ("allow", "allow once")),
    "allow_always": ("Always allow; the agent decides what that covers", ("allow always", "always allow")),
    "reject_once": ("Reject", ("reject", "reject once")),
    "reject_always": ("Always reject; the agent decides what that covers", ("reject always", "always reject")),
}
"""Our name for each kind of option, and names given by agents that mean the same."""
MOST_OPTIONS = 20
"""Options of the agent that are shown; further ones cannot be chosen here."""
FIRST_ROWS, LAST_ROWS = 30, 8
"""Lines of the agent's text that are shown of its beginning and of its end; `v` shows all."""
MORE = "m"
"""Letter that lists the rare answers too."""
SHORT = 60
"""Characters of an action that is named again in an answer; for a longer one the answer refers to the list."""


@dataclass(frozen=True)
class Answer:
    """One possible answer: its name, what it decides, and the letter that chooses it.

    Attributes:
        is_rare: It is listed only if the user wants to see more answers.
    """

    name: str
    decide: Callable[[], bool]
    key: str = ""
    is_allowing: bool = True
    is_rare: bool = False


class PermissionPrompt:
    """Asks for permission on a terminal.

    Args:
        reader: Reads the user's answer.
        shown: Output that is paused for the question.
    """

    def __init__(self, reader: LineReader, shown: Output) -> None:
        self._reader = reader
        self._shown = shown

    async def __call__(self, request: PermissionRequest) -> None:
        """Ask until the user has chosen one of the answers; the end of the input rejects the request.

        The first answer that allows what was not shown whole shows the rest, and asks again.
        """
        async with self._reader.lock:
            request.mark_shown()
            if request.is_open:
                await self._ask(request)

    async def _ask(self, request: PermissionRequest) -> None:
        self._shown.pause()
        self._shown.asked(request.tool)
        answers, width = answers_to(request), terminal_width()
        listed = usual_answers(answers)
        is_cut = _show_changes(request, MOST_LINES)
        lines = describe_request(request, width)
        has_hidden_rows = len(lines) < len(describe_request(request, width, is_whole=True))
        while True:
            say("".join(f"{line}\n" for line in lines))
            for number, answer in enumerate(listed, 1):
                say("\n".join(wrapped(f"  {number}. ", _with_key(answer), width)) + "\n")
            chosen = await self._choose(listed, is_cut or has_hidden_rows, has_more=len(listed) < len(answers))
            if chosen == MORE:
                listed, lines = answers, []
                continue
            if chosen is None:
                request.reject()
                return
            if isinstance(chosen, Answer) and not ((is_cut or has_hidden_rows) and chosen.is_allowing):
                chosen.decide()
                return
            _show_changes(request, None)
            lines = describe_request(request, width, is_whole=True)
            is_cut = has_hidden_rows = False

    async def _choose(self, answers: list[Answer], is_cut: bool, has_more: bool) -> Answer | str | None:
        keys = {answer.key: index for index, answer in enumerate(answers) if answer.key}
        others = {"v": "shows all"} if is_cut else {}
        if has_more:
            others[MORE] = "lists more"
        chosen = await Menu(self._reader, [answer.name for answer in answers], keys, others).choose()
        return answers[chosen] if isinstance(chosen, int) else chosen


def _show_changes(request: PermissionRequest, most: int | None) -> bool:
    """Show the changes of files that a request is about, up to this many lines each; return True if some were cut."""
    is_cut = False
    for change in request.tool.changes:
        whole = styled_diff(change, Path(request.cwd), None)
        lines = whole if most is None else styled_diff(change, Path(request.cwd))[:most]
        for line, style in lines:
            say(f"    {line}\n", style)
        if lines != whole:
            hidden = f"{len(whole) - len(lines)} more lines" if len(lines) < len(whole) else "long lines are cut"
            say(f"    … {hidden}; v shows all\n", Style.DIM)
            is_cut = True
    return is_cut


def answers_to(request: PermissionRequest) -> list[Answer]:
    """Return the possible answers in an order of our own: once, remembered by us, the agent's own "always", rejecting.

    A request that cannot be shown completely can only be rejected.
    """
    options = {kind: list[Answer]() for kind in (*ALLOWING, *REJECTING, "")}
    for option in request.usable_options[:MOST_OPTIONS]:
        answer = Answer(
            _name_of(option, request), partial(request.choose, option.option_id), "", option.kind not in REJECTING
        )
        same = options.get(option.kind, options[""])
        if answer.name not in [each.name for each in same]:
            same.append(answer)
    if not options["reject_once"]:
        options["reject_once"].append(Answer("Reject (cancels the request)", request.cancel, "", False))
    if not request.raw:
        options["allow_always"] = []  # `_remembered` has the same, and says what it covers
    always = [*_remembered(request), *options["allow_always"]]
    always[1:] = [replace(each, is_rare=True) for each in always[1:]]
    allowing = [*_keyed("y", options["allow_once"]), *_keyed("a", always)]
    never = [replace(each, is_rare=True) for each in options["reject_always"]]
    rejecting = [*_keyed("n", options["reject_once"]), *never]
    return [*allowing, *rejecting, *options[""]] if request.is_shown_whole else rejecting


def usual_answers(answers: list[Answer]) -> list[Answer]:
    """Return the answers to list first: all of them, if that saves no more than one line."""
    usual = [answer for answer in answers if not answer.is_rare]
    return usual if len(answers) - len(usual) > 1 else answers


def _keyed(key: str, answers: list[Answer]) -> list[Answer]:
    """Return the answers, with a letter for the first one."""
    return [replace(answer, key="" if at else key) for at, answer in enumerate(answers)]


def _with_key(answer: Answer) -> str:
    return f"[{answer.key}] {answer.name}" if answer.key else answer.name


def _remembered(request: PermissionRequest) -> Iterator[Answer]:
    """Yield the approvals that are remembered here; each says what it covers."""
    if request.option_of_kind("allow_once") is None or not request.can_be_remembered:
        return
    session, cwd = "Always allow in this session", escape_line(request.context.cwd, None)
    yield Answer(f"{session}: {coverage_of(request)}", partial(request.allow, remember="session"))
    project = f"Always allow for {cwd}, also in later sessions with this agent: the same"
    yield Answer(project, partial(request.allow, remember="project"))


def coverage_of(request: PermissionRequest) -> str:
    """Return what a remembered decision on this request covers: exactly what is shown, and the content of files."""
    lines = request.action_lines
    is_short = len(lines) == 1 and len(lines[0]) <= SHORT
    what = lines[0].replace(": ", " ", 1) if is_short else f"exactly the {len(lines)} actions above"
    content = ", whatever the content" if any(action.kind in CHANGING for action in request.actions) else ""
    details = ", with the same text and input as shown" if request.extra.digest else ""
    return f"{what}{_directories(request)}{content}{details}"


def _directories(request: PermissionRequest) -> str:
    """Return where the commands of a request run."""
    directories = {action.command.cwd for action in request.actions if action.command is not None}
    return "".join(f" in {escape_line(each, None) or 'an unknown directory'}" for each in sorted(directories))


def _name_of(option: PermissionOption, request: PermissionRequest) -> str:
    """Return our name for the kind of option, then the agent's name; options of our own have our name alone."""
    if not request.raw:
        is_always = option.kind == "reject_always"
        return f"Always reject in this session: {coverage_of(request)}" if is_always else KINDS[option.kind][0]
    unknown = f"Unknown kind of answer {_short(option.kind)}, which may allow it"
    kind, usual = KINDS.get(option.kind, (unknown, ()))
    name = " ".join(option.name.split())
    return kind if name.casefold() in usual else f"{kind} (agent: {_short(name)})"


def _short(text: str) -> str:
    return f'"{escape_line(text, 40)}"'


def describe_request(request: PermissionRequest, width: int = WIDTH, *, is_whole: bool = False) -> list[str]:
    """Describe a request line by line: the agent's title, every effect, shown content, and notes.

    Args:
        request: The request.
        width: Columns of the terminal.
        is_whole: Show all of the agent's text, not only its beginning and its end.
    """
    actions, details, remainder = request.action_lines, request.details, request.extra
    lines = ["", *wrapped("The agent asks to: ", request.title or escape_line(request.tool.kind), width)]
    lines += [f"  actions ({len(actions)}):", *(line for act in actions for line in wrapped("    ", act, width))]
    if details:
        rows = [line for detail in details for line in wrapped("    | ", detail, width)]
        hidden = 0 if is_whole else len(rows) - FIRST_ROWS - LAST_ROWS
        if hidden > 1:
            rows[FIRST_ROWS:-LAST_ROWS] = [f"    … {hidden} lines are not shown; v shows all"]
        lines += ["  shown with it:", *rows]
    lines += [line for note in request.notes for line in wrapped("  note: ", note, width)]
    if not request.is_shown_whole:
        lines.append(
            f"  {remainder.hidden_files:,} more files and {remainder.hidden_characters:,} more characters cannot be "
            "shown here,\n  so you can only reject it here; a rule can allow it"
        )
    elif request.raw and not request.can_be_remembered:
        lines.append("  your answer applies once: too little was shown to recognize the same request again")
    return lines


def wrapped(head: str, text: str, width: int) -> Iterator[str]:
    """Yield the head and text of an agent in lines that fit; continued lines start behind a bar."""
    columns_left = max(10, width - max(len(head), 6) - 1)
    for number, piece in enumerate(_pieces(text, columns_left)):
        yield f"{'    | ' if number else head}{piece}"


def _pieces(text: str, columns_left: int) -> Iterator[str]:
    """Split text into pieces that fit into this many columns; a non-ASCII character may take two."""
    piece, used = "", 0
    for character in text:
        columns = 1 if character.isascii() else 2
        if used + columns > columns_left:
            yield piece
            piece, used = "", 0
        piece += character
        used += columns
    yield piece
