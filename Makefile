# Everything runs in a virtual environment of its own: nothing needs to be installed beforehand but Python 3.11+.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help install demo docs lint test axe clean

help: ## this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 10

install: $(STAMP) ## the project and its tools, in .venv

$(STAMP): pyproject.toml CMakeLists.txt $(wildcard src/kernels/*)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: $(STAMP) ## find a Markov blanket in data from a known Bayesian network
	$(BIN)/fbed demo

docs: $(STAMP) ## bring the table of families up to date
	$(BIN)/python -m fbed.families docs/families.md

lint: $(STAMP) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint ## lint, then every test
	$(BIN)/python -m pytest -n auto

axe: build/axe-core/axe.min.js ## the accessibility checker that the browser test of the report uses if it is there

build/axe-core/axe.min.js:
	mkdir -p $(@D)
	cd $(@D) && npm pack --silent axe-core@4 && tar -xzf axe-core-*.tgz --strip-components=1 package/axe.min.js
	touch $@

clean: ## remove what the other commands made
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
