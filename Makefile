# servesweep: every target sets up what it needs. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PROGRAM := $(VENV)/.program
TOOLS := $(VENV)/.tools
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# The first interpreter that runs, is 3.11 or newer and can make virtual environments.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

.PHONY: help setup tools sweep simulate nightly test test-long lint format notebooks readme validate bench clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

setup: $(PROGRAM)  ## make .venv with the program in it (quick when it is there)
	@:

$(PROGRAM): pyproject.toml
	@[ -n "$(PYTHON)" ] || { echo "servesweep needs Python 3.11 or newer with its venv module; set PYTHON=/path/to/python3" >&2; exit 2; }
	@echo "setting up $(VENV) with $$($(PYTHON) --version)"
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@$(PIP) --editable '.[search]'
	@touch $@

tools: $(TOOLS)  ## add what tests, linting and calibration need
	@:

$(TOOLS): $(PROGRAM)
	@echo "adding the tools for tests and linting"
	@$(PIP) --editable '.[dev]'
	@touch $@

sweep: setup  ## the main job: the default grid, its Pareto plots, four candidates simulated, and its report
	@$(BIN)/servesweep sweep des.top=4

simulate: setup  ## simulate one deployment request by request
	@$(BIN)/servesweep simulate

nightly: setup  ## the unattended planning job, on its small built-in log
	@$(BIN)/servesweep nightly job=demo

test: tools  ## the tests (minutes)
	@$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m 'not long' --nbmake tests notebooks

test-long: tools  ## the long tests too
	@$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --nbmake tests notebooks

lint: tools  ## format, lint and types
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy

format: tools  ## rewrite the files as the linter wants them
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

# Folder of measured tables and runs.
MEASURED ?= ../shared/measured
TABLES := $(patsubst %,$(MEASURED)/%.csv,silicon_dev amd_dev throughput_dev kv_capacity_dev allreduce_dev) $(MEASURED)/vllm_runs

validate: setup  ## score the model on measured tables: README's table, docs/validation.md, docs/parity.png
	@$(BIN)/servesweep validate $(TABLES) --operator-profiles $(MEASURED)/operator_profiles \
		--plot docs/parity.png --markdown docs/validation.md --markdown README.md

notebooks: tools  ## run the notebooks and keep their outputs
	@$(BIN)/python -m pytest --nbmake --overwrite notebooks

readme: setup  ## run the main job; its table into README.md, its picture into docs/pareto.png
	@rm -rf results/readme
	@$(BIN)/servesweep output.dir=results/readme
	@$(BIN)/python -m sweep.readme_page results/readme

bench: setup  ## rows, steps and requests per second on this machine
	@$(BIN)/servesweep bench

clean:  ## remove .venv and caches (results stay)
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find kernels sweep tests -name __pycache__ -type d -prune -exec rm -rf {} +
