# Everything here runs with Python 3.11 to 3.14, make and git; nothing else is assumed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One more than there are processors: some tests wait for Prefect's server, a clock or a killed process.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(1 + (os.cpu_count() or 1))')
# Bytecode is kept even where the environment forbids it: every worker would compile every test again.
unexport PYTHONDONTWRITEBYTECODE
# An output is written as on most machines: what is left in a buffer at the end is written then.
unexport PYTHONUNBUFFERED
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
# A test that hangs fails after ten minutes, with every thread's place; the longest one takes two.
ENDING := -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true
SPEC := quickstart.yaml
BUNDLE := releases/quickstart/2024
CHECKERS := $(CURDIR)/build/checkers
# The extras that an office's own machine may need, for sources, ledgers and the second opinion.
PINNED := crosscheck delta excel mysql postgres spark sqlserver statfiles

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all check check-pages laws stats faults golden e2e bench nightly kills docs constraints dist clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null || { \
	  echo "dprelease needs Python 3.11 to 3.14; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 | head -n 1)."; \
	  echo "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "On Debian and Ubuntu: apt install python3-venv"; exit 2; }

# Stamps: what is installed is installed again only when pyproject.toml has changed.
$(VENV)/.run: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[crosscheck]"
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@ $(VENV)/.run

setup: $(VENV)/.dev ## environment for working on dprelease

demo: $(VENV)/.run ## release two tables about 30,000 made-up people; again: finds them, spends nothing
	$(BIN)/python -m dprelease.starter.population specs/data/people.csv
	cd specs && ../$(BIN)/dprelease validate $(SPEC)
	cd specs && ../$(BIN)/dprelease plan $(SPEC)
	cd specs && ../$(BIN)/dprelease run $(SPEC)
	cd specs && ../$(BIN)/dprelease verify $(BUNDLE)
	cd specs && ../$(BIN)/dprelease ledger status
	@echo; echo "The release: specs/$(BUNDLE)/index.html; what it cost and what is left: above."

# Side by side, as mypy keeps one core busy alone. Where workers fill all cores, threads within one only wait.
test: $(VENV)/.dev ## before every push: check, and a fast test of every promise
	+$(MAKE) -s -j 2 check fast

test-all: $(VENV)/.dev ## before every merge: check, and every test but the nightly ones
	+$(MAKE) -s -j 2 check full

.PHONY: fast full
fast full: export OPENBLAS_NUM_THREADS = 1
fast: $(VENV)/.dev
	$(PYTEST) $(ENDING) --hypothesis-profile=fast -m "not slow and not nightly"

full: $(VENV)/.dev
	$(PYTEST) $(ENDING) --hypothesis-profile=full -m "not nightly"

check: $(VENV)/.dev ## style, types and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check-pages: export DPRELEASE_AXE = $(CHECKERS)/node_modules/axe-core/axe.min.js
check-pages: export DPRELEASE_VNU = $(CHECKERS)/node_modules/vnu-jar/build/dist/vnu.jar
check-pages: export DPRELEASE_SHAPES = $(SHAPES)
check-pages: export DPRELEASE_SHACL_PYTHON = $(CHECKERS)/bin/python
check-pages: $(VENV)/.dev ## bundles before axe-core, the W3C's checker, a browser and the shapes of DCAT-AP (SHAPES=FOLDER)
	npm install --silent --prefix $(CHECKERS) axe-core@4.14.1 vnu-jar@26.9.27
	$(BIN)/python -m venv $(CHECKERS)
	$(CHECKERS)/bin/python -m pip install --quiet --disable-pip-version-check pyshacl==0.40.1
	$(PYTEST) -rs tests/pages

laws: $(VENV)/.dev ## properties that hold for every measure, accountant and plan
	$(PYTEST) tests/laws

stats: $(VENV)/.dev ## is the noise the noise: fit, power, coverage
	$(PYTEST) tests/statistical

faults: $(VENV)/.dev ## every planted fault, against the tests, verify and audit that must find it; then docs/planted-faults.md
	$(PYTEST) tests/faults
	$(BIN)/python -m tests.faults.table

golden: $(VENV)/.dev ## published figures reproduced
	$(PYTEST) tests/golden

e2e: $(VENV)/.dev ## the command and the flow, as a user runs them
	$(PYTEST) tests/e2e

bench: $(VENV)/.dev ## figures, printed and never asserted
	@set -e; for name in engine bounding planner scalars strategy crosstabs planning sources ledger orchestration noise census compare; do echo "== $$name"; $(BIN)/python -m bench.$$name; done
	@echo "Beside another library: $(BIN)/python -m bench.planning --peer --profile"
	@echo "Beside other systems (docs/benchmarks.md): $(BIN)/python -m bench.peers --help"
	@echo "From 1 to 100 million rows, and to 10^7 cells (docs/benchmarks.md): $(BIN)/python -m bench.growth --help"

nightly: $(VENV)/.dev ## the slowest tests, and every property on new random examples
	$(PYTEST) --hypothesis-profile=nightly -m "nightly or hypothesis"

kills: $(VENV)/.dev ## kill 1,000 releases at random moments; counts add up over runs, in .crash/
	mkdir -p .crash
	$(BIN)/python -m tests.crash.campaign --kills 1000 --pairs 200 --prefect 20 --series 100 --out .crash/kills.jsonl

docs: export NO_MKDOCS_2_WARNING = 1
docs: $(VENV)/.dev ## run what README, docs and specs show, and build the site of the documentation: build/site/index.html
	$(PYTEST) tests/repo/test_documents.py tests/repo/test_specs.py
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	DISABLE_MKDOCS_2_WARNING=true PYTHONPATH=. $(BIN)/mkdocs build --strict --quiet

constraints: $(VENV)/.dev ## every package of an installation, pinned by hash, for all supported versions of Python
	$(BIN)/uv pip compile pyproject.toml $(foreach extra,$(PINNED),--extra $(extra)) --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --quiet -o constraints.txt

dist: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct)
dist: $(VENV)/.dev ## the wheel, the same bytes wherever it is made, its bill of materials, and the hashes of what is handed out
	rm -rf dist
	$(BIN)/python -m hatchling build -t wheel
	cp constraints.txt dist/
	$(BIN)/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible -o dist/sbom.cdx.json constraints.txt
	cd dist && sha256sum * > SHA256SUMS

clean: ## remove the environment and caches; ledgers and releases stay
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
