# The two commands are `make run` (a first measurement) and `make test`. The rest is for developers.
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
AGENT_SOURCES := $(wildcard agents/osmef-agent/*.c agents/osmef-agent/*.h)
AGENTS := osmef/agent/bin/osmef-agent-x86_64

.PHONY: run test lint types docs bench coverage clean

run: $(READY) $(AGENTS)  ## set everything up and make a first measurement
	$(BIN)/osmef run scenarios/quickstart.yaml

test: $(READY) $(AGENTS)  ## run the tests, with coverage
	$(BIN)/python -m pytest --cov --cov-report=term $(ARGS)

lint: $(READY)  ## check style and who imports whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(READY)  ## check types
	$(BIN)/mypy

docs: $(READY)  ## build the manual into site/
	$(BIN)/pip install --quiet -e '.[docs]'
	$(BIN)/mkdocs build --strict

bench: $(READY) $(AGENTS)  ## compare the agent with its peers, in one run
	tools/bootstrap iperf3 nuttcp
	$(BIN)/python -m tests.bench

clean:  ## remove what was built; results stay
	rm -rf $(VENV) build dist site osmef/agent/bin .mypy_cache .pytest_cache .ruff_cache

$(READY): pyproject.toml tools/bootstrap
	PYTHON=$(PYTHON) tools/bootstrap
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -e '.[dev]'
	touch $@

$(AGENTS): $(AGENT_SOURCES) agents/build.py | $(READY)
	$(BIN)/python agents/build.py
	touch $@
