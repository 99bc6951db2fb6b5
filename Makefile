# Two commands do all on a new machine with Python 3.11 or newer: `make demo` and `make test`.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
READY = $(VENV)/.ready
TESTS ?= tests
KILLS ?= 1000
SEED ?= 1
HISTORIES ?= 100000

.PHONY: demo test check soak simulate mutants clean

demo: $(READY)  ## watch a consumer being killed between commit and ACK, and nothing counted twice
	$(BIN)/consumer demo

test: $(READY)  ## every test, on SQLite and on a PostgreSQL that the tests start themselves
	$(BIN)/python -m pytest -n auto --dist worksteal $(TESTS)

soak: $(READY)  ## KILLS SIGKILLs on each database, then every file system call failing in turn: nothing differs
	$(BIN)/python -m tests.faults.soak --db sqlite --kills $(KILLS) --seed $(SEED)
	$(BIN)/python -m tests.faults.soak --db postgres --kills $(KILLS) --seed $(SEED)
	CONSUMER_TEST_INJECTIONS=0 CONSUMER_TEST_TRACED_EVENTS=10000 $(BIN)/python -m pytest -n auto --dist worksteal \
		tests/faults/test_injection.py tests/faults/test_syscalls.py

simulate: $(READY)  ## many more simulated histories than `make test` has time for; HISTORIES=… says how many
	$(BIN)/python -m tests.simulation --histories $(HISTORIES)

check: $(READY)  ## style, types, layers, and that the migrations say what the tables say
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/migrations/test_models.py

mutants: $(READY)  ## break every promise on purpose, a line at a time, and see that a test notices
	$(BIN)/python -m tests.mutants
	$(BIN)/python -m tests.mutants.pure

clean:  ## remove what the other targets have made
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

# Made anew only when what it is made from changes.
$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@
