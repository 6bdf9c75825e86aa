# Two commands: `make demo` and `make test`. Each target sets up what it needs in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
LOGWITNESS := $(BIN)/logwitness
CORES ?= 2
# One more, since some tests wait for sockets, disks and other processes.
WORKERS ?= $(shell expr $(CORES) + 1)
export PYTHONHASHSEED := 0
# Tests start hundreds of processes: without bytecode each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# What starts Java, Spark, solvers, real nodes or fuzzers.
NOT_QUICK := spec proofs pipeline validate node fuzz

.PHONY: help setup demo quick test test-long test-night coverage bench mutants reference second-judge lint format clean
.DELETE_ON_ERROR:

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.base: requirements/base.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or later is needed: install it, or name it with make PYTHON=..."; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or later is needed, this is $$($(PYTHON) -V): name another one with make PYTHON=..."; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "This Python has no venv module: install it (Debian: python3-venv)"; exit 2; }
	@echo "setting up the checker and the implementation in $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --require-hashes -r requirements/base.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.all: $(VENV)/.base requirements/all.lock
	@echo "setting up all extras in $(VENV)"
	@$(PIP) install --require-hashes -r requirements/all.lock
	@touch $@

CHECKER := checker/linearizability_checker
$(VENV)/.porcupine: $(VENV)/.all $(CHECKER)/pyproject.toml $(CHECKER)/hatch_build.py $(wildcard $(CHECKER)/worker/*)
	@echo "building the Porcupine worker"
	@$(PIP) install --no-deps --no-build-isolation --editable $(CHECKER)
	@touch $@

$(VENV)/.java:
	@command -v java >/dev/null || { echo "Java 17 or later is needed for TLC and Spark: install it, or put it on the PATH"; exit 2; }
	@java -version 2>&1 | awk -F '["." ]+' '/version/ {exit !($$3 >= 17)}' || \
		{ echo "Java 17 or later is needed for TLC and Spark, this is $$(java -version 2>&1 | head -n 1)"; exit 2; }
	@mkdir -p $(VENV) && touch $@

# Machine code is kept in the user's cache, by the sources that it was made from.
$(VENV)/.loops: $(VENV)/.all tests/compile_loops.py $(shell find checker/logwitness/checks histories/loghistory/vocabularies -name '*.py')
	@echo "compiling the loops of the checks: some minutes, again after each change of them"
	@$(BIN)/python tests/compile_loops.py
	@touch $@

setup: $(VENV)/.java $(VENV)/.porcupine $(VENV)/.loops ## everything: all extras, TLC, the Porcupine worker, compiled loops
	@$(LOGWITNESS) spec setup

demo: $(VENV)/.base ## three real processes, a killed leader, the verdict; then a bad run explained
	@$(BIN)/python tests/demo.py

lint: $(VENV)/.porcupine ## ruff, mypy --strict, import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/mypy hatch_build.py
	@$(BIN)/mypy $(CHECKER)/hatch_build.py
	@$(BIN)/lint-imports --no-cache

quick: lint ## an answer in two minutes: lint, and the tests that start nothing large
	@$(BIN)/pytest -q -n $(CORES) -m "not long and not slow" $(NOT_QUICK:%=--ignore=tests/%)

# What is long is left out by pyproject.toml.
TESTS := -m pytest -n $(WORKERS)

test: $(VENV)/.all ## everything that a change must pass
	@$(MAKE) --no-print-directory -j 3 setup lint
	@$(BIN)/python $(TESTS) --durations=15

coverage: setup ## the same tests, and the lines that they leave out; half as long again
	@$(BIN)/coverage erase
	@$(BIN)/coverage run $(TESTS)
	@$(BIN)/coverage combine --quiet && $(BIN)/coverage report --skip-covered --sort=cover

test-long: setup ## what `make test` leaves out: an hour or two; each test is shown as it ends
	@$(BIN)/pytest -v -n $(WORKERS) -m "long and not night" --timeout=3600 --durations=15

test-night: setup ## what `make test-long` leaves out: hours; each test is shown as it ends
	@$(BIN)/pytest -v -n $(WORKERS) -m night --timeout=3600 --durations=15

bench: setup ## every figure, as a ratio in one run
	@$(BIN)/python tests/bench

mutants: setup ## hunt every mutant and write docs/mutants.md: minutes; each hunt is shown as it ends
	@$(BIN)/python tests/mutants --processes $(CORES)

reference: setup ## 10,000 runs of Raft's reference, every tenth followed by spec trace; goes on where it was stopped
	@$(BIN)/python tests/mutants/reference.py --processes $(CORES)

second-judge: setup ## 1,000 simulated runs and 3,000 damaged ones, each judged twice; goes on where it was stopped
	@$(BIN)/python tests/second_judge/thousands.py

format: $(VENV)/.all ## write the code in the house's form
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format --quiet .

clean: ## remove what was built and set up
	rm -rf $(VENV) .cache $(CHECKER)/.cache out .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis
