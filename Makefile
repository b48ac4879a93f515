# Needs make and Python 3.11 or newer, nothing else. `make` alone lists what there is.

VENV := .venv
BIN := $(VENV)/bin
# Which Python makes the environment: the first of these that runs and is new enough. `make PYTHON=/path/to/python` names one.
PYTHON ?=
PYTHONS := python3.13 python3.12 python3.11 python3
# Written when the environment holds what the lock and the project ask for.
STAMP := $(VENV)/.installed
# The same for what drives a browser.
BROWSER_STAMP := $(VENV)/.installed-browser
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
UV := uv==0.13.9
# What a run hands to pytest beside its own options: make test ARGS="-k wire -x"
ARGS ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:
.PHONY: help demo test browser lint format types check package bench fuzz lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

demo: $(STAMP) ## ask two questions in this terminal and go on with the answers
	@$(BIN)/opask demo

# Most tests wait for processes: four at once keep two cores busy. ARGS="-n 0" runs all in one process.
test: $(STAMP) ## run the tests; ARGS are handed to pytest
	$(BIN)/python -m pytest -q -n 4 --dist worksteal $(ARGS)

# Installs the Python packages that drive a browser into the environment; the browser itself is the system's.
browser: $(BROWSER_STAMP) ## run the tests of the page in Chromium, which must be there
	@command -v chromium >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 || [ -n "$$CHROMIUM" ] || { \
	    echo "make browser: there is no chromium. Debian and Ubuntu have it in the package chromium;" >&2; \
	    echo "      or name one that is elsewhere: make browser CHROMIUM=/path/to/chromium" >&2; exit 1; }
	CHROMIUM="$(CHROMIUM)" $(BIN)/python -m pytest -q --no-skips -m browser $(ARGS)

lint: $(STAMP) ## check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMP) ## fix what lint can fix by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(STAMP) ## check the types, strictly
	$(BIN)/mypy

check: lint types test ## lint, types and tests

package: $(STAMP) ## build the wheel and the sdist into dist/
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist

bench: $(STAMP) ## run every benchmark and print its figures; ARGS="--json FOLDER" also writes them
	@found=; for script in benchmarks/bench_*.py; do \
	    [ -f "$$script" ] || continue; \
	    found=1; $(BIN)/python "$$script" $(ARGS) || exit 1; \
	done; \
	[ -n "$$found" ] || { echo "make bench: there is no benchmarks/bench_*.py" >&2; exit 1; }

# What runs in a short form with the tests: the bridge under damaged messages and killed processes; then the
# properties of everything else.
fuzz: $(STAMP) ## some minutes of faults and property tests, with very many examples
	$(BIN)/python -m pytest -q tests/fuzz --hypothesis-profile=fuzz --timeout=1800 -o faulthandler_timeout=0 $(ARGS)
	$(BIN)/python -m pytest -q -m "hypothesis and not live" --ignore=tests/fuzz --hypothesis-profile=fuzz --timeout=3600 -o faulthandler_timeout=0 $(ARGS)

lock: $(BIN)/python ## resolve the dependencies anew into the lock files
	$(PIP) install -qq "$(UV)"
	$(BIN)/uv pip compile --no-config --system-certs --quiet --upgrade --universal --python-version 3.11 \
	    --all-extras --group dev --generate-hashes --no-emit-index-url --no-emit-find-links \
	    --custom-compile-command "make lock" --output-file requirements.lock pyproject.toml
	$(BIN)/uv pip compile --no-config --system-certs --quiet --upgrade --universal --python-version 3.11 \
	    --group browser --constraints requirements.lock --generate-hashes --no-emit-index-url --no-emit-find-links \
	    --no-annotate --custom-compile-command "make lock" --output-file requirements-browser.lock
	@echo "requirements.lock and requirements-browser.lock are written; the next make target installs them"

clean: ## remove the environment and everything else that was made here
	rm -rf $(VENV) dist build .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@for candidate in $(if $(PYTHON),"$(PYTHON)",$(PYTHONS)); do \
	    "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue; \
	    "$$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1 || { bare="$$candidate"; continue; }; \
	    echo "Setting up $(VENV) with $$("$$candidate" --version); this takes about half a minute."; \
	    "$$candidate" -m venv --clear $(VENV) && exit 0; \
	    rm -rf $(VENV); exit 1; \
	done; \
	if [ -n "$$bare" ]; then \
	    echo "make: $$bare cannot make virtual environments: its venv or ensurepip module is missing." >&2; \
	    echo "      Debian and Ubuntu keep them in a package of their own: install python3-venv, or name another Python: make PYTHON=..." >&2; \
	else \
	    echo "make: no Python 3.11 or newer among: $(if $(PYTHON),$(PYTHON),$(PYTHONS))." >&2; \
	    echo "      Install one, or name one: make PYTHON=/path/to/python3" >&2; \
	fi; \
	exit 1

$(STAMP): $(BIN)/python requirements.lock pyproject.toml
	@$(PIP) install -qq --require-hashes -r requirements.lock
	@$(PIP) install -qq --no-deps --no-build-isolation -e .
	@touch $@

$(BROWSER_STAMP): $(STAMP) requirements-browser.lock
	@$(PIP) install -qq --require-hashes -r requirements-browser.lock
	@touch $@
