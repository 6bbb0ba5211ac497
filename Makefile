# The two commands are `make run` (a first measurement) and `make test`. The rest is for developers.
SHELL := /bin/sh
export PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet install --no-compile
READY := $(VENV)/ready
# Packages come without byte code: what is imported is compiled once, and must be kept for the next process.
unexport PYTHONDONTWRITEBYTECODE
DEVELOP := $(VENV)/develop
AGENT_SOURCES := $(wildcard agents/osmef-agent/*.c agents/osmef-agent/*.h)
# The first measurement runs here: the agents for other machines are built when something needs them.
MACHINE := $(shell uname -m)
AGENT := osmef/agent/bin/osmef-agent-$(MACHINE)

.PHONY: run agents test fuzz lint types docs bench bench-openstack coverage openstack-cloud openstack-down openstack-real openstack-real-down openstack-real-test openstack-volumes-test cloud-init-test clean

run: $(READY) $(AGENT)  ## set everything up and make a first measurement
	$(BIN)/osmef run scenarios/quickstart.yaml

agents: $(READY)  ## build the agents for all machines
	$(BIN)/python agents/build.py

# Three at a time, also on two CPUs: one of them mostly waits for a guest to boot or a trial to end.
test: $(DEVELOP) $(AGENT)  ## run the tests
	-tools/bootstrap gcc libc6-dev qemu-user-static clang libclang-rt-dev  # tests skip what has to be missing
	-tools/bootstrap gcc libc6-dev python3-dev pkg-config mmdebstrap qemu-system-x86 qemu-utils libvirt-daemon-system libvirt-dev
	-tools/bootstrap dnsmasq-base genisoimage busybox-static nftables iproute2
	-tools/bootstrap chromium postgresql  # for the pages, and a database of campaigns
	-$(PIP) 'osmef[libvirt]'
	$(BIN)/python -m pytest -n 3 $(ARGS)

coverage:  ## run the tests, and tell which lines none of them reaches
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
	$(PIP) 'osmef[docs]'
	$(BIN)/mkdocs build --strict

bench: $(DEVELOP) $(AGENT)  ## compare the agent with its peers, in one run; writes docs/benchmarks.md
	-tools/bootstrap iperf3 iperf nuttcp netpipe-tcp sockperf wrk apache2-utils nginx-light  # what is missing is left out
	$(BIN)/python -m tests.bench $(BENCH_ARGS)

bench-openstack: $(DEVELOP)  ## make and delete pairs on an OpenStack, as root; ten minutes; writes its section
	$(BIN)/python -m tests.bench.openstack $(BENCH_ARGS)

openstack-cloud:  ## start a real OpenStack cloud here, with fake hypervisors
	$(PYTHON) -m tests.openstack up $(ARGS)

openstack-down:  ## stop it, and remove all it wrote
	$(PYTHON) -m tests.openstack down --purge $(ARGS)

openstack-volumes-test: $(DEVELOP) $(AGENT)  ## boot servers from volumes, as root; some five minutes
	$(BIN)/python -m pytest -m volumes tests/providers/openstack $(ARGS)

openstack-real: $(DEVELOP)  ## start an OpenStack whose hosts, networks and guests are real, as root
	$(BIN)/python -m tests.openstack up --real $(ARGS)

openstack-real-down: $(DEVELOP)  ## stop it, and remove all it wrote
	$(BIN)/python -m tests.openstack down --purge --real $(ARGS)

openstack-real-test: $(DEVELOP) $(AGENT)  ## measure between its guests, as root; some ten minutes
	$(BIN)/python -m pytest -m real_guests tests/openstack $(ARGS)

cloud-init-test: $(DEVELOP) $(AGENT)  ## measure between guests of a Debian with cloud-init, as root; some ten minutes
	tools/bootstrap mmdebstrap grub-common grub-pc-bin genisoimage qemu-system-x86 qemu-utils libvirt-daemon-system libvirt-dev pkg-config gcc libc6-dev python3-dev
	$(PIP) 'osmef[libvirt]'
	$(BIN)/python -m pytest -m real_guests tests/providers/libvirt $(ARGS)

clean:  ## remove what was built; results stay
	rm -rf $(VENV) build dist site osmef/agent/bin .mypy_cache .pytest_cache .ruff_cache

# Without byte code of what is never imported, and with one compiler for installing and for `make agents`:
# the first result comes minutes sooner.
$(READY): pyproject.toml tools/bootstrap
	tools/bootstrap
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' >$(VENV)/builders
	$(PIP) editables -r $(VENV)/builders
	$(PIP) --no-build-isolation -e .
	touch $@

$(DEVELOP): $(READY)
	$(PIP) 'osmef[dev]'
	touch $@

$(AGENT): $(AGENT_SOURCES) agents/build.py | $(READY)
	$(BIN)/python agents/build.py --target $(MACHINE)
	touch $@
