"""The check of the words in source, tests and docs: it finds planted faults, and finds none in the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.check_prose import PATHS, files, findings_in


def found_in(path: Path, text: str) -> list[str]:
    path.write_text(text)
    return [finding.text for finding in findings_in(path)]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('"""A module that nobody reads."""', '"nobody"'),
        ("x = 1  # whoever asks gets this", '"whoever"'),
        ('raise ValueError("the client was told")', '"was told"'),
        ('def f() -> None:\n    """Whether it is open."""', "not imperative: Whether it is open."),
        ('async def f() -> None:\n    """The session is over."""', "not imperative: The session is over."),
        ('class A:\n    """What is sent."""', "says a situation, not a thing: What is sent."),
        ("def test_the_client_is_told() -> None: ...", 'test name: "is told"'),
        ("def test_what_is_sent_arrives() -> None: ...", "test name: states no behaviour"),
        ('LIMIT = 1\n"""What may wait."""', "says a situation, not a thing: What may wait."),
        ("said = 1", 'name "said": "said"'),
        ("def in_place() -> None: ...", 'name "in_place": "place"'),
        ("class RunJudge: ...", 'name "RunJudge": "Judge"'),
        ("def f(place: str) -> None: ...", 'name "place"'),
        ("self.was_told = True", 'name "was_told": "told"'),
        ("import shelve as shelf", 'name "shelf"'),
        ("for editor in (): ...", 'name "editor"'),
        ("WISH = {}", 'name "WISH"'),
    ],
)
def test_a_planted_fault_is_found(code: str, found: str, tmp_path: Path) -> None:
    assert any(text.startswith(found) for text in found_in(tmp_path / "module.py", code))


def test_plain_english_passes(tmp_path: Path) -> None:
    code = '''"""Send updates to the client."""


class Connection:
    """A connection to one client."""

    @property
    def is_open(self) -> bool:
        """The connection can send frames."""
        return True

    def close(self) -> None:
        """Close the connection."""  # the peer receives no further frames
'''

    assert found_in(tmp_path / "module.py", code) == []


def test_data_is_not_checked(tmp_path: Path) -> None:
    assert found_in(tmp_path / "module.py", 'typed = "tell nobody"  # not prose: a user\'s words\n') == []


def test_a_word_that_contains_a_banned_one_passes(tmp_path: Path) -> None:
    code = "placeholder = replace = forecast_judgement = 1\nhistory = landing = displaced = always = 2\n"

    assert found_in(tmp_path / "module.py", code) == []


def test_names_are_checked_where_they_are_defined(tmp_path: Path) -> None:
    assert found_in(tmp_path / "module.py", "from other import told\n\nprint(told.place, told(place=1))\n") == []


def test_pages_are_checked_outside_of_code(tmp_path: Path) -> None:
    text = "Nobody reads `nobody`.\n\n```python\nnobody = 1\n```\n"

    assert len(found_in(tmp_path / "page.md", text)) == 1


@pytest.mark.parametrize("part", PATHS)
def test_the_repository_has_no_findings(part: str) -> None:
    assert [str(finding) for path in files([part]) for finding in findings_in(path)] == []
