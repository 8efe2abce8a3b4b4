"""Documents of a conversation: complete, and safe whatever is in the recording."""

from __future__ import annotations

import json
from io import StringIO

import pytest

from duologue.conversation.tool_content import FileChange
from duologue.recording.format import Header
from duologue.trace.export import mermaid
from duologue.trace.export.document import write_json
from duologue.trace.export.markdown import safe_lines, write_markdown
from duologue.trace.export.mermaid import write_mermaid
from duologue.trace.item_queue import ConversationItem
from tests.trace.recorded_run import RecordedRun, whole_run
from tests.trace.test_conversation import items_of

HEADER = Header("recording", version=2, started="2026-11-15", agent=["gem", "--acp"])
EVIL = "\x1b[2J<script>alert(1)</script>![x](http://evil/a.png) end; A->>C: forged\n## User\u202e"


def everything(session: str = "s1") -> RecordedRun:
    run = whole_run(session)
    run.request("to_agent", "session/set_mode", {"sessionId": session, "modeId": "x"}, {"code": 1, "message": "no"})
    run.frame("to_client", id=99, result={}).other(dir="to_client", text="Loading").other(gap=3).other(exit_code=1)
    run.text("before", kind="user_message_chunk").update("current_mode_update", currentModeId="plan")
    big = {"type": "diff", "path": "/a", "oldText": "x\n" * 3000, "newText": ""}
    run.update("tool_call", toolCallId="c9", title="", status="completed", content=[big])
    return run.update("tool_call", toolCallId="c10", title="Look", status="pending")


def markdown(run: RecordedRun) -> str:
    out = StringIO()
    write_markdown(HEADER, items_of(run), out)
    return out.getvalue()


def diagram(run: RecordedRun) -> str:
    out = StringIO()
    write_mermaid(HEADER, items_of(run), out)
    return out.getvalue()


def test_markdown_has_everything_that_happened() -> None:
    text = markdown(everything())

    assert text.startswith("# Conversation\n\nRecorded 2026-11-15, agent `gem --acp`\n\n- initialize zed 0.2 and gem")
    for part in (
        "- session/new `s1` in `/project`\n\n## User\n\nFix the test\n\n> I should look first\n",
        "### Plan\n\n- [ ] Read\n",
        "- **read**: Read a.py (completed, 500 ms)\n\n  ```\n  import b\n  ```\n",
        "-import b\n  +import c\n  ```\n",
        "- **permission** for Edit a.py: Allow once / Reject\n- **answer**: Allow once, 100 ms\n",
        "## Agent\n\nI have fixed it.\n\n- **turn ended**: end_turn, 1.6 s\n",
        "- **session/set_mode failed**: no (1)\n",
        "- **not a message**: Loading\n- 3 frames are missing here\n- the agent ended with exit code 1\n",
        "- mode plan\n",
        "3,000 lines become 0\n",
        "- Look (pending)\n",
    ):  # fmt: skip
        assert part in text


def test_markdown_of_a_hostile_recording_has_no_html_and_fetches_nothing() -> None:
    run = RecordedRun().opened().prompt(EVIL).text(EVIL).other(stderr=f"```\n{EVIL}")
    run.update("tool_call", toolCallId=EVIL, title=EVIL, kind=EVIL, status="completed").permission(EVIL, chosen=EVIL)
    run.update("plan", entries=[{"content": EVIL, "priority": "high", "status": "pending"}]).stop(EVIL)
    outside: list[str] = []
    fence = ""
    for line in markdown(run).splitlines():
        if line.strip().startswith("```"):
            fence = "" if line.strip() == fence else fence or line.strip()
        elif not fence:
            outside.append(line)
    text = "\n".join(outside)

    assert fence == ""
    assert not set("\x1b\u202e") & set(markdown(run))
    assert "<script" not in text
    assert "![" not in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a <b> c", "a &lt;b> c"),
        ("`<b>` and <i>", "`<b>` and &lt;i>"),
        ("``<b>` <i>", "``&lt;b>` &lt;i>"),
        ("\\`<b>`", "\\`&lt;b>`"),
        ("```html\n<b>\n```\n<i>", "```html\n<b>\n```\n&lt;i>"),
        ("``` `\n<b>", "``` `\n&lt;b>"),
        ("~~~~\n<b>\n~~~\n<i>", "~~~~\n<b>\n~~~\n<i>\n~~~~"),
    ],
)
def test_code_stays_and_html_becomes_text(text: str, shown: str) -> None:
    assert "\n".join(safe_lines(text)) == shown


def test_a_diagram_has_an_arrow_or_a_note_for_each_item() -> None:
    lines = diagram(everything()).splitlines()

    assert lines[:3] == ["sequenceDiagram", "    participant C as Client", "    participant A as Agent"]
    for line in (
        "Note over C,A: zed 0.2 and gem 0.8, protocol version 1",
        "Note over C,A: session/new s1",
        "C->>A: Fix the test",
        "A->>C: thought, I should look first",
        "A->>C: plan, 1 steps",
        "A->>A: read Read a.py, completed, 500 ms",
        "A->>C: fs/read_text_file /project/a.py, 100 ms",
        "A->>C: permission for Edit a.py?",
        "C-->>A: Allow once, 100 ms",
        "A-->>C: end_turn, 1.6 s",
        "Note over C,A: session/set_mode failed, no #40;1#41;",
        "Note over C,A: 3 frames are missing",
        "Note over A: ended with exit code 1",
        "Note over A: update mode plan",
        "C->>A: before",
    ):
        assert f"    {line}" in lines


def test_texts_cannot_act_on_a_diagram() -> None:
    run = RecordedRun(EVIL).opened().prompt(EVIL).text(EVIL).other(stderr=EVIL).update(EVIL)
    run.update("tool_call", toolCallId=EVIL, title=EVIL, kind=EVIL, status=EVIL).stop(EVIL)
    lines = diagram(run).splitlines()[3:]

    assert all(
        line.startswith(("    Note over ", "    C->>A: ", "    A->>C: ", "    A->>A: ", "    A-->>C: "))
        for line in lines
    )
    texts = [line.partition(": ")[2] for line in lines]
    for text in texts:
        assert not {"<", ">", ";", "\x1b"} & set("".join(part for part in text.split("#") if not part[:1].isdigit()))
        assert " end" not in text


def test_a_long_diagram_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mermaid, "MAX_ITEMS", 5)
    lines = diagram(whole_run()).splitlines()

    assert (len(lines), lines[-1]) == (9, "    Note over C,A: 10 more")


def test_the_document_of_json_has_all_items() -> None:
    out = StringIO()
    write_json(HEADER, items_of(everything()), out)
    document = json.loads(out.getvalue())

    assert (document["format"], document["recording"]["agent"]) == (1, ["gem", "--acp"])
    assert [item["kind"] for item in document["items"]] == [item.kind for item in items_of(everything())]


def test_a_long_message_goes_on_and_a_patch_is_shown_as_it_is() -> None:
    first, second = (item for item in items_of(RecordedRun().text("a" * 70_000, "rest")) if item.kind == "message")
    patch = FileChange("/a", patch="@@ -1 +1 @@\n-x\n+y")
    edit = ConversationItem(number=1, t=0.0, kind="tool_call", title="Edit", status="completed", changes=[patch])
    out, drawn = StringIO(), StringIO()
    write_markdown(Header("recording"), [first, second, edit], out)
    write_mermaid(HEADER, [first, second], drawn)

    assert out.getvalue().count("## Agent") == 1
    assert "aaa\nrest\n\n- Edit (completed)\n\n  ```diff\n  @@ -1 +1 @@\n  -x\n  +y\n  ```\n" in out.getvalue()
    assert len(drawn.getvalue().splitlines()) == 4
