# Two commands on a fresh machine: `make demo` and `make test`. Each sets up what it needs.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test check docs bench format clean

setup: .venv/.current

INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

# Built from pyproject.toml and the pinned versions; a no-op while both are older than the stamps.
.venv/.core: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear .venv
	$(INSTALL) .
	@touch $@

.venv/.current: .venv/.core
	$(INSTALL) '.[dev]'
	@touch $@

.venv/.docs: .venv/.core
	$(INSTALL) '.[docs]'
	@touch $@

# The demo needs no more than any user's install.
demo: .venv/.core
	rm -rf demo-release
	$(BIN)/threea demo --out demo-release

test: setup
	$(BIN)/python -m pytest

check: setup docs
	$(BIN)/ruff check src tests benchmarks docs
	$(BIN)/ruff format --check src tests benchmarks docs
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/check.py

# The site, in site/; a link that leads nowhere or a page that nobody finds is an error. The variable silences an advertisement.
docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

bench: setup
	$(BIN)/python -m benchmarks

format: setup
	$(BIN)/ruff check --fix src tests benchmarks docs
	$(BIN)/ruff format src tests benchmarks docs

clean:
	rm -rf .venv demo-release site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
