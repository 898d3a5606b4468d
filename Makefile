# `make help` lists the verbs. A machine needs make and Python 3.11 or newer; everything else goes into .venv.
#
# uv is installed at one version into .venv/tool, checked by the hashes of tools/uv.txt, and lays .venv exactly as uv.lock says.
# For another uv: make pin UV_VERSION=0.0.0
# After a change of dependencies in pyproject.toml: .venv/tool/bin/uv lock

PYTHON ?= python3
# Test processes at most; there are never more of them than cores.
WORKERS ?= 8
FUZZ_INPUTS ?= 10000
UV_PINNED := tools/uv.txt
UV_VERSION := $(shell sed -n 's/^uv==\([0-9.]*\).*/\1/p' $(UV_PINNED))

# A file with another hash is refused, wherever it comes from.
PINNED := --quiet --disable-pip-version-check --require-hashes --no-deps --requirement $(UV_PINNED)

UV := .venv/tool/bin/uv
UV_STAMP := .venv/tool/.uv-$(UV_VERSION)
STAMP := .venv/.setup
BENCH_STAMP := .venv/.bench

# The shell's own Python and virtual environment must not leak into ours, and uv must not fetch another Python.
unexport PYTHONHOME PYTHONPATH VIRTUAL_ENV
export UV_PROJECT_ENVIRONMENT := .venv
export UV_PYTHON_DOWNLOADS := never

# A machine that trusts a certificate authority of its own says so in the system's list; uv looks there only when asked.
ifneq ($(wildcard /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem),)
export UV_SYSTEM_CERTS ?= true
endif

# Without a home to write in (a service account), uv has no place for its cache.
NO_CACHE = $(shell [ -z "$$HOME" ] || [ -w "$$HOME" ] || [ -n "$$UV_CACHE_DIR$$XDG_CACHE_HOME" ] || echo --no-cache)
# Compiled here, once: a process that may not write bytecode (PYTHONDONTWRITEBYTECODE, a read-only folder) would compile
# everything at each start, which takes longer than the rest of the start.
SYNC = $(UV) sync --locked --all-extras --quiet --compile-bytecode $(NO_CACHE)

.DEFAULT_GOAL := help
.PHONY: setup demo test test-all lint audit bench docs reference pin help clean

setup: $(STAMP)  ## create .venv: the package, its extras, the tools to test and lint

demo: $(STAMP)  ## run the demonstration; SECONDS=30 ends it after 30 s
# bash has a SECONDS of its own, which may come in through the environment: only the command line counts.
	.venv/bin/wakeful demo $(if $(filter command,$(origin SECONDS)),--seconds $(SECONDS))

test: $(STAMP)  ## run the first tier of the tests: all but most slow ones; SAMPLE=word repeats a sample
# A process that has nothing left takes half of what another one has: some tests last a thousand times as long as others.
	.venv/bin/pytest -n auto --maxprocesses $(WORKERS) --dist worksteal --tier first $(if $(SAMPLE),--sample $(SAMPLE))

test-all: $(STAMP)  ## run all tests, and 10,000 inputs for each fuzz target (FUZZ_INPUTS=N); PYTEST_ADDOPTS="-k name" selects some
	FUZZ_INPUTS=$(FUZZ_INPUTS) .venv/bin/pytest -n auto --maxprocesses $(WORKERS) --dist worksteal

lint: $(STAMP)  ## check style, formatting, types and imports between modules
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo

audit: $(STAMP)  ## check for known vulnerabilities and forbidden licences; write the bill of materials to build/
	.venv/bin/python -m tools.audit --uv $(UV)

bench: $(BENCH_STAMP)  ## measure speed and cost, next to alternatives
	.venv/bin/wakeful bench

docs: $(STAMP)  ## run every example in the documentation
	.venv/bin/pytest tests/docs

reference: $(STAMP)  ## write the reference pages that are generated from the code
	.venv/bin/python -m wakeful.surface.reference > build.reference && mv build.reference docs/reference/resources.md

pin:  ## pin uv by hash: make pin UV_VERSION=0.0.0
	@sed -n '/^#/p' $(UV_PINNED) > $(UV_PINNED).new
	echo uv==$(UV_VERSION) | $(UV) pip compile --quiet --generate-hashes --no-header --no-annotate --universal --only-binary :all: --emit-build-options - >> $(UV_PINNED).new
	@mv $(UV_PINNED).new $(UV_PINNED)

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/make \1\t\2/p' Makefile | expand -t 15

clean:  ## remove .venv and every cache
	rm -rf .venv build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml uv.lock $(UV_STAMP)
	$(SYNC)
	.venv/bin/python -m compileall -q src
	@touch $@

$(BENCH_STAMP): $(STAMP)
	$(SYNC) --all-groups
	@touch $@

# Debian's python3 may come without ensurepip, and then makes no virtual environment with pip in it; a pip of the
# system's own does as well.
$(UV_STAMP): $(UV_PINNED)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0] + "; name another one: make setup PYTHON=/path/to/python3")'
	$(PYTHON) -m venv --without-pip .venv
	@rm -rf .venv/tool
	@if $(PYTHON) -c 'import ensurepip' 2>/dev/null; then \
		$(PYTHON) -m venv .venv/tool && .venv/tool/bin/python -m pip install $(PINNED); \
	else \
		$(PYTHON) -m pip install --target .venv/tool $(PINNED); \
	fi
	@touch $@
