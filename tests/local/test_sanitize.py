"""Output as it may be shown: readable, coloured, and unable to act."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duologue.sanitize import strip_terminal_controls


@pytest.mark.fault("TRM-24")
@pytest.mark.parametrize(
    ("sequence", "what"),
    [
        ("\x1b]0;owned\x07", "title"),
        ("\x1b]2;owned\x1b\\", "title"),
        ("\x9d2;owned\x9c", "title in 8 bits"),
        ("\x1b]52;c;cm0gLXJmIC8=\x07", "clipboard"),
        ("\x1b]8;;https://example.org\x1b\\", "link"),
        ("\x1b]1337;File=name=x:AAAA\x07", "file transfer"),
        ("\x1b[c", "who are you"),
        ("\x1b[>0c", "who are you, exactly"),
        ("\x1b[6n", "where is the cursor"),
        ("\x1b[21t", "what is the title"),
        ("\x1b[2J", "clear the screen"),
        ("\x1b[1;1H", "move"),
        ("\x1b[?1049h", "other screen"),
        ("\x1b[?2004l", "paste mode"),
        ("\x9b2J", "clear in 8 bits"),
        ('\x1bP$q"p\x1b\\', "device control"),
        ("\x1b_Gi=1;AAAA\x1b\\", "picture"),
        ("\x1b^private\x1b\\", "privacy message"),
        ("\x1bXstring\x1b\\", "string"),
        ("\x1bc", "reset"),
        ("\x1b7", "save the cursor"),
        ("\x1b(0", "line drawing"),
        ("\x07", "bell"),
        ("\x08\x08", "go back"),
        ("\x00\x0e\x0f\x7f", "control codes"),
        ("\u202e\u2066", "other direction"),
    ],
)
def test_control_sequences_are_removed_completely(sequence: str, what: str) -> None:
    assert strip_terminal_controls(f"before{sequence}after") == "beforeafter", what


@pytest.mark.fault("TRM-24")
@pytest.mark.parametrize("text", ["plain\ttext\n", "\x1b[1;31mred\x1b[0m", "\x1b[38:5:196mred\x1b[m", "日本 😀 é"])
def test_text_and_its_colours_stay(text: str) -> None:
    assert strip_terminal_controls(text) == text


@pytest.mark.fault("TRM-24")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title without end\nrm -rf", "]0;title without end\nrm -rf"),
        ("\x1b]0;title\x1b[31mred", "]0;title\x1b[31mred"),
        ("\x1b[12;", "[12;"),
        ("text\x1b", "text"),
        ("\x1b\x1b[2J", ""),
    ],
)
def test_an_unterminated_sequence_hides_no_text(text: str, shown: str) -> None:
    assert strip_terminal_controls(text) == shown


def test_a_carriage_return_starts_a_line_instead_of_overwriting_one() -> None:
    assert strip_terminal_controls("one\r\ntwo\rthree\r") == "one\ntwo\nthree\n"


@pytest.mark.fault("TRM-24")
@given(st.text(st.sampled_from("\x1b[]P\\\x07\x9b\x9c\x9dm0;?hJ a\n\r\x08")))
def test_only_colour_sequences_start_with_escape(text: str) -> None:
    shown = strip_terminal_controls(text)

    rest = shown
    for piece in shown.split("\x1b")[1:]:
        assert piece[0] == "["
        assert piece.lstrip("[0123456789;:").startswith("m")
        rest = piece
    assert not set(rest) & set("\x07\x08\x9b\x9c\x9d\r")
    assert strip_terminal_controls(shown) == shown


@pytest.mark.timeout(20)
def test_many_beginnings_takes_no_time() -> None:
    for start in ("\x1b]", "\x1b[", "\x1b[1;", "\x1bP", "\x9d0"):
        strip_terminal_controls(start * (2**18 // len(start)))
        strip_terminal_controls(start + "1" * 2**18)
