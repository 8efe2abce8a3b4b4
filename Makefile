# Every target sets up what it needs: Python 3.11+ and access to a package index are enough. No root, no Node.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
# Our docs build with what the lock file pins; where that project goes next is no news for every build.
export NO_MKDOCS_2_WARNING := 1
# Each of the thousand programs that the tests start would compile its modules again.
unexport PYTHONDONTWRITEBYTECODE
BIN := .venv/bin
READY := .venv/.ready
SOURCES := src tests scripts $(wildcard examples) $(wildcard benchmarks)
# How many times the suite's counts `make chaos` runs.
CHAOS_FACTOR ?= 100
# Seconds that `make fuzz` spends on each target.
FUZZ_SECONDS ?= 60
# Tests that wait for programs stand side by side in the order of the suite: a worker that has none left takes some.
WORKERS := -n auto --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help setup run test check format format-check lint types docs docs-serve faults coverage conformance matrix bench cluster-demo schema web chaos fuzz mutants package lock clean

help: ## list what can be done
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv with every extra and the `duologue` command

# uv itself is taken from the lock file too, so that every byte of the set-up is pinned by a hash.
$(READY): pyproject.toml requirements-dev.lock
	@test -n "$(PYTHON)" || { echo "duologue needs Python 3.11 or newer on PATH (or: make PYTHON=/path/to/python)" >&2; exit 1; }
	test -x $(BIN)/pip || $(PYTHON) -m venv --clear .venv
	sed -n '/^uv==/,/^    # via/p' requirements-dev.lock > .venv/uv.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r .venv/uv.txt
	VIRTUAL_ENV=.venv $(BIN)/uv pip sync --quiet --require-hashes requirements-dev.lock
	VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

run: setup ## show it at work: one turn of the built-in agent, no key, no network
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	  XDG_DATA_HOME="$$folder/.data" XDG_STATE_HOME="$$folder/.state" $(BIN)/duologue run /tour --yes --cwd "$$folder"
	@echo
	@echo "Try next:"
	@echo "  $(BIN)/duologue chat"
	@echo "  $(BIN)/duologue run hello -- $(BIN)/python examples/smallest_agent.py"
	@echo "  $(BIN)/duologue doctor"

test: setup ## the whole suite, less what needs Node
	$(BIN)/pytest $(WORKERS) -m "not interop and not chaos" $(PYTEST_ARGS)

check: format-check lint types test docs ## what a contributor runs before a change is sent

format: setup ## write every file in the same style
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix-only --quiet $(SOURCES)

format-check: setup
	$(BIN)/ruff format --check $(SOURCES)

lint: setup ## ruff, and the words of docstrings, comments, messages and pages
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/python -m scripts.check_prose

types: setup ## mypy and pyright, both strict
	$(BIN)/mypy $(SOURCES)
	$(BIN)/pyright --project pyproject.toml

docs: setup ## write the examples into the pages and build the site; a broken link is an error
	$(BIN)/python -m scripts.page_examples
	$(BIN)/mkdocs build --strict --quiet

docs-serve: setup ## the site on loopback, rebuilt on change
	$(BIN)/mkdocs serve --dev-addr 127.0.0.1:8000

faults: setup ## run the tests of faults and write docs/project/faults.md from them
	$(BIN)/pytest $(WORKERS) -q -m "fault and not chaos" --fault-table=docs/project/faults.md

coverage: setup ## each pure package at 100 % of its branches by its own tests
	$(BIN)/python -m scripts.coverage_per_module

conformance: setup ## check agents on the SDKs that can be had here and write docs/project/conformance.md
	$(BIN)/python -m scripts.conformance_page

matrix: setup ## the core tests on every CPython from 3.11 up that this machine has
	$(BIN)/python -m scripts.test_matrix

bench: setup ## ours, the official SDKs and the floor, side by side
	$(BIN)/python -m benchmarks

cluster-demo: setup ## a scheduler and workers of Dask and of Ray on this machine, and a suite on each (installs Ray)
	$(BIN)/python -m scripts.cluster_demo $(CLUSTER_ARGS)

schema: setup ## write the generated classes from the schemas; prints the difference
	$(BIN)/python -m scripts.schema

web: ## build the inspector page from web/ (needs Node)
	cd web && npm ci && npm run check && npm run build

chaos: setup ## the suite's counts multiplied, and the tests that are too long for it
	DUOLOGUE_CHAOS_FACTOR=$(CHAOS_FACTOR) HYPOTHESIS_PROFILE=chaos $(BIN)/pytest -m "fault or chaos" --timeout=14400

fuzz: setup ## coverage-guided fuzzing of what reads bytes from a peer
	VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --group fuzz
	$(BIN)/python -m scripts.fuzz --seconds $(FUZZ_SECONDS)

mutants: setup ## plant faults in security-relevant code, one at a time; the tests must notice them (MUTANTS_ARGS)
	$(BIN)/python -m scripts.mutants $(MUTANTS_ARGS)

package: setup ## build wheel and sdist, and try them outside the repository with every extra
	$(BIN)/python -m scripts.check_package

lock: setup ## pin the newest allowed version of everything
	$(BIN)/uv pip compile pyproject.toml --extra all --group dev --universal --python-version 3.11 --upgrade --quiet \
	  --generate-hashes --no-emit-index-url --custom-compile-command "make lock" --output-file requirements-dev.lock

clean: ## remove everything that was made here
	rm -rf .venv .venvs site dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
