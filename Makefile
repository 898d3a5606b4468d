# `make help` lists the verbs. A machine needs make and Python 3.11 or newer; everything else goes into .venv.
#
# uv is installed at one version into .venv/tool and lays .venv exactly as uv.lock says.
# After a change of dependencies in pyproject.toml: .venv/tool/bin/uv lock

PYTHON ?= python3
# Test processes at most; there are never more of them than cores.
WORKERS ?= 8
UV_VERSION := 0.13.7

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
.PHONY: setup demo test lint bench docs help clean

setup: $(STAMP)  ## lay .venv: the package, its extras, the tools to test and lint

demo: $(STAMP)  ## run the demonstration; SECONDS=30 ends it by itself
# bash has a SECONDS of its own, which may come in through the environment: only the command line counts.
	.venv/bin/wakeful demo $(if $(filter command,$(origin SECONDS)),--seconds $(SECONDS))

test: $(STAMP)  ## run all tests; PYTEST_ADDOPTS="-k name" chooses some
# Whoever has nothing left takes half of what another one has: some tests last a thousand times as long as others.
	.venv/bin/pytest -n auto --maxprocesses $(WORKERS) --dist worksteal

lint: $(STAMP)  ## check style, formatting, types and the arrows between modules
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo

bench: $(BENCH_STAMP)  ## measure speed and cost, beside what else could be used
	.venv/bin/wakeful bench

docs: $(STAMP)  ## run what the documentation says
	.venv/bin/pytest tests/docs

help:  ## list the verbs
	@sed -n 's/^\([a-z]*\):.*  ## \(.*\)/make \1\t\2/p' Makefile | expand -t 14

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
$(UV_STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0] + "; name another one: make setup PYTHON=/path/to/python3")'
	$(PYTHON) -m venv --without-pip .venv
	@rm -rf .venv/tool
	@if $(PYTHON) -c 'import ensurepip' 2>/dev/null; then \
		$(PYTHON) -m venv .venv/tool && .venv/tool/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION); \
	else \
		$(PYTHON) -m pip install --quiet --disable-pip-version-check --target .venv/tool uv==$(UV_VERSION); \
	fi
	@touch $@
