"""The one way out: what passes it, what it removes, and that there is no other."""

from __future__ import annotations

import ast
import io
import json
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import duologue.cli
from duologue.cli.console.safe_output import SafeOutput, Style
from duologue.jsonrpc.framing import to_ascii
from duologue.sanitize import sanitize

BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.fault("CLI-01")
def test_no_control_or_bidi_character_of_unicode_passes() -> None:
    acting = [
        chr(code)
        for code in range(sys.maxunicode + 1)
        if (unicodedata.category(chr(code)) in ("Cc", "Zl", "Zp") and chr(code) not in "\t\n\r")
        or unicodedata.bidirectional(chr(code)) in BIDI
        or code in (0x061C, 0x200E, 0x200F)
    ]

    assert len(acting) > 70
    assert [character for character in acting if sanitize(f"é{character}é") != "éé"] == []


@pytest.mark.parametrize(
    "text",
    [
        "plain\ttext\n",
        "日本　語 😀 é",
        "un\u202fpeu\u00a0!",
        "👩\u200d👩\u200d👧 ❤\ufe0f",
        "می\u200cخواهم",
        "שלום",
        "\ue0b0",
    ],
)
def test_ordinary_text_is_shown_unchanged(text: str) -> None:
    assert sanitize(text) == text


@pytest.mark.fault("CLI-01")
@given(st.text(st.sampled_from("\x1b[]P\\\x07\x9b\x9c\x9dm0;?hJ a\n\r\x08\u202e")))
def test_removing_a_sequence_does_not_form_a_new_one(text: str) -> None:
    shown = sanitize(text)

    assert not set(shown) & set("\x1b\x07\x08\x9b\x9c\x9d\r\u202e")
    assert sanitize(shown) == shown


def test_a_style_is_added_after_the_text_was_sanitized(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = _Terminal()
    SafeOutput(stream).write("\x1b[32mred\x1b[0m", Style.RED)

    assert stream.getvalue() == "\x1b[31mred\x1b[0m"


@pytest.mark.fault("CLI-03")
def test_only_data_off_a_terminal_is_exact() -> None:
    for stream, is_exact, shown in (
        (io.StringIO(), True, "\x1b[2J"),
        (io.StringIO(), False, ""),
        (_Terminal(), True, ""),
        (_Terminal(), False, ""),
    ):
        SafeOutput(stream, is_exact=is_exact).write("\x1b[2J")
        assert stream.getvalue() == shown


def test_bytes_of_another_program_pass_unchanged_off_a_terminal_and_as_text_on_one() -> None:
    data = "é\x1b[2Jü".encode() + b"\xff"
    buffer, screen = io.BytesIO(), _Terminal()
    file = io.TextIOWrapper(buffer)
    for piece in (data[:1], data[1:]):
        SafeOutput(file).write_bytes(piece)
    out = SafeOutput(screen)
    for piece in (data[:1], data[1:]):
        out.write_bytes(piece)

    assert buffer.getvalue() == data
    assert screen.getvalue() == "éü\ufffd"


@pytest.mark.fault("CLI-02")
@given(st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.text())))
def test_a_frame_in_ascii_means_the_same(value: dict[str, object]) -> None:
    frame = json.dumps(value, ensure_ascii=False, indent="\t").replace("\n", "\r\n").encode("utf-8", "surrogatepass")
    shown = to_ascii(frame)

    assert shown.isascii()
    assert shown.decode().isprintable()
    assert json.loads(shown) == value


def test_a_frame_that_came_in_lines_is_one_line_of_json() -> None:
    import msgspec

    stream = io.StringIO()
    SafeOutput(stream, is_exact=True).write_json({"raw": msgspec.Raw(b'{\r\n"a": "\xc3\xa9"\n}')})

    assert stream.getvalue() == '{"raw":{  "a": "é" }}\n'


TRUSTED = {"safe_output.py", "markdown.py", "prompt_toolkit_editor.py", "interrupts.py", "run_view.py"}
"""Modules that write escape sequences of their own."""


@pytest.mark.fault("CLI-01")
@pytest.mark.parametrize("path", sorted(Path(duologue.cli.__path__[0]).rglob("*.py")), ids=lambda path: path.name)
def test_no_module_goes_around_the_safe_output(path: Path) -> None:
    assert _unsafe_writes(path.read_text(), path.name in TRUSTED) == []


@pytest.mark.parametrize(
    "code",
    ["print('x')", "sys.__stderr__.write(x)", "os.write(1, x)", "sys.stdout.buffer.write(x)", "out.trusted.write(x)"],
)
def test_a_way_around_is_found(code: str) -> None:
    assert _unsafe_writes(code, is_trusted=False) != []


def _unsafe_writes(code: str, is_trusted: bool) -> list[str]:
    nodes = [ast.unparse(node) for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Attribute | ast.Name)]
    bad = [node for node in nodes if node in ("print", "os.write", "sys.stdout.buffer", "sys.stderr.buffer")]
    bad += [node for node in nodes if node in ("sys.__stdout__", "sys.__stderr__")]
    return bad if is_trusted else bad + [node for node in nodes if node.endswith(".trusted")]
