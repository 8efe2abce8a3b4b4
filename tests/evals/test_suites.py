"""Suites are read as a whole: TOML, JSON lines and directories, with defaults, files and a digest."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from duologue.evals.exceptions import SuiteError
from duologue.evals.suite.case import PromptTurn
from duologue.evals.suite.grader_specs import TextGrader
from duologue.evals.suite.loader import load_suite
from duologue.evals.suite.suite import SUITE_FORMAT, Suite
from tests.evals.samples import SUITE, small_suite, write_suite


def problems(path: Path) -> list[str]:
    """Return what is wrong with a suite."""
    with pytest.raises(SuiteError) as caught:
        load_suite(path)
    return list(caught.value.problems)


def test_a_suite_has_its_cases_with_prompts_graders_and_defaults(tmp_path: Path) -> None:
    suite = small_suite(tmp_path)
    greet, edit = suite.cases

    assert (suite.name, suite.trials, suite.format) == ("small", 3, SUITE_FORMAT)
    assert edit.prompts == [PromptTurn(text="Write a file."), PromptTurn(text="Now a longer one.")]
    assert greet.graders == [TextGrader(matches="(?i)hello")]
    assert (greet.timeouts.turn, greet.timeouts.start) == (30, 60)
    assert greet.directory == str(tmp_path)


def test_every_field_of_a_case_can_be_written_in_toml(tmp_path: Path) -> None:
    (tmp_path / "repository").mkdir()
    (tmp_path / "logo.png").write_bytes(b"png")
    (tmp_path / "notes.md").write_text("notes")
    (tmp_path / "prompt.md").write_text("A long prompt.")
    (tmp_path / "checks.py").write_text("def check(trial): ...")
    (tmp_path / "hidden").mkdir()
    path = write_suite(
        tmp_path,
        """
        format = 1
        [defaults]
        permissions = { edit = "allow", execute = "reject" }
        timeouts = { turn = 5, grade = 7 }
        tags = ["all"]

        [[cases]]
        id = "everything"
        description = "d"
        prompts = ["first", { text_file = "prompt.md", images = ["logo.png"], files = ["notes.md"] }]
        workspace = { source = "repository", isolation = "copy" }
        files = [{ path = "src/a.py", text = "x = 1" }, { path = "b.md", source = "notes.md", executable = true }]
        session = { mode = "plan", model = "m", options = { effort = "low", verbose = true } }
        on_ask = "allow"
        tags = ["one"]
        family = "f"
        budget = { cost = 0.5, tokens = 1000, tool_calls = 20, prompts = 4 }
        timeouts = { turn = 10 }
        env = ["API_KEY"]
        hint = "h"
        reference = "r"
        metadata = { level = 3 }
        quarantine = "flaky"

        [cases.permissions]
        delete = "reject"
        execute = { "git status" = "allow", "*" = "reject" }

        [[cases.elicitations]]
        matches = "name"
        content = { name = "Ada" }

        [cases.simulated_user]
        agent = "builtin"
        persona = "You are in a hurry."

        [[cases.graders]]
        type = "function"
        function = "checks.py:check"
        [[cases.graders]]
        type = "executable"
        command = ["./checks.py", "--strict"]
        [[cases.graders]]
        type = "command"
        command = ["pytest", "{tests}"]
        tests = "hidden"
        [[cases.graders]]
        type = "json"
        path = "out.json"
        pointer = "/a/0"
        equals = 3
        [[cases.graders]]
        type = "trajectory"
        check = "never_ran"
        pattern = '\\brm\\b'
        """,
    )
    (case,) = load_suite(path).cases

    assert case.turns[1] == PromptTurn(text="A long prompt.", images=["logo.png"], files=["notes.md"])
    assert case.permissions == {
        "edit": "allow",
        "execute": {"git status": "allow", "*": "reject"},
        "delete": "reject",
    }
    assert (case.timeouts.turn, case.timeouts.grade, case.tags) == (10, 7, ["one"])
    assert [type(grader).__name__ for grader in case.graders] == [
        "FunctionGrader", "ExecutableGrader", "CommandGrader", "JsonGrader", "TrajectoryGrader",
    ]  # fmt: skip


def test_a_suite_survives_being_written_as_json(tmp_path: Path) -> None:
    suite = small_suite(tmp_path)

    assert msgspec.json.decode(msgspec.json.encode(suite), type=Suite) == suite


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        ('id = "a"\npromts = ["x"]', "case 'a': unknown field 'promts'; did you mean 'prompts'?"),
        ('id = "a"', "case 'a': the field 'prompts' is missing"),
        ('prompts = ["x"]', "case number 1: the field 'id' is missing"),
        ('id = "a/b"\nprompts = ["x"]', "case 'a/b': id: Expected `str` matching regex"),
        ('id = "a"\nprompts = []', "case 'a': prompts: Expected `array` of length >= 1"),
        ('id = "a"\nprompts = [3]', "case 'a': prompts[0]: Expected `str | object`, got `int`"),
        ('id = "a"\nprompts = [{ text = "" }]', "prompts[0]: a prompt has either `text` or `text_file`"),
        ('id = "a"\nprompts = [{ txt = "x" }]', "prompts[0]: unknown field 'txt'; did you mean 'text'?"),
        ('id = "a"\nprompts = [{ text_file = "no.md" }]', "prompts[0].text_file: there is no 'no.md' in"),
        (
            'id = "a"\nprompts = [{ text = "x", images = ["../x.png"] }]',
            "prompts[0].images: '../x.png' leads out of the directory of the suite",
        ),
        ('id = "a"\nprompts = ["x"]\ntimeouts = { turn = "1" }', "timeouts.turn: Expected `float`, got `str`"),
        ('id = "a"\nprompts = ["x"]\ntimeouts = { turn = 0 }', "timeouts.turn: Expected `float` > 0"),
        ('id = "a"\nprompts = ["x"]\ntimeouts = { trun = 1 }', "timeouts: unknown field 'trun'; did you mean 'turn'?"),
        ('id = "a"\nprompts = ["x"]\nfiles = [{ path = "/etc/x", text = "" }]', "files[0].path: '/etc/x' is not a rel"),
        ('id = "a"\nprompts = ["x"]\npermissions = { edt = "allow" }', "`permissions`: unknown kind 'edt'"),
        ('id = "a"\nprompts = ["x"]\npermissions = { edit = "yes" }', "permissions[...]: Invalid enum value 'yes'"),
        ('id = "a"\nprompts = ["x"]\ngraders = [{ type = "fil", path = "x" }]', "graders[0].type: Invalid value 'fil'"),
        (
            'id = "a"\nprompts = ["x"]\ngraders = [{ type = "file", path = "x", contain = ["y"] }]',
            "graders[0]: unknown field 'contain'; did you mean 'contains'?",
        ),
        (
            'id = "a"\nprompts = ["x"]\ngraders = [{ type = "text", matches = "(" }]',
            "graders[0]: `matches` is not a regular expression",
        ),
        (
            'id = "a"\nprompts = ["x"]\ngraders = [{ type = "trajectory", check = "never_ran" }]',
            "graders[0]: the check 'never_ran' needs a `pattern`",
        ),
        (
            'id = "a"\nprompts = ["x"]\ngraders = [{ type = "function", function = "no.py:check" }]',
            "graders[0].function: there is no 'no.py' in",
        ),
        ('id = "a"\nprompts = ["x"]\nworkspace = { source = "no" }', "workspace.source: there is no directory 'no'"),
        ('id = "a"\nprompts = ["x"]\ndirectory = "/"', "unknown field 'directory'"),
    ],
)
def test_a_mistake_is_reported_with_file_case_and_field(tmp_path: Path, case: str, problem: str) -> None:
    path = write_suite(tmp_path, f"[[cases]]\n{case}\n")
    (found,) = problems(path)

    assert found.startswith(f"{path}: case ")
    assert problem in found


def test_all_cases_with_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    cases = [f'[[cases]]\nid = "c{number}"\nprompt = "x"\n' for number in range(60)]
    found = problems(write_suite(tmp_path, "\n".join(cases)))

    assert len(found) == 51
    assert found[-1] == "and 10 more"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "there are no cases"),
        ("cases = 3", "`cases` must be a list of tables"),
        ("cases = [3]", "the case number 1 must be a table, not int"),
        ("[[cases", "is not TOML"),
        ("trails = 3", "unknown field 'trails'; did you mean 'trials'?"),
        ("format = 2", "the suite has format 2, and this version of duologue reads up to 1: install a newer duologue"),
        ("[defaults]\ntimeout = 3", "defaults: unknown field 'timeout'; did you mean 'timeouts'?"),
        (
            SUITE + SUITE.partition("[defaults]")[2].partition("\n\n")[2],
            "case 'greet': id: another case has the same id",
        ),
    ],
)
def test_a_suite_that_is_not_one_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    assert problem in problems(write_suite(tmp_path, text))[0]


@pytest.mark.parametrize("name", ["missing.toml", "suite.yaml", "empty"])
def test_a_path_that_has_no_suite_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "suite.yaml").write_text("")
    (tmp_path / "empty").mkdir()

    assert problems(tmp_path / name)[0].startswith(str(tmp_path / name))


def test_cases_in_directories_are_relative_to_their_own_directory(tmp_path: Path) -> None:
    write_suite(tmp_path)
    folder = tmp_path / "cases" / "deep"
    folder.mkdir(parents=True)
    (folder / "prompt.md").write_text("From a file.")
    (folder / "case.toml").write_text('prompts = [{ text_file = "prompt.md" }]')
    suite = load_suite(tmp_path)

    assert [case.id for case in suite.cases] == ["greet", "edit", "deep"]
    assert suite.cases[2].turns[0].text == "From a file."
    assert (suite.cases[2].timeouts.turn, suite.cases[2].directory) == (30, str(folder))


def test_json_lines_have_a_header_and_a_case_on_each_line(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    lines = [
        {"name": "lines", "trials": 2, "defaults": {"tags": ["t"]}},
        {"id": "a", "prompts": ["x"]},
        {"id": "b", "prompts": ["y"], "tags": ["u"]},
    ]
    path.write_text("\n\n".join(map(json.dumps, lines)))
    suite = load_suite(path)

    assert (suite.name, suite.trials) == ("lines", 2)
    assert [case.tags for case in suite.cases] == [["t"], ["u"]]
    assert [case.id for case in suite.select(tags=frozenset({"u"}))] == ["b"]


def test_a_damaged_line_is_named_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{"id": "a", "prompts": ["x"]}\n{"id": \n{"id": "b", "promts": ["x"]}\n[]\n')

    found = problems(path)
    assert found[0].startswith(f"{path}, line 2: ")
    assert found[1].startswith(f"{path}: case 'b': unknown field 'promts'")
    assert found[2] == f"{path}: the case of line 4 must be a table, not list"


def test_lines_of_acp_harness_are_cases(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    lines = [
        {"id": "one", "input": "Say hello.", "hint": "greets", "reference": "Hello!", "metadata": {"category": "talk"}},
        {"id": "two words", "input": ["first", "second"], "timeout": 90000},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    one, two = load_suite(path).cases

    assert (one.id, one.hint, one.reference, one.tags) == ("one", "greets", "Hello!", ["talk"])
    assert [turn.text for turn in two.turns] == ["first", "second"]
    assert (two.timeouts.turn, two.metadata) == (90, {"original_id": "two words"})
    assert two.id.startswith("two-words-")


def test_the_digest_changes_with_cases_and_files_and_not_with_the_directory(tmp_path: Path) -> None:
    more = """
        [[cases]]
        id = "f"
        prompts = [{ text_file = "p.md" }]
        graders = [{ type = "command", command = ["sh", "{tests}/t.sh"], tests = "tests" }]
        """

    def write(folder: str, *, text: str = SUITE, prompt: str = "p", test: str = "exit 0") -> str:
        path = write_suite(tmp_path / folder, text + more)
        (path.parent / "p.md").write_text(prompt)
        (path.parent / "tests").mkdir()
        (path.parent / "tests" / "t.sh").write_text(test)
        return load_suite(path).digest

    first = write("one")

    assert write("elsewhere") == first
    assert write("described", text=SUITE.replace('name = "small"', 'name = "x"\ndescription = "y"')) == first
    assert write("other case", text=SUITE.replace("Say hello", "Say hi")) != first
    assert write("other prompt", prompt="q") != first
    assert write("other test", test="exit 1") != first
