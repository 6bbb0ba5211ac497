# The two commands are `make run` (a first measurement) and `make test`. The rest is for developers.
SHELL := /bin/sh
# The distribution's Python is built for speed; one in PATH before it, such as pyenv's, often is not.
DISTRIBUTION := /usr/bin/python3
IS_GOOD := import ensurepip, venv, sys; sys.exit(sys.version_info < (3, 11))
ifeq ($(origin PYTHON),undefined)
PYTHON := $(shell $(DISTRIBUTION) -c '$(IS_GOOD)' 2>/dev/null && echo $(DISTRIBUTION) || echo python3)
endif
export PYTHON
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python tools/install.py
COMPILER := $(VENV)/compiler
PACKAGES := $(VENV)/packages
READY := $(VENV)/ready
TESTS := $(VENV)/tests
DEVELOP := $(VENV)/develop
# Packages come without byte code: what is imported is compiled once, and must be kept for the next process.
unexport PYTHONDONTWRITEBYTECODE
AGENT_SOURCES := $(wildcard agents/osmef-agent/*.c agents/osmef-agent/*.h)
# The first measurement runs here: the agents for other machines are built when something needs them.
MACHINE := $(shell uname -m)
AGENT := osmef/agent/bin/osmef-agent-$(MACHINE)

.PHONY: run agents check test test-real fuzz lint types docs bench bench-openstack coverage openstack-cloud openstack-down openstack-real openstack-real-down clean

run:  ## set everything up and make a first measurement
	@$(MAKE) --no-print-directory -j2 $(READY)
	$(BIN)/osmef run scenarios/quickstart.yaml

agents: $(READY)  ## build the agents for all machines
	$(BIN)/python agents/build.py

check: $(DEVELOP)  ## what every change should pass, in two minutes: style, types, and tests that need no machine
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy & types=$$!; $(BIN)/python -m pytest -n 3 --tier check $(ARGS); tests=$$?; wait $$types && exit $$tests

# Six at a time, also on two CPUs: half of them wait for a trial to end.
test: $(TESTS) $(AGENT)  ## run the tests that are enough to be sure of a change, in a quarter of an hour
	-tools/bootstrap mount gcc libc6-dev nftables iproute2 iputils-ping chromium-headless-shell  # tests skip what has to be missing
	$(BIN)/python -m pytest -n 6 --tier test $(ARGS)

test-real: $(DEVELOP) $(AGENT)  ## run all others, as root; PART=openstack runs one part of them
	$(BIN)/python -m tests.running.real $(PART) $(ARGS)

coverage: $(DEVELOP)  ## run the tests, and tell which lines none of them reaches
	$(MAKE) test ARGS="--cov --cov-report=term $(ARGS)"

FUZZ_SECONDS ?= 300
fuzz: $(DEVELOP)  ## fuzz the agent, FUZZ_SECONDS for each target
	tools/bootstrap clang libclang-rt-dev
	$(BIN)/python agents/fuzzing.py --seconds $(FUZZ_SECONDS)

lint: $(DEVELOP)  ## check style and who imports whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(DEVELOP)  ## check types
	$(BIN)/mypy

docs: $(DEVELOP)  ## build the manual into site/
	$(INSTALL) docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(DEVELOP) $(AGENT)  ## compare the agent with its peers, in one run; writes docs/benchmarks.md
	-tools/bootstrap iperf3 iperf nuttcp netpipe-tcp sockperf wrk apache2-utils nginx-light  # what is missing is left out
	$(BIN)/python -m tests.bench $(BENCH_ARGS)

bench-openstack: $(DEVELOP)  ## make and delete pairs on an OpenStack, as root; ten minutes; writes its section
	$(BIN)/python -m tests.bench.openstack $(BENCH_ARGS)

openstack-cloud:  ## start a real OpenStack cloud here, with fake hypervisors
	$(PYTHON) -m tests.openstack up $(ARGS)

openstack-down:  ## stop it, and remove all it wrote
	$(PYTHON) -m tests.openstack down --purge $(ARGS)

openstack-real: $(DEVELOP)  ## start an OpenStack whose hosts, networks and guests are real, as root
	$(BIN)/python -m tests.openstack up --real $(ARGS)

openstack-real-down: $(DEVELOP)  ## stop it, and remove all it wrote
	$(BIN)/python -m tests.openstack down --purge --real $(ARGS)

clean:  ## remove what was built; results stay
	rm -rf $(VENV) build dist site osmef/agent/bin .mypy_cache .pytest_cache .ruff_cache

# The compiler of the agent comes first: it works while the other packages are installed.
$(COMPILER): pyproject.toml tools/bootstrap tools/install.py
	tools/bootstrap
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) build
	touch $@

$(PACKAGES): $(COMPILER)
	$(INSTALL) run
	touch $@

$(READY): $(PACKAGES) $(AGENT)
	$(INSTALL) .
	touch $@

$(TESTS): $(READY)
	$(INSTALL) test
	touch $@

$(DEVELOP): $(TESTS)
	$(INSTALL) dev
	touch $@

$(AGENT): $(AGENT_SOURCES) agents/build.py | $(COMPILER)
	$(BIN)/python agents/build.py --target $(MACHINE)
	touch $@
