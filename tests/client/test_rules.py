"""Rules by kind, path and command: allow is read narrowly, ask and reject widely, and the strictest word counts."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duologue.client.permissions.actions import KINDS, Action, ActionContext, command_action, path_actions
from duologue.client.permissions.command_line import argv_of
from duologue.client.permissions.patterns import offered_patterns
from duologue.client.permissions.rules import Outcome, Rule, Rules, evaluate

CONTEXT = ActionContext("s", "/repo", ("/repo", "/more"))


def on_command(rules: dict[str, Outcome] | Outcome, line: str, env: dict[str, str] | None = None) -> Outcome:
    action = command_action(argv_of(line, []), "/repo", env)
    return evaluate([Rules({"execute": rules})], action, CONTEXT).outcome


def on_path(rules: dict[str, Outcome] | Outcome, path: str, kind: str = "edit", resolved: str | None = None) -> Outcome:
    action = Action(kind, resolved or path, path)
    return evaluate([Rules({kind: rules})], action, CONTEXT).outcome


# --- commands


@pytest.mark.fault("PRM-06")
@pytest.mark.parametrize(
    "more",
    [
        *(" && rm -rf x", "; x", " | x", " $(x)", " `x`", "\nx", " > x", " >x", " 2>&1", " & x", " || x", " <(x)"),
        *("\rx", "\x00x", ' "$(x)"', " ;x", " #x", " ${IFS}x", " {a,b}", " *", "\u2028x", " \\\nx"),
    ],
)
@pytest.mark.parametrize("rule", ["git status", "git status *"])
def test_nothing_rides_behind_an_allowed_command(rule: str, more: str) -> None:
    assert on_command({rule: "allow"}, "git status") == "allow"
    assert on_command({rule: "allow"}, f"git status{more}") == "ask"


def test_a_rule_without_a_star_allows_that_command_alone() -> None:
    rules: dict[str, Outcome] = {"git status": "allow"}

    assert on_command(rules, "git status") == "allow"
    assert on_command(rules, "sh -c 'git status'") == "allow"
    for other in ("git", "git status -s", "git stash", "git log", "/tmp/git status", "./git status", "GIT status", "x"):
        assert on_command(rules, other) == "ask"


def test_a_star_stands_for_arguments_that_run_and_write_nothing() -> None:
    rules: dict[str, Outcome] = {"git log *": "allow"}

    for fine in ("git log", "git log --oneline -5", "git log --pretty=format:%H -- src", "git log --stat"):
        assert on_command(rules, fine) == "allow"
    for risky in ("git log --output=x", "git log --output x", "git log --ext-diff", "git log -c", "git log --textconv"):
        assert on_command(rules, risky) == "ask"
    for other in ("git", "git push", "git clean --oneline", "git -5 log", "log", "x log"):
        assert on_command(rules, other) == "ask"


def test_a_command_is_allowed_where_the_session_works_and_not_deeper() -> None:
    def outcome_in(cwd: str, rules: dict[str, Outcome] | Outcome) -> Outcome:
        return evaluate([Rules({"execute": rules})], command_action(["git", "status"], cwd), CONTEXT).outcome

    for cwd, word in (("/repo", "allow"), ("/more", "allow"), ("/repo/docs/evil", "ask"), ("/", "ask")):
        assert outcome_in(cwd, {"git status": "allow"}) == word
    assert outcome_in("/repo/docs/evil", "allow") == "allow"
    assert outcome_in("/repo/docs/evil", {"git status": "reject", "*": "allow"}) == "reject"


def test_variables_make_another_command_of_it() -> None:
    assert on_command({"git status": "allow"}, "git status", {"NO_COLOR": "1", "LC_ALL": "C"}) == "allow"
    assert on_command({"git status": "allow"}, "git status", {"TZ": "Europe/Berlin", "CI": ""}) == "allow"
    assert on_command({"git status": "allow"}, "git status", {"GIT_PAGER": "x"}) == "ask"
    for name, value in {"LANGUAGE": "de:../../repo", "LC_ALL": "/repo/x", "LANG": "a/b", "TZ": ":x"}.items():
        assert on_command({"git status": "allow"}, "git status", {name: value}) == "ask"
    assert on_command({"rm *": "reject", "*": "allow"}, "git status", {"GIT_PAGER": "x"}) == "ask"


@pytest.mark.fault("PRM-07")
@pytest.mark.parametrize(
    "rule",
    [
        *("python *", "python3.11 *", "/usr/bin/python3 *", "sh *", "bash -c *", "npx *", "npx -y x *", "env *"),
        *("xargs *", "find *", "find . -exec *", "git *", "git -c core.pager=x *", "git -C /x *", "node *", "uvx *"),
        *(
            "uv run *",
            "npm run *",
            "npm exec *",
            "npm *",
            "cargo run *",
            "go run *",
            "sudo *",
            "make *",
            "docker run *",
        ),
        *("awk *", "perl *", "timeout 5 *", "nohup *", "ssh *", "python -m pytest *", "git config *", "pip install *"),
        *("git fetch *", "git clone *", "git rebase *", "sort *", "split *", "taskset *", "flock *", "prlimit *"),
        *("setarch *", "uniq *", "tar *", "sed *", "rg *", "sleep *", "/usr/bin/git log *", "git log --oneline *"),
        *("GIT log *", "Ls *", "a-program-of-tomorrow *"),
    ],
)
def test_a_star_is_refused_behind_whatever_is_not_reviewed(rule: str) -> None:
    with pytest.raises(ValueError, match="would allow any arguments"):
        Rules({"execute": {rule: "allow"}})
    Rules({"execute": {rule: "reject"}})


@pytest.mark.fault("PRM-07")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("git status -s", ["git status -s", "git status *"]),
        ("ls -la src", ["ls -la src", "ls *"]),
        ("ls ../elsewhere", ["ls ../elsewhere"]),
        ("cat .env", ["cat .env"]),
        ("git log --output=x", ["git log --output=x"]),
        ("git rebase main", ["git rebase main"]),
        ("npm test", ["npm test"]),
        ("python -m pytest", ["python -m pytest"]),
        ("npx -y thing", ["npx -y thing"]),
        ("find . -exec rm x", ["find . -exec rm x"]),
        ("git -c core.pager=x log", ["git -c core.pager=x log"]),
        ("env A=b x", ["env A=b x"]),
        ("xargs rm", ["xargs rm"]),
        ("sh -c 'a; b'", []),
        ("a; b", []),
        ("a 'b\nc'", []),
    ],
)
def test_only_rules_that_mean_what_they_say_are_offered(line: str, offered: list[str]) -> None:
    command = command_action(argv_of(line, []), "/repo").command
    assert command is not None

    assert offered_patterns(command) == offered
    for rule in offered:
        assert on_command({rule: "allow"}, line) == "allow"


@pytest.mark.parametrize("rule", ["a; b", "a | b", "a $(b)", "* a", "a * b", "", " ", "a\nb", "cd x", "a > b", "a 'b"])
def test_a_rule_that_is_no_command_is_refused(rule: str) -> None:
    with pytest.raises(ValueError, match="one simple command"):
        Rules({"execute": {rule: "allow"}})


@pytest.mark.parametrize(
    "line",
    [
        *(
            "rm x",
            "r''m x",
            "rm -rf /",
            "/bin/rm x",
            "RM x",
            "sudo rm x",
            "env A=b rm x",
            "xargs rm",
            "sh -c 'rm x'",
            "a; rm x",
        ),
        *(
            "a && rm x",
            "a | xargs rm",
            "a\nrm x",
            "$(rm x)",
            "find . -exec rm {} +",
            "busybox rm x",
            "bash -lc 'a;rm x'",
        ),
    ],
)
def test_a_rejected_program_is_found_wherever_it_stands(line: str) -> None:
    assert on_command({"rm *": "reject", "*": "allow"}, line) == "reject"
    assert on_command({"rm": "reject", "*": "allow"}, line) == "reject"


@pytest.mark.parametrize(
    "line", ["git -C /x push", "git push", "git --no-pager push -f", "git -c a=b push origin", "a; git push"]
)
def test_the_words_of_a_rejection_may_have_others_between_them(line: str) -> None:
    assert on_command({"git push": "reject", "*": "allow"}, line) == "reject"


@pytest.mark.parametrize(
    "line",
    [
        *("a; $b", "python -c 'x'", "env x", "sh x", "xargs x", "find . -delete", "taskset 1 x", "flock x y"),
        *("thing --filter='rm x'", "thing -x 'a; rm x'", "thing --hook=rm"),
    ],
)
def test_a_command_that_may_hide_a_rejected_one_needs_an_answer(line: str) -> None:
    assert on_command({"rm *": "reject", "*": "allow"}, line) == "ask"
    assert on_command("allow", line) == "allow"
    assert on_command({"ls *": "allow", "*": "allow"}, line) == "allow"


# --- paths


@pytest.mark.parametrize(
    ("pattern", "path", "word"),
    [
        ("docs/**", "/repo/docs/a", "allow"),
        ("docs/**", "/repo/docs/a/b", "allow"),
        ("docs/**", "/repo/docs", "ask"),
        ("docs/**", "/repo/docs-evil/a", "ask"),
        ("docs/**", "/repo/src/docs/a", "ask"),
        ("docs/**", "/repo/DOCS/a", "ask"),
        ("docs/**", "/more/docs/a", "ask"),
        ("docs/*", "/repo/docs/a/b", "ask"),
        ("docs/?.md", "/repo/docs/a.md", "allow"),
        ("*.md", "/repo/a.md", "allow"),
        ("*.md", "/repo/docs/a.md", "ask"),
        ("**/*.md", "/repo/docs/x/a.md", "allow"),
        ("**/*.md", "/repo/a.md", "allow"),
        ("**/*.md", "/etc/a.md", "ask"),
        ("./docs/a", "/repo/docs/a", "allow"),
        ("/etc/hosts", "/etc/hosts", "allow"),
        ("/etc/**", "/etc/x/y", "allow"),
        ("[a].md", "/repo/a.md", "ask"),
        ("[a].md", "/repo/[a].md", "allow"),
    ],
)
def test_a_glob_that_allows_means_exactly_what_it_says(pattern: str, path: str, word: str) -> None:
    assert on_path({pattern: "allow"}, path) == word


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("keys", "/repo/keys"),
        ("keys", "/repo/a/keys/b"),
        ("keys", "/repo/KEYS/b"),
        ("keys/", "/repo/keys/b"),
        ("keys/**", "/repo/keys"),
        ("keys/**", "/more/keys/a"),
        ("*.pem", "/repo/a/b.PEM"),
        ("*.pem", "/elsewhere/b.pem"),
        ("a/b", "/repo/a/b/c"),
        ("café", "/repo/cafe\u0301"),
        ("keys", "/repo/ke\u200bys"),
        ("/etc", "/etc/passwd"),
        ("~/.ssh/**", str(Path.home() / ".ssh" / "id")),
    ],
)
def test_a_glob_that_rejects_means_also_what_lies_near(pattern: str, path: str) -> None:
    assert on_path({pattern: "reject", "**": "allow"}, path) == "reject"


def test_a_link_does_not_carry_a_permission_elsewhere_and_hides_no_rejection() -> None:
    assert on_path({"docs/**": "allow"}, "/repo/docs/link/x", resolved="/repo/src/x") == "ask"
    assert on_path({"keys": "reject", "*": "allow"}, "/repo/link/x", resolved="/repo/keys/x") == "reject"
    assert on_path({"link": "reject", "*": "allow"}, "/repo/link/x", resolved="/repo/src/x") == "reject"


@pytest.mark.fault("PRM-22")
@pytest.mark.parametrize("kind", ["edit", "read"])
@pytest.mark.parametrize(
    "pattern",
    [
        *("vault", "vault/", "vault/**", "./vault", "vault/*.txt", "sub/deeper", "sub/deeper/**", "twice"),
        *(
            "{home}/linked/project/store",
            "{home}/linked/project/vault/**",
            "{home}/linked/**/store/*",
            "other/../vault",
        ),
    ],
)
def test_a_rejection_of_a_link_is_one_of_what_it_leads_to(tmp_path: Path, pattern: str, kind: str) -> None:
    project = tmp_path / "project"
    (project / "store").mkdir(parents=True)
    (project / "sub").mkdir()
    (project / "store" / "a.txt").touch()
    for link, target in {
        "project/vault": "store",
        "project/sub/deeper": "../store",
        "project/twice": "sub/deeper",
        "linked": str(tmp_path),
    }.items():
        (tmp_path / link).symlink_to(target)
    context = ActionContext.of("s", str(project))
    rules = Rules({kind: {pattern.format(home=tmp_path): "reject", "*": "allow"}})

    def outcome_of(path: Path) -> Outcome:
        return evaluate([rules], path_actions(kind, str(path), context)[0], context).outcome

    assert outcome_of(project / "store" / "a.txt") == "reject"
    assert outcome_of(project / "sub" / "deeper" / "a.txt") == "reject"
    assert outcome_of(project / "storehouse") == "allow"
    assert outcome_of(project / "sub" / "b") == "allow"


@pytest.mark.fault("PRM-22")
def test_a_rejection_follows_its_link_to_where_it_leads_now(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("one")
    context = ActionContext.of("s", str(tmp_path))
    rules = Rules({"edit": {"link/**": "reject", "*": "allow"}})

    def outcome_of(name: str) -> Outcome:
        return evaluate([rules], path_actions("edit", str(tmp_path / name / "file"), context)[0], context).outcome

    assert (outcome_of("one"), outcome_of("two")) == ("reject", "allow")
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("two")
    assert (outcome_of("one"), outcome_of("two")) == ("allow", "reject")


@pytest.mark.fault("PRM-22")
def test_a_rejected_program_is_found_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "harmless").symlink_to("/bin/rm")
    context = ActionContext.of("s", str(tmp_path))
    rules = Rules({"execute": {"rm *": "reject", "*": "allow"}})

    for program, word in (("./harmless", "reject"), (str(tmp_path / "harmless"), "reject"), ("./other", "allow")):
        assert evaluate([rules], command_action([program, "file"], str(tmp_path)), context).outcome == word


def test_a_plain_allow_of_files_is_about_those_of_the_session() -> None:
    assert on_path("allow", "/repo/a") == "allow"
    assert on_path("allow", "/more/a") == "allow"
    assert on_path("allow", "/repo-evil/a") == "ask"
    assert on_path("allow", "/repo/link", resolved="/etc/passwd") == "ask"
    assert evaluate([Rules({"edit": "allow"})], Action("edit", subject="?"), CONTEXT).outcome == "ask"
    assert evaluate([Rules({"search": "allow"})], Action("search", subject="?"), CONTEXT).outcome == "allow"


# --- together


def test_actions_without_a_rule_need_an_answer_except_reading_inside_the_project() -> None:
    for kind in KINDS:
        expected = "allow" if kind == "read" else "ask"
        assert evaluate([], Action(kind, "/repo/a", "/repo/a"), CONTEXT).outcome == expected
        assert evaluate([], Action(kind, "/etc/a", "/etc/a"), CONTEXT).outcome == "ask"


def test_the_star_is_for_what_nothing_else_matches() -> None:
    assert on_command({"git status": "allow", "*": "reject"}, "git status") == "allow"
    assert on_command({"git status": "allow", "*": "reject"}, "git log") == "reject"


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"nothing": "allow"}, "unknown kind 'nothing'"),
        ({"read": "yes"}, "expected allow, ask or reject, not 'yes'"),
        ({"read": {"a": "maybe"}}, "expected allow, ask or reject, not 'maybe'"),
        ({"read": {"": "allow"}}, "needs a pattern"),
    ],
)
def test_an_invalid_rule_is_rejected_with_its_name(rules: dict[str, Rule], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Rules(rules)


WORDS: list[Outcome] = ["allow", "ask", "reject"]
PATHS = ["**", "src/**", "src/a.py", "*.py", "**/*.py", "/repo/src", "keys", "/etc/**"]
COMMANDS = ["git status", "git status *", "git log *", "rm *", "ls", "ls *"]
FILES = ["/repo/src/a.py", "/repo/a.py", "/repo/keys/x", "/etc/passwd", "/more/a.py"]
LINES = ["git status", "git status -s", "git log", "rm -rf x", "ls", "git status; rm x", "sh -c 'rm x'", "sudo ls"]


def rows(patterns: list[str]) -> st.SearchStrategy[dict[str, Outcome]]:
    """Tables of these patterns; `rm *` cannot be allowed."""
    every = st.dictionaries(st.sampled_from(patterns), st.sampled_from(WORDS))
    return every.filter(lambda table: table.get("rm *") != "allow")


tables = st.one_of(
    st.tuples(st.just("edit"), rows([*PATHS, "*"])), st.tuples(st.just("execute"), rows([*COMMANDS, "*"]))
)
actions = st.one_of(
    st.sampled_from(FILES).map(lambda path: path_actions("edit", path, CONTEXT, resolved=path)[0]),
    st.sampled_from(LINES).map(lambda line: command_action(argv_of(line, []), "/repo")),
)


@pytest.mark.fault("PRM-13")
@given(st.lists(tables, max_size=4), actions, st.randoms(use_true_random=False))
def test_deny_beats_allow_in_any_order_and_any_file(
    files: list[tuple[str, dict[str, Outcome]]], action: Action, shuffled: random.Random
) -> None:
    sets = [Rules({kind: table}) for kind, table in files]
    outcome = evaluate(sets, action, CONTEXT).outcome

    # No order of files, and no order inside a file, changes anything.
    again: list[Rules] = []
    for kind, table in shuffled.sample(files, len(files)):
        again.append(Rules({kind: dict(shuffled.sample(list(table.items()), len(table)))}))
    assert evaluate(again, action, CONTEXT).outcome == outcome

    # A pattern that rejects the action by itself also rejects it next to any other rule.
    for kind, table in files:
        for pattern, word in table.items():
            if kind == action.kind and pattern != "*" and word == "reject":
                alone = Rules({kind: {pattern: "reject", "*": "ask"}})
                if evaluate([alone], action, CONTEXT).outcome == "reject":
                    assert outcome == "reject"


@pytest.mark.fault("PRM-13")
@given(st.lists(tables, min_size=1, max_size=3), actions)
def test_one_more_rejection_never_lets_more_through(
    files: list[tuple[str, dict[str, Outcome]]], action: Action
) -> None:
    strictness = {"allow": 0, "ask": 1, "reject": 2}
    sets = [Rules({kind: table}) for kind, table in files]
    before = strictness[evaluate(sets, action, CONTEXT).outcome]

    for pattern, depth in itertools.product(PATHS if action.kind == "edit" else COMMANDS, range(len(files))):
        kind, table = files[depth]
        if kind == action.kind:
            stricter = [*sets[:depth], Rules({kind: {**table, pattern: "reject"}}), *sets[depth + 1 :]]
            assert strictness[evaluate(stricter, action, CONTEXT).outcome] >= before
