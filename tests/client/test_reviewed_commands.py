"""The list of commands that a rule ending in ` *` may allow: complete, and closed to every other option and operand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from duologue.client.permissions.patterns import CommandPattern
from duologue.client.permissions.policy import Permissions
from duologue.client.permissions.reviewed_commands import FORMS, MOST_ARGUMENTS, REVIEWED, ReviewedCommand, reviewed
from tests.client.permission_requests import User, rejecting_user, runs

DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "permissions.md"
ENTRIES = {entry.name: entry for entry in REVIEWED}
SAMPLES = {"number": "5", "word": "auto", "text": "some text", "format": "%H", "path": "file"}

DANGEROUS = """
--output --open-files-in-pager --ext-diff --textconv --no-index --untracked --recurse-submodules --submodule
--show-signature --contents --ignore-revs-file --exec --upload-pack --receive-pack --config --git-dir --work-tree
--exec-path --paginate --edit-description --delete --force --move --copy --set-upstream-to --unset-upstream
--exclude-from --exclude-per-directory --with-tree --file --regexp --dereference-recursive
--directories --devices --files0-from --retry --pid --compress-program --to-command --filter --pre
--read-alias --read-functions --stdin --orderfile --rotate-to --skip-to --parseopt --sq-quote --resolve-git-dir
"""
SHORT_AND_DANGEROUS = "-O/evil -Oevil -nO/evil -lO/evil -c -C -X -x -e -f -r -R -z -D -d -m -o -P -uevil -Sevil -Levil"


def operands_of(entry: ReviewedCommand) -> list[str]:
    return [SAMPLES[kind] for kind in entry.operands]


def spelling_of(entry: ReviewedCommand) -> re.Pattern[str]:
    """Return a pattern for every spelling of an option of this entry, made without the code under test."""
    flags = [re.escape(flag) for flag in entry.flags if flag != "-NUMBER"]
    flags += ["-[0-9]{1,9}"] if "-NUMBER" in entry.flags else []
    long = [f"{re.escape(name)}=.*" for name in entry.values if name.startswith("--")]
    letters = "".join(flag[1] for flag in entry.flags if re.fullmatch("-[A-Za-z0-9]", flag)) if entry.is_bundled else ""
    valued = "".join(name[1] for name in entry.values if not name.startswith("--"))
    bundle = f"[{letters}]*" if letters else ""
    short = [f"-{bundle}[{valued}].*"] if valued else []
    return re.compile("|".join([*flags, *long, *short, *([f"-{bundle}"] if bundle else [])]), re.DOTALL)


# --- every entry is complete


@pytest.mark.parametrize("entry", REVIEWED, ids=list(ENTRIES))
def test_every_entry_is_complete(entry: ReviewedCommand) -> None:
    option = re.compile(r"-[A-Za-z0-9]|--[a-z0-9][a-z0-9-]*[a-z0-9]|-NUMBER|-vv")

    assert re.fullmatch(r"[a-z]+( [a-z-]+)?", entry.name)
    assert reviewed(entry.words) is entry
    assert all(option.fullmatch(flag) for flag in entry.flags)
    assert all(option.fullmatch(name) for name in entry.values)
    assert {*entry.values.values(), *entry.operands} <= set(FORMS)
    assert entry.left_out, "say what was left out, or that nothing is known"
    assert entry.is_bundled == (entry.words[0] != "git")
    assert not {flag for flag in entry.flags if len(flag) == 2} & set(entry.values) - {"-u"}
    CommandPattern(f"{entry.name} *", allows=True)
    assert f"`{entry.name}" in DOCS.read_text(), "name it on the page about permissions"


def test_no_entry_is_there_twice_or_hides_another() -> None:
    assert len(ENTRIES) == len(REVIEWED)
    assert not [
        (a.name, b.name) for a in REVIEWED for b in REVIEWED if a is not b and a.words == b.words[: len(a.words)]
    ]


@pytest.mark.parametrize("entry", REVIEWED, ids=list(ENTRIES))
def test_every_option_passes_as_it_is_written(entry: ReviewedCommand) -> None:
    operands = operands_of(entry)
    for flag in entry.flags:
        assert entry.accepts([flag.replace("NUMBER", "5"), *operands], "/repo"), flag
        assert entry.accepts([*operands, flag.replace("NUMBER", "5")], "/repo"), flag
    for name, kind in entry.values.items():
        glued = f"{name}={SAMPLES[kind]}" if name.startswith("--") else f"{name}{SAMPLES[kind]}"
        assert entry.accepts([glued, *operands], "/repo"), glued
        if kind == "number" and not name.startswith("--"):
            assert entry.accepts([name, "5", *operands], "/repo")
            assert not entry.accepts([*operands, name], "/repo")


@pytest.mark.parametrize("entry", REVIEWED, ids=list(ENTRIES))
def test_no_option_passes_that_is_cut_short(entry: ReviewedCommand) -> None:
    """The program may take it for the beginning of another option."""
    known = {*entry.flags, *entry.values}
    for name, kind in entry.values.items():
        for short in {name[:size] for size in range(3, len(name))} - known:
            assert not entry.accepts([f"{short}={SAMPLES[kind]}", *operands_of(entry)], "/repo"), short
    for flag in entry.flags:
        for short in {flag[:size] for size in range(3, len(flag)) if flag.startswith("--")} - known:
            assert not entry.accepts([short, *operands_of(entry)], "/repo"), short


@pytest.mark.parametrize("entry", REVIEWED, ids=list(ENTRIES))
def test_every_option_is_one_that_the_program_has(entry: ReviewedCommand, tmp_path: Path) -> None:
    """An option that a program does not have could be the beginning of one that it has."""

    def run(*arguments: str) -> str:
        ended = subprocess.run(
            arguments,
            cwd=tmp_path,
            env=os.environ | {"LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return ended.stdout

    program = entry.words[0]
    if shutil.which(program) is None or not re.search("GNU|git version", run(program, "--version")):
        pytest.skip(f"no {program} here that has these long options")
    run("git", "init", "-q")
    (tmp_path / "file").touch()
    for option in [*entry.flags - {"-NUMBER"}, *(f"{name}={SAMPLES[kind]}" for name, kind in entry.values.items())]:
        if option.startswith("--"):
            assert not re.search("(unknown|unrecognized|invalid|ambiguous) option", run(*entry.words, option)), option


# --- no other option passes


@pytest.mark.fault("PRM-20")
@pytest.mark.parametrize("entry", REVIEWED, ids=list(ENTRIES))
def test_no_beginning_of_a_dangerous_option_passes(entry: ReviewedCommand) -> None:
    operands = operands_of(entry)
    for name in DANGEROUS.split():
        for size in range(3, len(name) + 1):
            for word in (name[:size], f"{name[:size]}=evil", f"{name[:size]}=/evil", f"{name[:size]}="):
                assert not entry.accepts([word, *operands], "/repo"), word
                assert not entry.accepts([*operands, word], "/repo"), word
                assert not entry.accepts([word, "evil", *operands], "/repo"), word


@pytest.mark.fault("PRM-20")
@pytest.mark.parametrize("entry", REVIEWED, ids=list(ENTRIES))
def test_no_dangerous_letter_passes_alone_bundled_or_glued(entry: ReviewedCommand) -> None:
    safe = spelling_of(entry)
    for word in SHORT_AND_DANGEROUS.split():
        if not safe.fullmatch(word):
            assert not entry.accepts([word, *operands_of(entry)], "/repo"), word
    assert not entry.accepts(["-nO/evil", *operands_of(entry)], "/repo")
    assert not entry.accepts(["-O", "/evil", *operands_of(entry)], "/repo")


letters = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-=/.%+, \n", max_size=12)


@st.composite
def options(draw: st.DrawFn, entry: ReviewedCommand) -> str:
    """Draw a word with a leading dash: any, or one of the list that was cut, extended or joined with another."""
    known = [*entry.flags, *entry.values, *DANGEROUS.split(), *SHORT_AND_DANGEROUS.split()]
    one, other = draw(st.sampled_from(known)), draw(st.sampled_from(known))
    size = draw(st.integers(1, len(one)))
    more = draw(letters)
    words = [f"-{more}", f"--{more}", one, one[:size] + more, f"{one[:size]}={more}", one + other.lstrip("-")]
    return draw(st.sampled_from(words))


@pytest.mark.fault("PRM-20")
@given(st.data())
def test_no_option_outside_the_list_passes_in_any_spelling(data: st.DataObject) -> None:
    entry = data.draw(st.sampled_from(REVIEWED))
    word = data.draw(options(entry))
    around = [*operands_of(entry), *(flag.replace("NUMBER", "5") for flag in sorted(entry.flags))]
    before, after = data.draw(st.lists(st.sampled_from(around))), data.draw(st.lists(st.sampled_from(around)))

    if entry.accepts([*before, word, *after], "/repo") and word not in ("-", "--"):
        assert spelling_of(entry).fullmatch(word)


def test_the_placeholder_of_a_number_is_no_option() -> None:
    grep = ENTRIES["grep"]

    assert grep.accepts(["-5", "x", "a.txt"], "/repo")
    assert not grep.accepts(["-NUMBER", "x", "a.txt"], "/repo")


@pytest.mark.fault("PRM-20")
@given(st.data())
def test_an_argument_that_is_read_as_a_value_is_never_an_option(data: st.DataObject) -> None:
    entry = data.draw(st.sampled_from([entry for entry in REVIEWED if entry.values]))
    name = data.draw(st.sampled_from(sorted(entry.values)))
    word = data.draw(options(entry))

    if entry.accepts([name, word], "/repo") and word not in ("-", "--"):
        assert spelling_of(entry).fullmatch(word)


@pytest.mark.fault("PRM-23")
@given(st.lists(st.sampled_from([*{word for entry in REVIEWED for word in entry.words}, "-c", "x", "rebase", "Git"])))
@example(["git"])
@example(["git", "log", "log"])
def test_no_other_words_are_accepted_before_a_star(words: list[str]) -> None:
    if " ".join(words) in ENTRIES:
        CommandPattern(" ".join([*words, "*"]), allows=True)
    else:
        with pytest.raises(ValueError, match=r"would allow any arguments|one simple command"):
            CommandPattern(" ".join([*words, "*"]), allows=True)


# --- values and operands


@pytest.mark.fault("PRM-20")
@pytest.mark.parametrize("value", ["%G?", "%+GG", "%-GK", "% GS", "%<(20)%GS", "format:%H %G?", "%x00%G?"])
@pytest.mark.parametrize("option", ["--format", "--pretty"])
def test_no_format_makes_git_check_signatures(option: str, value: str) -> None:
    assert ENTRIES["git log"].accepts([f"{option}={value.replace('G', 'h')}"], "/repo")
    assert not ENTRIES["git log"].accepts([f"{option}={value}"], "/repo")


@pytest.mark.fault("PRM-21")
@pytest.mark.parametrize(
    "entry", [entry for entry in REVIEWED if "path" in entry.operands], ids=lambda entry: entry.name
)
@pytest.mark.parametrize(
    "word",
    [
        *("/etc/passwd", "../x", "a/../../x", "..", "/", "//etc", "@file", "host:path", "HEAD:.env", ":(top)x", ":/x"),
        *(
            "ext::sh -c x",
            "file:///etc/passwd",
            ".env",
            "sub/.env",
            "id_rsa",
            ".ENV",
            "to-env",
            "to-etc/passwd",
            "up/x",
        ),
        *("", "a\0b", "\ud800", "x" * 5000, "./../x", "to-etc/../etc/passwd", "~/../../x"),
    ],
)
def test_no_operand_leads_elsewhere_or_means_something_else(entry: ReviewedCommand, word: str, tmp_path: Path) -> None:
    for name, target in {"to-env": ".env", "to-etc": "/etc", "up": ".."}.items():
        (tmp_path / name).symlink_to(target)
    text = ["pattern"] if entry.operands[0] == "text" else []

    assert entry.accepts([*text, "sub/file", "sub/../file", ".", "main..dev"], str(tmp_path))
    for arguments in ([*text, word], [*text, "--", word], [*text, "file", word], [*text, "--", "file", word]):
        assert not entry.accepts(arguments, str(tmp_path))
    assert not entry.accepts([*text, "file"], "")


@pytest.mark.fault("PRM-21")
@given(st.lists(st.sampled_from(["..", ".", "", "a", "out", "in", "~", "@", "main", "*"]), min_size=1, max_size=6))
def test_an_argument_that_is_accepted_as_a_file_is_in_the_directory(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str]
) -> None:
    home = tmp_path_factory.getbasetemp() / "operands"
    if not home.exists():
        (home / "place" / "a").mkdir(parents=True)
        (home / "place" / "out").symlink_to("..")
        (home / "place" / "in").symlink_to("a")
    word, directory = "/".join(parts), os.path.realpath(home / "place")

    if ENTRIES["cat"].accepts([word], directory):
        assert Path(os.path.realpath(f"{directory}/{word}")).is_relative_to(directory)


def test_operands_are_refused_where_there_are_none_and_where_there_are_too_many() -> None:
    assert not ENTRIES["git branch"].accepts(["new"], "/repo")
    assert not ENTRIES["git branch"].accepts(["--", "new"], "/repo")
    assert not ENTRIES["which"].accepts(["./ls"], "/repo")
    assert ENTRIES["echo"].accepts(["@a", "b:c", "", "/etc/passwd"], "/repo")
    assert ENTRIES["cat"].accepts(["a"] * MOST_ARGUMENTS, "/repo")
    assert not ENTRIES["cat"].accepts(["a"] * (MOST_ARGUMENTS + 1), "/repo")


@pytest.mark.fault("PRM-21")
async def test_a_wide_rule_reads_nothing_that_the_rules_for_reading_reject(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("private")
    (tmp_path / "private").mkdir()
    user = rejecting_user()
    wide = Permissions(read={"private/**": "reject"}, execute={"cat *": "allow", "git log *": "allow"}, on_request=user)

    assert await runs(wide, tmp_path, "cat", "public")
    assert await runs(wide, tmp_path, "git", "log", "main")
    assert not user.asked
    for name in ("private/a", "link/a", "./public/../private/a", str(tmp_path / "private")):
        assert not await runs(wide, tmp_path, "cat", "public", name)
    assert len(user.asked) == 4
    remembering = User(lambda asked: asked.allow(rule="cat *"))
    remembered = Permissions(read={"private/**": "reject"}, on_request=remembering)
    assert await runs(remembered, tmp_path, "cat", "public")
    assert await runs(remembered, tmp_path, "cat", "other")
    assert len(remembering.asked) == 1
    await runs(remembered, tmp_path, "cat", "private/a")
    assert len(remembering.asked) == 2
