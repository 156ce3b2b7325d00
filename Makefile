# `make help` lists the targets. Every environment is made once, and again when pyproject.toml or the constraints change.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
    $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
PIP_INSTALL := bin/python -m pip install --quiet --disable-pip-version-check --no-compile

# One worker more than processors, for tests wait for processes and servers that they start. A worker keeps to neighbouring tests, so that few of
# the shared databases are made twice.
WORKERS ?= $(shell echo $$(($$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) + 1)))
PYTEST := $(BIN)/python -m pytest --numprocesses=$(WORKERS) --dist=worksteal
# What asks the database; command line and reports print what these ask. Left out there: tests marked `slow`, seconds of work around
# few questions, and tests marked `again`, which ask with the views, macros and statements of a test beside them.
ASKING := $(addprefix tests/,answers reconciliation counters warehouse)
# Every object of the schema on some rows, and how it is made and filled: beside the lakes, which compare the answers of all commands.
OBJECTS := $(addprefix tests/,answers/test_determinism.py reconciliation/test_balances.py $(addprefix warehouse/test_,commit.py schema.py views.py))
ON_OLDEST := -p no:cacheprovider -m 'not slow and not again and not thorough'
# What `make test` runs. CI asks for more: all but those marked `volume`, more inputs of the same kinds, which take longer than all else.
TESTS ?= not thorough
SCHEMA_DOCS ?= kerneldb.schemas.docs
SEED ?= 1000
BENCHMARK_TRACE ?= examples/decoder-h200.json.gz

# A worker per processor leaves threads nothing to do but to wait for each other. The tests of every combination keep them.
test coverage check-oldest: export POLARS_MAX_THREADS := 1
# Containers often set it: then each of hundreds of processes compiles all modules anew, a fifth of a second of its time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo environment test test-thorough lint types imports coverage check check-duckdb15 check-lake check-oldest docs site snapshots screenshots bench sanitize check-pure fuzz clean

help:  ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

demo: .venv-demo/.stamp  ## ingest the example trace and answer three questions
	@KERNELDB=.venv-demo/bin/kerneldb scripts/demo.sh

environment: .venv/.stamp  ## make .venv, with kerneldb and all development tools

test: .venv/.stamp  ## run the tests
	$(PYTEST) -m '$(TESTS)'

test-thorough: .venv/.stamp  ## run the tests of every combination: all walks of all screens, all samples in all orders, damage and kills
	$(PYTEST) -m thorough

lint: .venv/.stamp  ## ruff: rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.stamp  ## mypy --strict
	$(BIN)/mypy

imports: .venv/.stamp  ## import-linter: imports go down only
	$(BIN)/lint-imports --no-cache

coverage: .venv/.stamp  ## all tests, thorough ones too, with coverage, which has a floor
	$(PYTEST) --cov --cov-report=term

check: lint types imports coverage  ## lint, types, imports, and all tests with coverage

check-duckdb15: .venv/.stamp .duckdb15/.stamp  ## the tests that ask a database, on the oldest DuckDB that kerneldb works with
	PYTHONPATH=$(CURDIR)/.duckdb15 $(PYTEST) $(ON_OLDEST) $(ASKING)

check-lake: .venv/.stamp .lake/.stamp  ## the tests of lakes, with DuckDB's extensions, an S3 server and Ray
	PYTHONPATH=$(CURDIR)/.lake $(PYTEST) --numprocesses=3 -p no:cacheprovider tests/lake

check-oldest: .venv/.stamp .lake/.stamp  ## lakes and every object of the schema: the DuckDB of the lakes is the oldest one
	PYTHONPATH=$(CURDIR)/.lake $(PYTEST) $(ON_OLDEST) tests/lake $(OBJECTS)

docs: .venv/.stamp  ## write docs/schema.md from the schema, and what the examples of all documents print
	$(BIN)/python -m $(SCHEMA_DOCS)
	$(BIN)/python -m scripts.refresh_examples

site: .venv-site/.stamp  ## build the documentation as a site, in build/site
	NO_MKDOCS_2_WARNING=1 .venv-site/bin/python -m mkdocs build --strict --quiet

snapshots: .venv/.stamp  ## accept the pictures of the screens as they are drawn now
	KERNELDB_SNAPSHOTS=write $(BIN)/python -m pytest --quiet tests/tui/test_snapshots.py

screenshots: .venv/.stamp  ## draw the screens for the documentation
	$(BIN)/python -m scripts.screenshots docs/images

bench: .venv/.stamp  ## run the benchmarks; takes minutes
	$(BIN)/python benchmarks/ingest.py $(BENCHMARK_TRACE) --repeats 1

sanitize: .venv/.stamp  ## the tests of the C part with sanitizers of addresses and undefined behaviour; needs gcc
	@mkdir -p build/sanitized
	gcc -g -O1 -std=gnu11 -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=all -shared -fPIC \
	    -I"$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("include"))')" ingest/pytorch/_scan.c -o build/sanitized/_scan.so -lm
	ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
	    KERNELDB_SCAN=$(CURDIR)/build/sanitized/_scan.so $(BIN)/python -m pytest -q -p no:cacheprovider --numprocesses=0 tests/ingest/test_native.py

# Left out: what has nothing to do with it, what asks both ways wherever it runs, and what is about files and the Python reader itself, of which
# the part in C has no share.
check-pure: .venv/.stamp  ## the tests of reading without the C part, and that an installation without a compiler is one without it
	KERNELDB_PURE_PYTHON=1 $(PYTEST) -m 'not thorough and not collection' tests/ingest \
	    $(foreach name,csv_forms encloser hostile impostors ledger limits mutations native source sqlite_tables workers, \
        --ignore=tests/ingest/test_$(name).py)
	rm -rf build/pure build/lib* build/temp*  # of a build with a compiler
	CC=false $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/pure .
	! $(BIN)/python -m zipfile -l build/pure/kerneldb-*.whl | grep '_scan.*so'

fuzz: .venv/.stamp  ## damage files and interrupt commands for an hour; SEED=n begins elsewhere
	$(BIN)/python -m tests.fuzz --seed $(SEED) --minutes 40
	$(BIN)/python -m tests.fuzz.killing --each 100

clean:  ## remove environments, builds and caches
	rm -rf .venv .venv-demo .venv-site .duckdb15 .lake build dist *.egg-info htmlcov .coverage
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/pyvenv.cfg:
	$(call make-venv,.venv)

.venv/.stamp: pyproject.toml constraints.txt $(wildcard ingest/pytorch/_scan*.[ch]) | .venv/pyvenv.cfg
	.venv/$(PIP_INSTALL) -c constraints.txt -e '.[dev]'
	@touch $@

.venv-demo/.stamp: pyproject.toml constraints.txt
	@echo 'Making .venv-demo (about a minute, once) ...'
	$(call make-venv,.venv-demo)
	@.venv-demo/$(PIP_INSTALL) -c constraints.txt -e .
	@touch $@

.venv-site/.stamp: constraints-site.txt
	$(call make-venv,.venv-site)
	@.venv-site/$(PIP_INSTALL) --no-deps -r constraints-site.txt
	@touch $@

# These stand before .venv in the search path; all else is the same. They need nothing of it but pip: `make -j2` makes them beside it.
.duckdb15/.stamp: constraints-duckdb15.txt | .venv/pyvenv.cfg
	$(call make-layer,.duckdb15,constraints-duckdb15.txt)

.lake/.stamp: constraints-lake.txt | .venv/pyvenv.cfg
	$(call make-layer,.lake,constraints-lake.txt)

define make-layer
rm -rf $(1)
.venv/$(PIP_INSTALL) --no-deps --target $(1) -r $(2)
@touch $(1)/.stamp
endef

define make-venv
@test -n "$(PYTHON)" || { echo 'kerneldb needs Python 3.11 or newer: make PYTHON=/path/to/python3.11' >&2; exit 1; }
@$(PYTHON) -m venv $(1) || { echo 'Could not make $(1); on Debian and Ubuntu: apt install python3-venv' >&2; exit 1; }
endef
