# Every target does its own set-up: a machine with Python >= 3.11 and make is enough.
PYTHON ?= python3
# Another interpreter gets an environment of its own: make test PYTHON=python3.12 uses .venv-python3.12.
VENV := .venv$(if $(filter-out python3,$(PYTHON)),-$(notdir $(PYTHON)))
BIN := $(VENV)/bin
# pyenv has a shim for every interpreter, also for those that are installed but not chosen: those it names itself.
INTERPRETER = $(shell $(PYTHON) -c 'import sys; print(sys.executable)' 2>/dev/null || \
	PYENV_VERSION=$$(pyenv whence $(PYTHON) 2>/dev/null | tail -n 1) $(PYTHON) -c 'import sys; print(sys.executable)' 2>/dev/null)
PIP := $(BIN)/python -m pip --disable-pip-version-check
LINTED := $(wildcard src tests benchmarks experiments requirements deploy docs/*.py)
# Tests of one file stay together: they share what it sets up. A worker that crashes ends the run.
WORKERS := --numprocesses auto --dist loadfile --max-worker-restart 0
# Tests run in a random order. It follows from the commit, so that a failure belongs to a change; ORDER=7 is another.
ORDER ?= $(shell printf '%d' 0x$$(git rev-parse --short=7 HEAD 2>/dev/null || echo 1))
PYTEST := $(BIN)/python -m pytest --randomly-seed=$(ORDER)
KERNELS := PYTEST_ADDOPTS=--randomly-seed=$(ORDER) $(BIN)/python tests/kernels.py
export PIP_NO_INPUT := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo docs tutorials test merge exact fuzz nightly mutants lint format bench lock sbom audit clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(VENV)/.all-ready ## .venv with the package, every extra and the development tools

demo: $(VENV)/.dev-ready ## several sites, one round, one classifier; report in build/demo.html
	@mkdir -p build
	$(BIN)/onefold demo --report build/demo.html

docs: $(VENV)/.all-ready ## the site, with tutorials, reference and gallery, in build/site; warnings are errors
	$(BIN)/python docs/generate.py --check
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/site
	@echo "open build/site/index.html"

tutorials: $(VENV)/.all-ready ## run every block of every tutorial, each page in an empty folder
	$(BIN)/python docs/run_tutorial.py docs/tutorials/*.md

test: $(VENV)/.all-ready ## the fast tests: everything but what is marked merge or nightly; ARGS is handed to pytest
	$(PYTEST) $(WORKERS) -m "not merge and not nightly" $(ARGS)

# Tests marked merge wait for other processes, so that one worker more than there are cores has work. Only files
# with such tests are read. Exact tests have their turn under each kernel.
MERGED = $(shell grep -rlE 'mark\.merge|import.*later' tests --include='test_*.py')
merge: $(VENV)/.all-ready ## what a change must pass besides: tests marked merge, exact tests under two kernels, a fixed search of files
	$(PYTEST) --numprocesses $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --dist loadfile --max-worker-restart 0 -m "merge and not nightly and not exact" $(ARGS) $(MERGED)
	$(MAKE) exact
	$(MAKE) fuzz RUNS=300

exact: $(VENV)/.all-ready ## what is promised to the last bit, under several BLAS kernels and thread counts
	$(KERNELS) $(ARGS)

# Only this target needs the fuzzer, which has no wheels for some systems: it is not among the locked packages,
# and without it the target says so and ends well. RUNS=300 tries the same inputs in every run of the same code,
# SECONDS=30 others each time.
SECONDS ?= 30
fuzz: $(VENV)/.all-ready ## search for files that a reader neither uses nor refuses: SECONDS=30 in all, or RUNS=300 inputs a group
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(PIP) install --quiet --retries 1 atheris==3.0.0 || true
	$(BIN)/python tests/fuzz.py $(if $(RUNS),--runs $(RUNS),--seconds $(SECONDS))

nightly: $(VENV)/.all-ready ## everything, at most two hours on two cores: new random examples, 10 000 simulated federations, every kernel and interpreter
	$(PYTEST) $(WORKERS) --hypothesis-profile=search
	$(KERNELS) --full $(WORKERS) -m "not merge and not nightly" tests
	$(BIN)/python -m tests.simulation --seeds 10000
	$(MAKE) fuzz SECONDS=600
	@for python in python3.12 python3.13; do \
		$(MAKE) --silent $$python-is-there PYTHON=$$python || continue; $(MAKE) test PYTHON=$$python || exit 1; done

mutants: $(VENV)/.all-ready ## change the source in small ways and list what no fast test notices; ARGS="--room privacy --cpu-minutes 60"
	$(BIN)/python tests/mutants.py $(ARGS)

%-is-there:
	@test -n "$(INTERPRETER)" || { echo "$*: SKIPPED, it is not installed"; exit 1; }

lint: $(VENV)/.all-ready ## ruff, mypy and the docstrings, changing nothing; types are those of every extra
	$(BIN)/ruff check $(LINTED)
	$(BIN)/ruff format --check $(LINTED)
	$(BIN)/mypy
	$(BIN)/python docs/check_docstrings.py

format: $(VENV)/.dev-ready ## let ruff mend what it can
	$(BIN)/ruff check --fix $(LINTED)
	$(BIN)/ruff format $(LINTED)

bench: $(VENV)/.dev-ready ## timings as ratios; ARGS=--json for a machine
	$(BIN)/python -m benchmarks $(ARGS)

lock: ## choose the pinned versions and their hashes anew (needs the network); ARGS=--keep adds what is new only
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet pip-tools
	build/lock/bin/python requirements/lock.py $(ARGS)

sbom: $(VENV)/.all-ready ## docs/sbom.cdx.json and docs/licences.md, from the lock file and what is installed
	$(BIN)/python requirements/sbom.py

audit: ## known weaknesses of the pinned versions (needs the network)
	$(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet pip-audit
	build/audit/bin/python requirements/audit.py

clean: ## remove what was built, keep the environment
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests $(wildcard benchmarks experiments) -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## remove the environment too
	rm -rf $(VENV)

$(BIN)/python:
	@$(or $(INTERPRETER),false) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "onefold needs Python 3.11 or newer; name one with make PYTHON=/path/to/python" >&2; exit 1; }
	$(INTERPRETER) -m venv $(VENV)

# Pinned packages that are present already are accepted without the network; others must have one of the hashes.
# The package itself is installed apart: it has no hash.
$(VENV)/.dev-ready: pyproject.toml requirements/dev.lock | $(BIN)/python
	$(PIP) install --quiet --require-hashes --requirement requirements/dev.lock
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.all-ready: requirements/all.lock $(VENV)/.dev-ready
	$(PIP) install --quiet --require-hashes --requirement requirements/all.lock
	@touch $@
