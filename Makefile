# `make help` lists what can be done. Everything runs in .venv; nothing is installed elsewhere.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
STAMP := .venv/.installed
DEMO := ZEPH_CONFIG= ZEPH_DATA_DIR=.demo $(BIN)/zeph

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all lint types contracts migrations bench load lock check clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Install everything into .venv (needs Python 3.11 or newer with venv)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed: make setup PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv .venv \
		|| { echo "The venv module is missing: apt-get install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: setup ## Ingest the documents of tests/corpus/handbook and answer three questions about them
	@rm -rf .demo
	$(DEMO) ingest tests/corpus/handbook
	$(DEMO) search "Can the boss make us keep the dome open in a storm?"
	$(DEMO) search "What must be done to the focus after a power cut?"
	$(DEMO) search "最後の落雷から何分待てば外に出られますか"

test: setup ## Run the fast tests
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not slow and not services and not faults"

test-all: test ## Run all tests: also slow ones and those with real servers and workers
	$(BIN)/python -m pytest -m "slow or services or faults"

lint: setup ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup ## Check types
	$(BIN)/mypy

contracts: setup ## Check which package may import which
	$(BIN)/lint-imports

migrations: setup ## Check that the migrations build the tables that the code declares
	@data="$$(mktemp -d)"; trap 'rm -rf "$$data"' EXIT; ZEPH_CONFIG= ZEPH_DATA_DIR="$$data" $(BIN)/zeph db check

bench: setup ## Run the benchmarks
	@for file in tests/bench/bench_*.py; do echo "== $$file"; $(BIN)/python "$$file" || exit 1; done

load: setup ## Put whole installations under load, for 40 minutes
	$(BIN)/python -m tests.bench.load

lock: ## Pin the newest allowed versions with their hashes, for development and for the image
	$(BIN)/uv pip compile --quiet --upgrade --generate-hashes --no-emit-index-url --no-header --universal \
		--python-version 3.11 --group pyproject.toml:dev pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --upgrade --generate-hashes --no-emit-index-url --no-header --universal \
		--python-version 3.11 --group pyproject.toml:build --extra flower -c requirements.lock pyproject.toml \
		-o requirements-image.lock

check: lint types contracts migrations test-all ## Run everything that CI runs

clean: ## Remove the demo and all caches, not .venv
	rm -rf .demo dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
