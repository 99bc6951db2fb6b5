# Two commands do all on a new machine with Python 3.11 or newer: `make demo` and `make test`. `make` alone lists all.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
INSTALLED = $(VENV)/.installed
READY = $(VENV)/.ready
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
TESTS ?= tests
KILLS ?= 1000
SEED ?= 1
HISTORIES ?= 100000

# SQLAlchemy's other series, which the package runs on too: a second environment, and the tests that meet SQLAlchemy.
OLDER = $(VENV)-sqlalchemy-2.0
OLDER_TESTS ?= tests/store tests/migrations tests/runtime/test_consuming.py tests/testing/test_proof.py

.PHONY: help demo test test-older soak simulate check mutants clean

help:  ## list what can be made
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1#\2/p' $(MAKEFILE_LIST) | while IFS='#' read -r name text; do \
		printf '  make %-10s %s\n' "$$name" "$$text"; done

demo: $(INSTALLED)  ## watch a consumer being killed between commit and ACK, and nothing counted twice
	$(BIN)/consumer demo

test: $(READY)  ## every test, on SQLite and on a PostgreSQL that the tests start themselves
	$(BIN)/python -m pytest -n auto --dist worksteal $(TESTS)

test-older: $(OLDER)/.ready  ## what meets SQLAlchemy, on its series 2.0
	$(OLDER)/bin/python -m pytest -n auto --dist worksteal $(OLDER_TESTS)

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
	rm -rf $(VENV) $(OLDER) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

# Made anew only when what it is made from changes. A demo needs the package alone; the tools of its developers come later.
$(READY): $(INSTALLED)
	@echo "installing the tools for tests and checks into $(VENV) …"
	@$(PIP) --editable '.[dev]'
	@touch $@

$(INSTALLED): pyproject.toml
	@echo "installing the package and what it runs on into $(VENV) …"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --editable .
	@touch $@

$(OLDER)/.ready: pyproject.toml
	@$(PYTHON) -m venv $(OLDER)
	@$(OLDER)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' 'sqlalchemy<2.1'
	@touch $@
