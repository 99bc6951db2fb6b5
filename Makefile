# Two commands do all on a new machine with Python 3.11 or newer: `make demo` and `make test`.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
READY = $(VENV)/.ready
TESTS ?= tests

.PHONY: demo test check mutants clean

demo: $(READY)  ## watch a consumer being killed between commit and ACK, and nothing counted twice
	$(BIN)/consumer demo

test: $(READY)  ## every test, on SQLite and on a PostgreSQL that the tests start themselves
	$(BIN)/python -m pytest -n auto --dist worksteal $(TESTS)

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
