"""The list of mutations fits the source: each still applies, compiles, and names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.mutants import Mutation, read_mutations, spread

ROOT = Path(__file__).parents[1]
MUTATIONS = read_mutations()
LEAST_MUTATIONS = 120


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.id)
def test_a_mutation_still_applies_and_names_tests_that_exist(mutation: Mutation) -> None:
    mutated = mutation.apply_to((ROOT / mutation.file).read_text("utf-8"))

    compile(mutated, mutation.file, "exec")
    assert mutation.tests
    for test in mutation.tests:
        path, _, name = test.partition("::")
        text = (ROOT / path).read_text("utf-8")
        assert not name or re.search(rf"def {re.escape(name.partition('[')[0].rpartition('::')[2])}\(", text), test


def test_there_are_enough_mutations_and_no_id_twice() -> None:
    ids = [mutation.id for mutation in MUTATIONS]

    assert len(ids) == len(set(ids))
    assert len(ids) >= LEAST_MUTATIONS


def test_a_mutation_whose_text_is_gone_or_ambiguous_is_an_error() -> None:
    mutation = Mutation(id="x", file="f.py", old="a == b", new="a != b", promise="", tests=())

    with pytest.raises(ValueError, match="occurs 0 times"):
        mutation.apply_to("nothing of it")
    with pytest.raises(ValueError, match="occurs 2 times"):
        mutation.apply_to("a == b or a == b")


def test_a_small_run_is_spread_over_the_whole_list() -> None:
    ten = [Mutation(id=str(n), file="", old="", new="", promise="", tests=()) for n in range(10)]

    assert [mutation.id for mutation in spread(ten, 5)] == ["0", "2", "4", "6", "8"]
    assert spread(ten, 20) == ten
