# make run    set everything up, then all services on http://127.0.0.1:4318 with embedded stores
# make test   set everything up, then the whole test suite
# `make help` lists the rest. A stamp file per step keeps the second time quick.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for name in python3.13 python3.12 python3.11 python3; do \
	command -v $$name >/dev/null 2>&1 && $$name -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$name; break; }; done)
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
JAVASCRIPT := tests/e2e/javascript
KERNEL_SOURCES := $(wildcard proto/otlp/kernel/*.pyx proto/otlp/kernel/*.pxi) setup.py

FUZZ_SECONDS ?= 20
# A file of tests goes to one worker as a whole, the longest first (tests/division.py). One worker more than cores: they wait too.
WORKERS := --dist loadfile --numprocesses $(shell cores=$$(nproc 2>/dev/null || echo 2); echo $$((cores < 4 ? cores + 1 : 4)))

.PHONY: help setup run test test-optimized lint format fuzz load bench lock clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "Sluice needs Python 3.11 or newer with the venv module (Debian: apt install python3-venv)." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.build: $(VENV)/.made requirements/build.lock
	$(PIP) install --require-hashes -r requirements/build.lock
	touch $@

$(VENV)/.run: $(VENV)/.build requirements/run.lock
	$(PIP) install --require-hashes -r requirements/run.lock
	touch $@

# Editable, so that a change of a Python file needs no step; the kernel is built again when its sources change.
$(VENV)/.package: $(VENV)/.run pyproject.toml $(KERNEL_SOURCES)
	$(PIP) install --no-deps --no-build-isolation --editable .
	@$(BIN)/python -c 'import proto.otlp.kernel' 2>/dev/null \
		|| echo "warning: the decoder kernel was not built (a C++ compiler and the Python headers are needed); the slower decoder in Python is used." >&2
	touch $@

$(VENV)/.dev: $(VENV)/.package requirements/dev.lock
	$(PIP) install --require-hashes -r requirements/dev.lock
	touch $@

# The OpenTelemetry SDK for JavaScript, one of the clients that the tests send from.
$(JAVASCRIPT)/node_modules/.made: $(JAVASCRIPT)/package.json $(JAVASCRIPT)/package-lock.json $(JAVASCRIPT)/.npmrc
	@command -v npm >/dev/null && node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 18 || (a === 18 && b >= 19) ? 0 : 1)' \
		|| { echo "The tests need Node.js 18.19 or newer with npm (Debian: apt install nodejs npm)." >&2; exit 1; }
	cd $(JAVASCRIPT) && npm ci --loglevel=error
	touch $@

# Locust changes the sockets and threads of its process, and brings much along: an environment of its own.
$(VENV)/load/.made: requirements/load.lock $(VENV)/.made
	$(PYTHON) -m venv $(VENV)/load
	$(VENV)/load/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements/load.lock
	touch $@

setup: $(VENV)/.package ## everything that `run` needs, in .venv

run: setup ## all services in one process, embedded stores, data in ./data
	exec $(BIN)/sluice up

# A real Redis for the tests of what processes share; no package of Python's brings one that is kept.
.PHONY: redis-server
redis-server:
	@command -v redis-server >/dev/null || { echo "The tests need redis-server (Debian: apt install redis-server)." >&2; exit 1; }

# Evaluates the alert rules. It is of Debian's package prometheus, which also starts a server; .ci/run takes the tool alone.
.PHONY: promtool
promtool:
	@command -v promtool >/dev/null || { echo "The tests need promtool (Debian: in the package prometheus; .ci/run has how to take it alone)." >&2; exit 1; }

test: redis-server promtool $(JAVASCRIPT)/node_modules/.made $(VENV)/.dev ## the whole test suite
	$(BIN)/python -m pytest $(WORKERS) $(PYTEST_ARGS)

# Our code has no assert (a test holds it), those of libraries that read what strangers send may decide something. So: what
# answers requests, each on one store. Whole deployments would double the time of a run and send the same requests.
OPTIMIZED := tests/proto tests/chassis tests/gateway tests/query tests/control tests/sluice/test_up.py

test-optimized: redis-server $(VENV)/.dev ## what answers requests, tested under python -O: nothing may hang on an assert
	$(BIN)/python -O -m pytest $(WORKERS) -p no:cacheprovider -m "not second_store" $(OPTIMIZED) $(PYTEST_ARGS)

lint: $(VENV)/.dev ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev ## put the source into its one form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: interface
interface: $(VENV)/.package ## sluice/openapi.json anew, what every service shows at /docs
	$(BIN)/python -m sluice.interface
	$(BIN)/python -m tests.interface

fuzz: $(VENV)/.dev ## every fuzz target for FUZZ_SECONDS each (needs clang; docs/fuzzing.md)
	$(BIN)/python -m tests.fuzz all --seconds $(FUZZ_SECONDS)

load: $(VENV)/load/.made ## Locust, for benchmarks/locust

bench: $(VENV)/.dev $(VENV)/load/.made ## what the claims in README.md are measured with
	for folder in benchmarks/*/; do name=$$(basename $$folder); [ $$name = gate ] || { echo "== $$name"; $(BIN)/python -m benchmarks.$$name; }; done

.PHONY: gate
gate: $(VENV)/.dev ## whether this tree is worse than BASE (a revision; where the branch left main): CPU, explore, memory, starts; ONLY=names
	$(BIN)/python -m benchmarks.gate $(if $(BASE),--base $(BASE)) $(if $(ONLY),--only $(ONLY))

LOCK := --quiet --generate-hashes --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --strip-extras \
	--allow-unsafe --no-header --no-annotate
RUN_EXTRAS := --extra control --extra embedded --extra gateway --extra postgresql --extra redis --extra send --extra uvloop

lock: $(VENV)/.build ## choose new versions for requirements/*.lock
	$(PIP) install 'pip-tools>=7.5'
	$(BIN)/pip-compile $(LOCK) --upgrade -o requirements/build.lock requirements/build.in
	$(BIN)/pip-compile $(LOCK) --upgrade $(RUN_EXTRAS) -o requirements/run.lock pyproject.toml
	$(BIN)/pip-compile $(LOCK) --upgrade $(RUN_EXTRAS) --extra dev -o requirements/dev.lock pyproject.toml
	$(BIN)/pip-compile $(LOCK) --upgrade -o requirements/load.lock requirements/load.in
	cd $(JAVASCRIPT) && npm update --package-lock-only --loglevel=error

clean: ## what can be made again; ./data stays
	rm -rf $(VENV) $(JAVASCRIPT)/node_modules build dist ./*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f proto/otlp/kernel/*.so proto/otlp/kernel/*.cpp
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
