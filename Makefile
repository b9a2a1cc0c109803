# Every target does its own set-up: a machine with Python >= 3.11 and make is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
LINTED := $(wildcard src tests benchmarks experiments requirements)
# Tests of one file stay together: they share what it sets up.
WORKERS := --numprocesses auto --dist loadfile
export PIP_NO_INPUT := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all lint format bench lock clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(VENV)/.all-ready ## .venv with the package, every extra and the development tools

demo: $(VENV)/.dev-ready ## several owners, one round, one classifier; report in build/demo.html
	@mkdir -p build
	$(BIN)/onefold demo --report build/demo.html

test: $(VENV)/.all-ready ## the fast tests, those of the extras included; ARGS is handed to pytest
	$(BIN)/python -m pytest $(WORKERS) -m "not slow" $(ARGS)

test-all: $(VENV)/.all-ready ## every test, slow ones and those of the extras included
	$(BIN)/python -m pytest $(WORKERS) $(ARGS)

lint: $(VENV)/.all-ready ## ruff and mypy, changing nothing; types are those of every extra
	$(BIN)/ruff check $(LINTED)
	$(BIN)/ruff format --check $(LINTED)
	$(BIN)/mypy

format: $(VENV)/.dev-ready ## let ruff mend what it can
	$(BIN)/ruff check --fix $(LINTED)
	$(BIN)/ruff format $(LINTED)

bench: $(VENV)/.dev-ready ## timings as ratios; ARGS=--json for a machine
	$(BIN)/python -m benchmarks $(ARGS)

lock: ## choose the pinned versions anew (needs the network)
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet pip-tools
	build/lock/bin/python requirements/lock.py

clean: ## remove what was built, keep the environment
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests $(wildcard benchmarks experiments) -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## remove the environment too
	rm -rf $(VENV)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "onefold needs Python 3.11 or newer; name one with make PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Pinned packages that are present already are accepted without the network.
$(VENV)/.dev-ready: pyproject.toml requirements/dev.lock | $(BIN)/python
	$(PIP) install --quiet --requirement requirements/dev.lock
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.all-ready: requirements/all.lock $(VENV)/.dev-ready
	$(PIP) install --quiet --requirement requirements/all.lock
	@touch $@
